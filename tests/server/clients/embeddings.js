// openai and ollama against tessera serve --embeddings: vectors as base64 and as numbers, and those of Ollama.
import { Ollama } from "ollama";
import OpenAI from "openai";

import { address, assert, errorOf, runCases, test } from "./support.js";

const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "any", maxRetries: 0 });
const ollama = new Ollama({ host: address });
const model = "story";
const input = ["Once upon a time", "The dog"];

const lengthOf = (vector) => Math.hypot(...vector);

test("vectors, which the library asks for as base64", async () => {
  const list = await client.embeddings.create({ model, input });
  assert.equal(list.data.length, 2);
  assert.ok(list.usage.prompt_tokens > 0);
  const plain = await client.embeddings.create({ model, input, encoding_format: "float" });
  for (const [i, { embedding }] of list.data.entries()) {
    assert.ok(Array.isArray(embedding));
    assert.ok(Math.abs(lengthOf(embedding) - 1) < 1e-5);
    assert.deepEqual(embedding, plain.data[i].embedding.map(Math.fround));
  }
});

test("dimensions", async () => {
  const cut = await client.embeddings.create({ model, input: input[0], dimensions: 8 });
  assert.equal(cut.data[0].embedding.length, 8);
  const error = await errorOf(client.embeddings.create({ model, input: input[0], dimensions: 100000 }));
  assert.equal(error.status, 400);
  assert.equal(error.param, "dimensions");
});

test("Ollama's vectors are the same", async () => {
  const list = await client.embeddings.create({ model, input });
  const answer = await ollama.embed({ model, input });
  assert.equal(answer.model, model);
  assert.deepEqual(
    answer.embeddings.map((vector) => vector.map(Math.fround)),
    list.data.map(({ embedding }) => embedding),
  );
  const one = await ollama.embeddings({ model, prompt: input[0] });
  assert.equal(one.embedding.length, answer.embeddings[0].length);
  assert.ok((await ollama.show({ model })).capabilities.includes("embedding"));
});

await runCases();
