// Tokens per second of a program of node-llama-cpp: node_llama.mjs PACKAGES MODEL N_TOKENS THREADS
// Prints the speed of a second text, with the library and the text on stderr.
import path from "node:path";
import {pathToFileURL} from "node:url";

const [packages, modelPath, nTokens, threads] = process.argv.slice(2);
const entry = path.join(packages, "node_modules/node-llama-cpp/dist/index.js");
const {getLlama} = await import(pathToFileURL(entry).href);
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, logLevel: "error"});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 512, threads: Number(threads)});
const sequence = context.getSequence();

async function generate() {
  await sequence.clearHistory();
  const tokens = [];
  const begin = performance.now();
  for await (const token of sequence.evaluate(model.tokenize("Once upon a time"), {temperature: 0, yieldEogToken: true})) {
    tokens.push(token);
    if (tokens.length === Number(nTokens)) break;
  }
  return {tokens, seconds: (performance.now() - begin) / 1000};
}

await generate();
const {tokens, seconds} = await generate();
console.error(model.detokenize(tokens));
console.log((tokens.length / seconds).toFixed(2));
process.exit(0);
