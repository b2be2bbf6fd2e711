// openai against tessera serve with one slot and a short queue: a refused request is sent again and then answered.
// TESSERA_REFUSAL is the status of the refusal: 429 for a client's own queue, 503 for that of all clients.
import OpenAI from "openai";

import { address, assert, errorOf, runCases, test } from "./support.js";

const refusal = Number(process.env.TESSERA_REFUSAL);
const options = { baseURL: `${address}/v1`, apiKey: "any" };
const model = "story";
const messages = [{ role: "user", content: "Tell me a story" }];

test(`a request is sent again after ${refusal}`, async () => {
  // A stream without end holds the only slot, and a second request fills the queue.
  const busy = new OpenAI({ ...options, maxRetries: 0 });
  const controller = new AbortController();
  const endless = () =>
    errorOf(
      busy.chat.completions.create(
        { model, messages, max_tokens: 100000, ignore_eos: true },
        { signal: controller.signal },
      ),
    );
  const running = endless();
  await until(async () => (await metric("requests_processing")) === 1);
  const waiting = endless();
  await until(async () => (await metric("requests_deferred")) === 1);

  const statuses = [];
  const patient = new OpenAI({
    ...options,
    maxRetries: 10,
    fetch: async (...request) => {
      const response = await fetch(...request);
      statuses.push(response.status);
      assert.ok(response.status === 200 || Number(response.headers.get("retry-after")) >= 1);
      if (response.status === refusal) controller.abort();
      return response;
    },
  });
  const chat = await patient.chat.completions.create({ model, messages, max_tokens: 1 });
  assert.equal(chat.object, "chat.completion");
  assert.equal(statuses[0], refusal);
  assert.equal(statuses.at(-1), 200);
  for (const error of await Promise.all([running, waiting])) assert.ok(error instanceof OpenAI.APIUserAbortError);
});

async function metric(name) {
  const text = await (await fetch(`${address}/metrics`)).text();
  return Number(text.match(new RegExp(`^llamacpp:${name}\\S* (\\S+)$`, "m"))?.[1]);
}

async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

await runCases();
