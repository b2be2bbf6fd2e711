// openai against tessera serve: responses, whole and as streams, functions, stored ones.
import OpenAI from "openai";

import { address, assert, errorOf, runCases, test } from "./support.js";

const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "any", maxRetries: 0 });
const model = "story";
const input = "Tell me a story";
const reasoning = { effort: "none" };
const schema = {
  type: "object",
  properties: { is_today: { type: "boolean" } },
  required: ["is_today"],
  additionalProperties: false,
};
const tools = [{ type: "function", name: "get_weather", description: "Weather", parameters: schema, strict: true }];

test("a response", async () => {
  const response = await client.responses.create({ model, input, max_output_tokens: 12, reasoning });
  assert.equal(response.object, "response");
  assert.equal(response.output[0].content[0].text, response.output_text);
  assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens);
});

test("a stream", async () => {
  const stream = await client.responses.create({ model, input, max_output_tokens: 12, reasoning, stream: true });
  let text = "";
  let next = 0;
  let last;
  for await (const event of stream) {
    assert.equal(event.sequence_number, next++);
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.ok(["response.completed", "response.incomplete"].includes(last.type));
  assert.equal(last.response.output_text, text);
});

test("the stream helper, with reasoning", async () => {
  const stream = client.responses.stream({ model, input: "Think", max_output_tokens: 60 });
  const response = await stream.finalResponse();
  assert.ok(response.output.length >= 1);
});

test("a function and its output", async () => {
  const forced = { model, input, tools, max_output_tokens: 900, reasoning, tool_choice: "required" };
  const response = await client.responses.create({ ...forced, parallel_tool_calls: false });
  const [call] = response.output;
  assert.equal(call.type, "function_call");
  assert.equal(typeof JSON.parse(call.arguments).is_today, "boolean");
  const streamed = await client.responses.stream({ ...forced, parallel_tool_calls: false }).finalResponse();
  assert.equal(typeof JSON.parse(streamed.output[0].arguments).is_today, "boolean");
  const answer = await client.responses.create({
    model,
    tools,
    reasoning,
    tool_choice: "none",
    max_output_tokens: 8,
    previous_response_id: response.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }],
  });
  assert.equal(answer.previous_response_id, response.id);
});

test("a schema", async () => {
  const response = await client.responses.create({
    model,
    input,
    reasoning,
    max_output_tokens: 400,
    text: { format: { type: "json_schema", name: "weather", schema, strict: true } },
  });
  assert.equal(typeof JSON.parse(response.output_text).is_today, "boolean");
});

test("tokens are counted, responses fetched and deleted", async () => {
  const response = await client.responses.create({ model, input, max_output_tokens: 4, reasoning });
  const count = await client.responses.inputTokens.count({ model, input, reasoning });
  assert.equal(count.input_tokens, response.usage.input_tokens);
  assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
  await client.responses.delete(response.id);
  assert.ok((await errorOf(client.responses.retrieve(response.id))) instanceof OpenAI.NotFoundError);
});

await runCases();
