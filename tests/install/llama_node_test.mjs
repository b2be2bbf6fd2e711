// A program of node-llama-cpp, which prints what it gets: llama_node_test.mjs PACKAGES MODEL GREEDY.json FOLDER
// It is run with the package's own libllama and with ours; the outputs must be the same.
import {createHash} from "node:crypto";
import {readFileSync, unlinkSync, writeFileSync} from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [packages, modelPath, greedyPath, folder] = process.argv.slice(2);
const entry = path.join(packages, "node_modules/node-llama-cpp/dist/index.js");
const {getLlama, LlamaChatSession, LlamaCompletion, LlamaGrammar, GeneralChatWrapper} =
    await import(pathToFileURL(entry).href);
const golden = JSON.parse(readFileSync(greedyPath, "utf8")).runs;

async function show(name, body) {
  try {
    console.log(`${name}: ${JSON.stringify(await body())}`);
  } catch (error) {
    console.log(`${name}: error: ${String(error?.message ?? error).split("\n")[0]}`);
  }
}

const llama = await getLlama({gpu: false, build: "never", skipDownload: true, logLevel: process.env.LOG ?? "error"});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 512, sequences: 2, threads: 1});

await show("model", () => ({
  train: model.trainContextSize, size: model.size, embedding: model.embeddingVectorSize, special: [
    model.tokens.bos, model.tokens.eos, model.tokens.eot, model.tokens.nl].map((t) => t ?? -1),
  flash: model.flashAttentionSupported, vocabulary: model.vocabularyType,
}));
await show("tokens", () => ["Once upon a time", " a  b", "<s>x", "é漢😀"].map((text) => {
  const tokens = model.tokenize(text, false), special = model.tokenize(text, true);
  return [tokens, special, model.detokenize(tokens), model.detokenize(special, true)];
}));

