// @anthropic-ai/sdk against tessera serve: messages, streams, tools, thinking, counts, errors, abort.
import Anthropic from "@anthropic-ai/sdk";

import { address, assert, errorOf, runCases, test } from "./support.js";

const client = new Anthropic({ baseURL: address, apiKey: "any", maxRetries: 0 });
const model = "story";
const messages = [{ role: "user", content: "Tell me a story" }];
const withoutThinking = { type: "disabled" };
const weather = {
  name: "get_weather",
  description: "Weather of a place",
  input_schema: {
    type: "object",
    properties: { is_today: { type: "boolean" } },
    required: ["is_today"],
    additionalProperties: false,
  },
};

test("a message", async () => {
  const message = await client.messages.create({
    model,
    max_tokens: 12,
    system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }],
    messages,
    thinking: withoutThinking,
  });
  assert.equal(message.type, "message");
  assert.equal(message.content[0].type, "text");
  assert.ok(["max_tokens", "end_turn"].includes(message.stop_reason));
  assert.ok(message.usage.output_tokens <= 12);
  assert.ok(message._request_id);
});

test("events of a stream", async () => {
  const types = [];
  const stream = await client.messages.create({
    model,
    max_tokens: 12,
    messages,
    thinking: withoutThinking,
    stream: true,
  });
  for await (const event of stream) if (types.at(-1) !== event.type) types.push(event.type);
  assert.deepEqual(types, [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
  ]);
});

test("the stream helper", async () => {
  let text = "";
  const stream = client.messages
    .stream({ model, max_tokens: 24, messages, thinking: withoutThinking })
    .on("text", (delta) => {
      text += delta;
    });
  const message = await stream.finalMessage();
  assert.ok(text.length > 0);
  assert.equal(message.content[0].text, text);
  assert.equal(message.usage.output_tokens > 0, true);
});

test("a tool and its result", async () => {
  const request = { model, max_tokens: 900, messages, tools: [weather], thinking: withoutThinking };
  const forced = { ...request, tool_choice: { type: "tool", name: "get_weather", disable_parallel_tool_use: true } };
  const message = await client.messages.create(forced);
  assert.equal(message.stop_reason, "tool_use");
  const use = message.content.find((block) => block.type === "tool_use");
  assert.equal(use.name, "get_weather");
  assert.equal(typeof use.input.is_today, "boolean");

  const streamed = await client.messages.stream(forced).finalMessage();
  assert.equal(typeof streamed.content.find((block) => block.type === "tool_use").input.is_today, "boolean");

  const answer = await client.messages.create({
    ...request,
    max_tokens: 8,
    tool_choice: { type: "none" },
    messages: [
      ...messages,
      { role: "assistant", content: message.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "sunny" }] },
    ],
  });
  assert.equal(answer.type, "message");
});

test("parallel tools are blocks of their own", async () => {
  const message = await client.messages.stream({
    model,
    max_tokens: 600,
    messages,
    tools: [weather],
    thinking: withoutThinking,
    tool_choice: { type: "any" },
  }).finalMessage();
  const uses = message.content.filter((block) => block.type === "tool_use");
  assert.ok(uses.length >= 1);
  assert.equal(new Set(uses.map((use) => use.id)).size, uses.length);
});

test("thinking comes back as a block", async () => {
  const request = {
    model,
    max_tokens: 300,
    messages: [{ role: "user", content: "Think" }],
    thinking: { type: "enabled", budget_tokens: 1024 },
    output_config: { format: { type: "json_schema", schema: { type: "boolean" } } },
  };
  const message = await client.messages.create(request);
  let thinking = "";
  const stream = client.messages.stream(request).on("thinking", (delta) => {
    thinking += delta;
  });
  const streamed = await stream.finalMessage();
  for (const one of [message, streamed])
    for (const block of one.content) {
      assert.ok(["thinking", "text"].includes(block.type));
      if (block.type === "thinking") assert.equal(block.signature, "");
    }
  if (streamed.content[0]?.type === "thinking") assert.equal(streamed.content[0].thinking, thinking);
});

test("tokens are counted", async () => {
  const count = await client.messages.countTokens({ model, messages });
  const longer = await client.messages.countTokens({ model, messages, system: "Be brief" });
  assert.ok(count.input_tokens > 0);
  assert.ok(longer.input_tokens > count.input_tokens);
});

test("models are listed", async () => {
  const page = await client.models.list();
  assert.equal(page.data.length, 1);
  assert.equal((await client.models.retrieve(page.data[0].id)).id, page.data[0].id);
});

test("errors have their classes", async () => {
  const robot = { role: "robot", content: "a" };
  const bad = await errorOf(client.messages.create({ model, max_tokens: 4, messages: [robot] }));
  assert.ok(bad instanceof Anthropic.BadRequestError);
  assert.equal(bad.status, 400);
  assert.equal(bad.error.error.type, "invalid_request_error");
  assert.match(bad.message, /messages\[0\]\.role/);
  assert.ok(bad.requestID);
  const absent = await errorOf(client.models.retrieve("absent"));
  assert.ok(absent instanceof Anthropic.NotFoundError);
  const long = await errorOf(
    client.messages.create({ model, max_tokens: 4, messages: [{ role: "user", content: "story ".repeat(20000) }] }),
  );
  assert.match(long.message, /exceeds the available context size/);
});

test("an aborted stream frees its slot", async () => {
  const stream = client.messages.stream({ model, max_tokens: 900, messages, ignore_eos: true });
  const error = await errorOf(
    (async () => {
      for await (const event of stream) if (event.type === "content_block_delta") stream.abort();
    })(),
  );
  assert.ok(error instanceof Anthropic.APIUserAbortError);
  await client.messages.create({ model, max_tokens: 1, messages });
});

await runCases();
