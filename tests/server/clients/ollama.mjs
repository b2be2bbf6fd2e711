// The npm package `ollama` against a running server. Needs no particular model: the checks hold for any reply.
import { Ollama } from "ollama";
import { address, assert, runCases, test } from "./support.js";

const ollama = new Ollama({ host: address });

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const options = { num_predict: 12, seed: 7, temperature: 0 };
const messages = [{ role: "user", content: "Tell me a story" }];
const model = (await ollama.list()).models[0].model;

test("list", async () => {
  const [entry] = (await ollama.list()).models;
  assert.equal(entry.name, model);
  assert.match(entry.digest, /^[0-9a-f]{64}$/);
  assert.equal(entry.details.format, "gguf");
  assert.ok(!Number.isNaN(Date.parse(entry.modified_at)));
});

test("show", async () => {
  const shown = await ollama.show({ model });
  assert.ok(shown.capabilities.includes("completion"));
  assert.equal(typeof shown.model_info["general.architecture"], "string");
  await assert.rejects(ollama.show({ model: "no-such-model" }), { status_code: 404, error: "model 'no-such-model' not found" });
});

test("version", async () => assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+$/));

test("generate", async () => {
  const whole = await ollama.generate({ model, prompt: "Once upon a time", options });
  assert.equal(whole.done, true);
  assert.ok(whole.eval_count >= 1 && whole.eval_duration >= 1);
  const parts = await collect(await ollama.generate({ model, prompt: "Once upon a time", options, stream: true }));
  assert.equal(parts.map((part) => part.response).join(""), whole.response);
  assert.deepEqual(parts.at(-1).context, whole.context);
  const next = await ollama.generate({ model, prompt: "And then?", context: whole.context, options });
  assert.ok(next.prompt_eval_count > whole.context.length);
});

test("raw", async () => {
  const raw = await ollama.generate({ model, prompt: "Once upon a time", raw: true, options });
  assert.equal(raw.model, model);
  assert.equal(raw.context, undefined);
});

test("chat", async () => {
  const whole = await ollama.chat({ model, messages, options });
  assert.equal(whole.message.role, "assistant");
  const parts = await collect(await ollama.chat({ model, messages, options, stream: true }));
  assert.equal(parts.map((part) => part.message.content).join(""), whole.message.content);
  assert.equal(parts.at(-1).done, true);
  assert.ok(["stop", "length"].includes(parts.at(-1).done_reason));
});

test("logprobs", async () => {
  const whole = await ollama.chat({ model, messages, options, logprobs: true, top_logprobs: 2 });
  assert.equal(whole.logprobs.length, whole.eval_count);
  assert.equal(whole.logprobs[0].top_logprobs.length, 2);
});

test("tools", async () => {
  const tools = [{
    type: "function",
    function: {
      name: "add",
      description: "Adds two numbers",
      parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
    },
  }];
  const history = [
    ...messages,
    { role: "assistant", content: "", tool_calls: [{ function: { name: "add", arguments: { a: 1, b: 2 } } }] },
    { role: "tool", tool_name: "add", content: "3" },
  ];
  const whole = await ollama.chat({ model, messages: history, tools, options });
  assert.equal(whole.message.role, "assistant");
  for (const call of whole.message.tool_calls ?? []) assert.equal(typeof call.function.arguments, "object");
});

test("format", async () => {
  const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };
  const chat = await ollama.chat({ model, messages, format: schema, think: false, options: { ...options, num_predict: 400 } });
  assert.equal(typeof JSON.parse(chat.message.content).ok, "boolean");
  const any = await ollama.generate({ model, prompt: "a", format: "json", think: false, options: { ...options, num_predict: 100 } });
  assert.ok(any.response.trimStart().startsWith("{"));
});

test("ps", async () => {
  await ollama.generate({ model, prompt: "", keep_alive: "1h" });
  const [entry] = (await ollama.ps()).models;
  const inMinutes = (new Date(entry.expires_at) - Date.now()) / 60000;
  assert.ok(inMinutes > 30 && inMinutes < 90, entry.expires_at);
});

test("load", async () => {
  assert.equal((await ollama.generate({ model, prompt: "" })).done_reason, "load");
  assert.equal((await ollama.chat({ model, messages: [], keep_alive: 0 })).done_reason, "unload");
});

test("errors", async () => {
  await assert.rejects(ollama.generate({ model, prompt: "a", options: { top_p: 2 } }), {
    status_code: 400,
    error: "Field 'options.top_p': value 2, want 0 to 1",
  });
  await assert.rejects(ollama.generate({ model, prompt: "a", stream: true, images: ["aaaa"] }), { status_code: 400 });
  await assert.rejects(ollama.delete({ model }), { status_code: 403 });
});

test("pull", async () => {
  assert.equal((await ollama.pull({ model })).status, "success");
  const parts = await collect(await ollama.pull({ model, stream: true }));
  assert.equal(parts.at(-1).status, "success");
});

test("embed", async () => {
  // Servers without --embeddings answer 501.
  const embedded = await ollama.embed({ model, input: ["a", "b"] }).catch((error) => error);
  if (embedded instanceof Error) assert.equal(embedded.status_code, 501);
  else assert.equal(embedded.embeddings.length, 2);
});

test("abort", async () => {
  const endless = { ...options, num_predict: -1, ignore_eos: true };
  const stream = await ollama.chat({ model, messages, options: endless, stream: true });
  await assert.rejects(
    (async () => {
      for await (const part of stream) if (part.done === false) stream.abort();
    })(),
    { name: "AbortError" },
  );
  // The server is free again.
  assert.equal((await ollama.generate({ model, prompt: "a", options })).done, true);
});

await runCases();
