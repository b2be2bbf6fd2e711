// Encodes texts with a tokenizer of npm: encode_npm.mjs PACKAGE. Reads a JSON array of texts, and prints the ids of each.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { fromPreTrained } = createRequire(process.cwd() + "/")(process.argv[2]);
const tokenizer = fromPreTrained();
const texts = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => tokenizer.encode(text, { add_special_tokens: false }))));
