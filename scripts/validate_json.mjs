// Validates JSON texts with Ajv. scripts/sampled_grammars.py runs it in a folder that has ajv, ajv-formats and
// ajv-draft-04. Each line of the input is an object {"schema", "texts"}. Prints one per line: {"errors": [...]}, with
// null for a valid text, or {"refused": message} for a schema that Ajv cannot compile.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const load = (name) => require(name).default;
const classes = {
  '2020-12': load('ajv/dist/2020'),
  '2019-09': load('ajv/dist/2019'),
  'draft-07': load('ajv'),
  'draft-06': load('ajv'),
  'draft-04': load('ajv-draft-04'),
};
const addFormats = load('ajv-formats');

const kept = new Set(['$ref', '$schema', '$id', 'id', 'definitions', '$defs']);

// Up to draft 7, keywords beside $ref have no effect. Ajv gives them one.
function withoutSiblingsOfRef(value) {
  if (Array.isArray(value)) return value.map(withoutSiblingsOfRef);
  if (value === null || typeof value !== 'object') return value;
  const has = typeof value.$ref === 'string';
  const entries = Object.entries(value).filter(([key]) => !has || kept.has(key));
  return Object.fromEntries(entries.map(([key, member]) => [key, withoutSiblingsOfRef(member)]));
}

function compile(schema) {
  const draft = /(\d{4}-\d\d|draft-0\d)/.exec(schema.$schema ?? '2020-12')?.[1] ?? '2020-12';
  // Numbers are validated in decimal: 0.3 is a multiple of 0.1.
  const ajv = new classes[draft]({ strict: false, logger: false, multipleOfPrecision: 9 });
  if (draft === 'draft-06') ajv.addMetaSchema(require('ajv/dist/refs/json-schema-draft-06.json'));
  addFormats(ajv);
  // RFC 3986 allows a URI without characters after its scheme. Ajv's expression does not.
  const uri = ajv.formats.uri;
  ajv.addFormat('uri', (text) => uri(text) || (/^[^?#]*:(?=[?#]|$)/.test(text) && uri(text.replace(':', ':x'))));
  return ajv.compile(draft.startsWith('draft') ? withoutSiblingsOfRef(schema) : schema);
}

function errorOf(validate, text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return String(error);
  }
  return validate(value) ? null : JSON.stringify(validate.errors);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { schema, texts } = JSON.parse(line);
  let answer;
  try {
    const validate = compile(schema);
    answer = { errors: texts.map((text) => errorOf(validate, text)) };
  } catch (error) {
    answer = { refused: String(error) };
  }
  console.log(JSON.stringify(answer));
}