const first = context.getSequence();
async function greedy(sequence, ids, n) {
  await sequence.clearHistory();
  const found = [];
  for await (const token of sequence.evaluate(ids, {temperature: 0})) {
    found.push(token);
    if (found.length === n) break;
  }
  return found;
}
for (const [i, run] of golden.entries()) {
  await show(`greedy ${i}`, async () => {
    const want = run.result.ids;
    const ids = await greedy(first, run.result.prompt_ids, want.length);
    return JSON.stringify(ids) === JSON.stringify(want) ? "as golden" : ids;
  });
}
await show("two sequences", async () => {
  const second = context.getSequence();
  const results = await Promise.all([greedy(first, model.tokenize("Tom had a dog"), 12),
    greedy(second, model.tokenize("The sun was"), 12)]);
  second.dispose();
  return results.map((ids) => model.detokenize(ids));
});
await show("context shift", async () => {
  const small = await model.createContext({contextSize: 256, threads: 1});
  const sequence = small.getSequence();
  const completion = new LlamaCompletion({contextSequence: sequence});
  const text = await completion.generateCompletion("Once upon a time", {maxTokens: 320, temperature: 0});
  await small.dispose();
  return createHash("sha256").update(text.slice(0, 200)).digest("hex");
});
await show("erase", async () => {
  await greedy(first, model.tokenize("One day, a little girl"), 8);
  const before = first.nextTokenIndex;
  await first.eraseContextTokenRanges([{start: 4, end: before}]);
  return [before, first.nextTokenIndex];
});
await show("samplers", async () => {
  await first.clearHistory();
  const settings = {temperature: 0.8, topK: 1, topP: 0.9, minP: 0.05, seed: 7,
    repeatPenalty: {punishTokens: () => [5, 6], penalty: 1.2, frequencyPenalty: 0.1, presencePenalty: 0.1},
    dryRepeatPenalty: {strength: 0.5}, xtc: {probability: 0, threshold: 0.1}};
  const found = [];
  for await (const token of first.evaluate(model.tokenize("Once upon a time"), settings)) {
    found.push(token);
    if (found.length === 10) break;
  }
  return found;
});
await show("probabilities", async () => {
  await first.clearHistory();
  const items = [];
  for await (const item of first.evaluateWithMetadata(model.tokenize("Once upon a"), {probabilities: true,
    confidence: true}, {temperature: 0})) {
    const best = [...item.probabilities.entries()].slice(0, 4);
    items.push([item.token, item.confidence.toFixed(3), best.map(([t, p]) => [t, p.toFixed(3)])]);
    if (items.length === 2) break;
  }
  return items;
});
const completion = new LlamaCompletion({contextSequence: first});
await show("completion", () => completion.generateCompletion("The cat", {maxTokens: 16, temperature: 0}));
await show("grammar", async () => {
  const grammar = new LlamaGrammar(llama, {grammar: 'root ::= ("yes" | "no") "!" [0-9] [0-9]'});
  return completion.generateCompletion("He said ", {grammar, maxTokens: 20, temperature: 0});
});
await show("JSON schema", async () => {
  const grammar = await llama.createGrammarForJsonSchema({type: "object",
    properties: {ok: {type: "boolean"}, kind: {enum: ["a", "b"]}}});
  const text = await completion.generateCompletion("{", {grammar, maxTokens: 60, temperature: 0});
  return Object.keys(grammar.parse(text));
});
await show("grammar check", async () => {
  const grammar = new LlamaGrammar(llama, {grammar: 'root ::= "ab"+'});
  return ["ab", "abab", "a", "b", ""].map((text) => grammar._testText(text));
});
await show("bad grammar", async () => {
  const grammar = new LlamaGrammar(llama, {grammar: "root ::= ("});
  await completion.generateCompletion("x", {grammar, maxTokens: 4});
  return "accepted";
});
await show("chat", async () => {
  const session = new LlamaChatSession({contextSequence: first, chatWrapper: new GeneralChatWrapper()});
  const answers = [await session.prompt("Tell me of a dog", {maxTokens: 12, temperature: 0}),
    await session.prompt("And then?", {maxTokens: 12, temperature: 0})];
  session.dispose({disposeSequence: false});
  return answers;
});
await show("state file", async () => {
  const file = path.join(folder, "state.bin");
  await greedy(first, model.tokenize("A big red ball"), 6);
  const tokens = first.nextTokenIndex;
  await first.saveStateToFile(file);
  await first.clearHistory();
  await first.loadStateFromFile(file, {acceptRisk: true});
  const found = [];
  for await (const token of first.evaluate(model.tokenize(" and"), {temperature: 0})) {
    found.push(token);
    if (found.length === 6) break;
  }
  writeFileSync(file, readFileSync(file).subarray(0, 100));
  let damaged = "accepted";
  await first.loadStateFromFile(file, {acceptRisk: true}).catch(() => (damaged = "refused"));
  unlinkSync(file);
  return [tokens, found, damaged];
});
await show("abort", async () => {
  const stop = new AbortController();
  let n = 0;
  const text = await completion.generateCompletion("Once", {maxTokens: 200, temperature: 0, signal: stop.signal,
    onTextChunk: () => { if (++n === 5) stop.abort(); }}).catch((error) => `stopped: ${error.name} ${error.message}`);
  return [text, n < 10];
});
await show("embedding", async () => {
  const embedding = await model.createEmbeddingContext({threads: 1});
  const vector = (await embedding.getEmbeddingFor("a small cat")).vector;
  const other = (await embedding.getEmbeddingFor("a tiny cat")).vector;
  await embedding.dispose();
  const dot = vector.reduce((sum, x, i) => sum + x * other[i], 0);
  const norms = Math.hypot(...vector) * Math.hypot(...other);
  return [vector.length, (dot / norms).toFixed(3), vector.slice(0, 3).map((x) => x.toFixed(2))];
});
await show("reload", async () => {
  for (let i = 0; i < 5; ++i) {
    const again = await llama.loadModel({modelPath});
    const one = await again.createContext({contextSize: 256, threads: 1});
    await greedy(one.getSequence(), again.tokenize("Once"), 2);
    await one.dispose();
    await again.dispose();
  }
  return "five times";
});
await show("bad model", async () => {
  const file = path.join(folder, "bad.gguf");
  writeFileSync(file, Buffer.concat([readFileSync(modelPath).subarray(0, 3000), Buffer.alloc(100, 0xff)]));
  await llama.loadModel({modelPath: file});
  return "accepted";
});
const maps = readFileSync("/proc/self/maps", "utf8");
console.error(`library: ${maps.includes("libtessera.so") ? "tessera" : "llama.cpp"}`);
console.log("done");
process.exit(0);  // after a failed load this version of the package never settles dispose()
