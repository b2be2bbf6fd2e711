// Checks a JSON schema before it is sent: syntax with line and column, and the form of each keyword with its pointer.
// The server knows best what it supports; here are the mistakes that a user can mend without asking it.
import { mistakeIn } from './json_place';

export interface SchemaProblem {
  where: string; // a JSON pointer, or line and column
  message: string;
}

export function parseJson(text: string): { value: unknown } | SchemaProblem {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    const before = text.slice(0, mistakeIn(text));
    const place = `line ${before.split('\n').length}, column ${before.length - before.lastIndexOf('\n')}`;
    return { where: place, message: before.length === text.length ? 'the JSON ends too early' : 'not valid JSON' };
  }
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isSchema = (value: unknown) => isObject(value) || typeof value === 'boolean';
const isTexts = (value: unknown) => Array.isArray(value) && value.every((entry) => typeof entry === 'string');
const isSize = (value: unknown) => Number.isInteger(value) && (value as number) >= 0;

const kTypes = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];

function isPattern(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  try {
    new RegExp(value, 'u');
    return true;
  } catch {
    return false;
  }
}

const kKeywords: Record<string, [isRight: (value: unknown) => boolean, want: string]> = {
  type: [
    (value) =>
      (Array.isArray(value) ? value.length > 0 : true) &&
      [value].flat().every((type) => kTypes.includes(type as string)),
    `one of ${kTypes.join(', ')}, or a list of these`,
  ],
  properties: [(value) => isObject(value) && Object.values(value).every(isSchema), 'an object of schemas'],
  patternProperties: [
    (value) => isObject(value) && Object.keys(value).every(isPattern),
    'an object with patterns as names',
  ],
  $defs: [(value) => isObject(value) && Object.values(value).every(isSchema), 'an object of schemas'],
  definitions: [(value) => isObject(value) && Object.values(value).every(isSchema), 'an object of schemas'],
  required: [isTexts, 'a list of texts'],
  enum: [(value) => Array.isArray(value) && value.length > 0, 'a list with at least one value'],
  items: [(value) => isSchema(value) || Array.isArray(value), 'a schema'],
  prefixItems: [(value) => Array.isArray(value) && value.every(isSchema), 'a list of schemas'],
  additionalProperties: [isSchema, 'a schema, true or false'],
  anyOf: [(value) => Array.isArray(value) && value.length > 0 && value.every(isSchema), 'a list of schemas'],
  oneOf: [(value) => Array.isArray(value) && value.length > 0 && value.every(isSchema), 'a list of schemas'],
  allOf: [(value) => Array.isArray(value) && value.length > 0 && value.every(isSchema), 'a list of schemas'],
  not: [isSchema, 'a schema'],
  pattern: [isPattern, 'a regular expression'],
  format: [(value) => typeof value === 'string', 'a text'],
  $ref: [(value) => typeof value === 'string', 'a text'],
  ...Object.fromEntries(
    ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'].map(
      (name): [string, [typeof isSize, string]] => [name, [isSize, 'an integer of at least 0']],
    ),
  ),
  ...Object.fromEntries(
    ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'].map(
      (name): [string, [(value: unknown) => boolean, string]] => [
        name,
        [(value) => typeof value === 'number', 'a number'],
      ],
    ),
  ),
};

const kRanges = [
  ['minLength', 'maxLength'],
  ['minItems', 'maxItems'],
  ['minimum', 'maximum'],
  ['minProperties', 'maxProperties'],
];

const escapePointer = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** The schemas directly inside one, with their pointers. */
function* inner(schema: Json, where: string): Generator<[unknown, string]> {
  for (const name of ['properties', 'patternProperties', '$defs', 'definitions']) {
    const group = schema[name];
    if (!isObject(group)) continue;
    for (const [key, value] of Object.entries(group)) yield [value, `${where}/${name}/${escapePointer(key)}`];
  }
  for (const name of ['items', 'prefixItems', 'anyOf', 'oneOf', 'allOf']) {
    const list = schema[name];
    if (Array.isArray(list)) yield* list.map((value, i): [unknown, string] => [value, `${where}/${name}/${i}`]);
  }
  for (const name of ['items', 'additionalProperties', 'not']) {
    if (isObject(schema[name])) yield [schema[name], `${where}/${name}`];
  }
}

function resolves(root: unknown, reference: string): boolean {
  let value: unknown = root;
  for (const part of reference.slice(1).split('/').slice(1)) {
    let name: string;
    try {
      name = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    } catch {
      return false;
    }
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return false;
    value = (value as Json)[name];
  }
  return true;
}

function problemOf(root: unknown, schema: Json, where: string): SchemaProblem | null {
  for (const [name, value] of Object.entries(schema)) {
    const rule = Object.hasOwn(kKeywords, name) ? kKeywords[name] : undefined;
    if (rule && !rule[0](value)) return { where: `${where}/${name}`, message: `want ${rule[1]}` };
  }
  for (const [low, high] of kRanges as [string, string][]) {
    const [a, b] = [schema[low], schema[high]];
    if (typeof a === 'number' && typeof b === 'number' && a > b)
      return { where: `${where}/${low}`, message: `${a} is above ${high} ${b}` };
  }
  const reference = schema.$ref;
  if (typeof reference !== 'string') return null;
  if (!reference.startsWith('#'))
    return { where: `${where}/$ref`, message: 'only references inside the schema (#/...) are allowed' };
  return resolves(root, reference) ? null : { where: `${where}/$ref`, message: `${reference} leads nowhere` };
}

/** The first mistake; null: none was found, or the text is blank. */
export function checkSchema(text: string): SchemaProblem | null {
  if (!text.trim()) return null;
  const parsed = parseJson(text);
  if (!('value' in parsed)) return parsed;
  if (!isSchema(parsed.value)) return { where: '/', message: 'want an object' };
  const waiting: [unknown, string][] = [[parsed.value, '']];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [schema, where] = next;
    if (!isObject(schema)) continue;
    const problem = problemOf(parsed.value, schema, where);
    if (problem) return problem;
    waiting.push(...inner(schema, where));
  }
  return null;
}

/** The same for the list of tools. */
export function checkTools(text: string): SchemaProblem | null {
  if (!text.trim()) return null;
  const parsed = parseJson(text);
  if (!('value' in parsed)) return parsed;
  if (!Array.isArray(parsed.value)) return { where: '/', message: 'want a list of tools' };
  for (const [i, tool] of parsed.value.entries()) {
    const f: unknown = isObject(tool) && tool.type === 'function' ? tool.function : null;
    if (!isObject(f)) return { where: `/${i}`, message: 'want {"type": "function", "function": {...}}' };
    if (typeof f.name !== 'string' || !/^[A-Za-z0-9_.-]{1,64}$/.test(f.name)) {
      return { where: `/${i}/function/name`, message: 'want 1 to 64 of A-Z a-z 0-9 _ . -' };
    }
    const problem = checkSchema(JSON.stringify(f.parameters ?? {}));
    if (problem) return { where: `/${i}/function/parameters${problem.where}`, message: problem.message };
  }
  return null;
}

export function checkObject(text: string): SchemaProblem | null {
  if (!text.trim()) return null;
  const parsed = parseJson(text);
  if (!('value' in parsed)) return parsed;
  return isObject(parsed.value) ? null : { where: '/', message: 'want an object' };
}
