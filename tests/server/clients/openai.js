// openai against tessera serve: chats, streams, tools, choices, probabilities, schemas, abort.
import OpenAI from "openai";

import { address, assert, errorOf, runCases, test } from "./support.js";

const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "any", maxRetries: 0 });
const model = "story";
const messages = [{ role: "user", content: "Tell me a story" }];
const withoutThinking = { reasoning_effort: "none" };
const schema = {
  type: "object",
  properties: { is_today: { type: "boolean" } },
  required: ["is_today"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "get_weather", description: "Weather", parameters: schema } }];

test("a chat", async () => {
  const chat = await client.chat.completions.create({ model, messages, max_tokens: 12, ...withoutThinking });
  assert.equal(chat.object, "chat.completion");
  assert.equal(chat.choices[0].message.role, "assistant");
  assert.ok(["stop", "length"].includes(chat.choices[0].finish_reason));
  assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + chat.usage.completion_tokens);
});

test("a stream with usage", async () => {
  const stream = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 12,
    stream: true,
    stream_options: { include_usage: true },
  });
  let last;
  for await (const chunk of stream) last = chunk;
  assert.equal(last.choices.length, 0);
  assert.ok(last.usage.completion_tokens > 0);
});

test("the stream helper", async () => {
  const stream = client.chat.completions.stream({ model, messages, max_tokens: 16, ...withoutThinking });
  let text = "";
  stream.on("content", (delta) => {
    text += delta;
  });
  const chat = await stream.finalChatCompletion();
  assert.equal(chat.choices[0].message.content, text);
});

test("a tool and its result", async () => {
  const request = { model, messages, tools, max_tokens: 900, ...withoutThinking };
  const forced = { ...request, tool_choice: "required", parallel_tool_calls: false };
  const chat = await client.chat.completions.create(forced);
  assert.equal(chat.choices[0].finish_reason, "tool_calls");
  const [call] = chat.choices[0].message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.equal(typeof JSON.parse(call.function.arguments).is_today, "boolean");
  const answer = await client.chat.completions.create({
    ...request,
    max_tokens: 8,
    tool_choice: "none",
    messages: [
      ...messages,
      chat.choices[0].message,
      { role: "tool", tool_call_id: call.id, content: "sunny" },
    ],
  });
  assert.equal(answer.choices[0].message.role, "assistant");
});

test("parallel tools in a stream", async () => {
  const stream = client.chat.completions.stream({
    model,
    messages,
    tools,
    max_tokens: 600,
    tool_choice: "required",
    parallel_tool_calls: true,
    ...withoutThinking,
  });
  const calls = [];
  for await (const chunk of stream)
    for (const delta of chunk.choices[0]?.delta.tool_calls ?? []) {
      calls[delta.index] ??= { name: "", text: "", id: delta.id };
      calls[delta.index].name += delta.function?.name ?? "";
      calls[delta.index].text += delta.function?.arguments ?? "";
    }
  assert.ok(calls.length >= 1);
  assert.equal(new Set(calls.map((call) => call.id)).size, calls.length);
  assert.equal(calls[0].name, "get_weather");
  assert.equal(typeof JSON.parse(calls[0].text).is_today, "boolean");
});

test("choices and probabilities", async () => {
  const chat = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 5,
    n: 3,
    logprobs: true,
    top_logprobs: 2,
  });
  assert.deepEqual(chat.choices.map((choice) => choice.index), [0, 1, 2]);
  for (const { logprobs } of chat.choices)
    for (const token of logprobs.content) {
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs.length, 2);
    }
});

test("a schema", async () => {
  const chat = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 400,
    response_format: { type: "json_schema", json_schema: { name: "weather", strict: true, schema } },
    ...withoutThinking,
  });
  assert.equal(typeof JSON.parse(chat.choices[0].message.content).is_today, "boolean");
});

test("a completion", async () => {
  const completion = await client.completions.create({ model, prompt: "Once upon a time", max_tokens: 4 });
  assert.equal(completion.object, "text_completion");
});

test("models", async () => {
  const page = await client.models.list();
  assert.equal(page.data[0].object, "model");
  assert.equal((await client.models.retrieve(page.data[0].id)).id, page.data[0].id);
});

test("errors have their classes", async () => {
  const bad = await errorOf(client.chat.completions.create({ model, messages, top_p: 7 }));
  assert.ok(bad instanceof OpenAI.BadRequestError);
  assert.equal(bad.param, "top_p");
  assert.match(bad.message, /0 to 1/);
});

test("an aborted stream frees its slot", async () => {
  const stream = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 900,
    ignore_eos: true,
    stream: true,
  });
  for await (const _ of stream) stream.controller.abort();
  await client.chat.completions.create({ model, messages, max_tokens: 1 });
});

await runCases();
