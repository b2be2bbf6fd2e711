// Talks with a model from Node.js: each line of the input is a message. Calls run on other threads, so that Node can do
// other work. The package koffi calls the library.
//
//     npm install koffi@3.3.4
//     node chat.mjs MODEL.gguf [--template chatml] [--tokens 64]
//
// The library is libtessera.so.1, or that of the environment variable LIBTESSERA.
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import koffi from 'koffi';

koffi.config({ async_stack_size: 1 << 20 });
const lib = koffi.load(process.env.LIBTESSERA ?? 'libtessera.so.1');

// Structs begin with their size. The first members are enough: the others have their defaults.
const structs = {
  SamplerOptions: { size: 'uint32_t', n_prev: 'int32_t', seed: 'int64_t', order: 'str', min_keep: 'int32_t',
    temperature: 'float' },
  GenerationOptions: { size: 'uint32_t', flags: 'uint32_t', n_predict: 'int64_t' },
  ReplyOptions: { size: 'uint32_t', flags: 'uint32_t', tools: 'str', prompt: 'str', seed: 'uint64_t', end: 'int32_t' },
  Generated: { token: 'int32_t', stop: 'int32_t', text: 'str', n_bytes: 'uint64_t' },
};
for (const [name, members] of Object.entries(structs)) koffi.struct(name, members);
const sized = (name, members) => ({ size: koffi.sizeof(name), ...members });

const STOP_END = 1, REPLY_ENDED = 1, REPLY_CUT = 2, GENERATE_SPECIAL = 4, LIMIT = 5;

// A function that returns a status and takes an error last. The result is a promise.
function call(name, parameters) {
  const run = promisify(lib.func(`int32_t tessera_${name}(${parameters}, void *error)`).async);
  return async (...values) => {
    const error = Buffer.alloc(512);  // size, status, text
    error.writeUInt32LE(error.length, 0);
    const status = await run(...values, error);
    if (status === 0) return;
    const text = error.toString('utf8', 8, error.indexOf(0, 8));
    throw Object.assign(new Error(text), { status });
  };
}

// A function that writes a handle to its argument before the error.
function creator(name, parameters) {
  const create = call(name, `${parameters}, _Out_ void **created`);
  return async (...values) => {
    const created = [null];
    await create(...values, created);
    return created[0];
  };
}

// A function that writes to a buffer and tells how much it needs: run(buffer, room, needed).
async function written(run, bytesPerItem = 1) {
  for (let room = 256; ;) {
    const buffer = Buffer.alloc(room * bytesPerItem), needed = [0];
    try {
      await run(buffer, room, needed);
      return { buffer, count: Number(needed[0]) };
    } catch (error) {
      if (error.status !== LIMIT || needed[0] <= room) throw error;
      room = Number(needed[0]);
    }
  }
}
const textOf = ({ buffer, count }) => buffer.toString('utf8', 0, count - 1);  // without the NUL

const tessera = {
  createRuntime: creator('runtime_create', 'void *options'),
  openModel: creator('model_open', 'void *runtime, str path, void *options'),
  loadModel: call('model_load', 'void *model, void *progress, void *user, void *cancel'),
  openTemplate: creator('template_open', 'void *model, str source, int64_t length, uint32_t flags'),
  createSession: creator('session_create', 'void *model, void *options'),
  contextOf: lib.func('int64_t tessera_session_n_ctx(void *session)'),
  samplerOptions: lib.func('void tessera_sampler_options_init(_Inout_ SamplerOptions *options, size_t size)'),
  createSampler: creator('sampler_create', 'void *model, SamplerOptions *options, int64_t n_ctx'),
  createGeneration: creator('generation_create',
    'void *session, void *sampler, int32_t sequence, GenerationOptions *options'),
  start: call('generation_start', 'void *generation, void *tokens, uint64_t count, void *cancel'),
  next: call('generation_next', 'void *generation, _Out_ Generated *next, void *cancel'),
  render: call('template_render', 'void *of, str messages, int64_t length, void *options, void *buffer, ' +
    'uint64_t room, _Inout_ uint64_t *needed, _Inout_ uint64_t *reply_at'),
  tokenize: call('template_tokenize', 'void *of, str messages, int64_t length, void *options, void *tokens, ' +
    'uint64_t room, _Inout_ uint64_t *needed'),
  parse: call('reply_parse', 'void *of, str text, int64_t length, ReplyOptions *options, void *buffer, ' +
    'uint64_t room, _Inout_ uint64_t *needed'),
  release: (kind, handle) => lib.func(`void tessera_${kind}_release(void *handle)`)(handle),
};

async function main(path, { template = null, tokens: nPredict = 0 }) {
  const runtime = await tessera.createRuntime(null);
  const model = await tessera.openModel(runtime, path, null);
  const chatTemplate = await tessera.openTemplate(model, template, -1, 0);
  await tessera.loadModel(model, null, null, null);
  const session = await tessera.createSession(model, null);
  const sampling = sized('SamplerOptions', {});
  tessera.samplerOptions(sampling, sampling.size);
  sampling.temperature = 0;  // always the most probable token
  const sampler = await tessera.createSampler(model, sampling, tessera.contextOf(session));
  const generation = await tessera.createGeneration(session, sampler, 0,
    sized('GenerationOptions', { flags: GENERATE_SPECIAL, n_predict: Number(nPredict) }));

  // Adds the reply to the messages, and shows its content as it grows.
  async function answer(messages) {
    const json = JSON.stringify(messages), replyAt = [0];
    const { buffer: prompt } = await written((...to) => tessera.render(chatTemplate, json, -1, null, ...to, replyAt));
    const tokens = await written((...to) => tessera.tokenize(chatTemplate, json, -1, null, ...to), 4);
    await tessera.start(generation, tokens.buffer, tokens.count, null);
    const next = {};
    const options = sized('ReplyOptions', { flags: 0, tools: null, seed: messages.length, end: 0 });
    options.prompt = prompt.toString('utf8', Number(replyAt[0]), prompt.indexOf(0));
    let reply = '', message = { content: '' };
    do {
      await tessera.next(generation, next, null);
      reply += next.text;
      if (next.stop !== 0) options.end = next.stop === STOP_END ? REPLY_ENDED : REPLY_CUT;
      const shown = message.content.length;
      message = JSON.parse(textOf(await written((...to) => tessera.parse(chatTemplate, reply, -1, options, ...to))));
      process.stdout.write(message.content.slice(shown));
    } while (next.token >= 0);
    process.stdout.write('\n');
    messages.push(message);
  }

  const messages = [];
  for await (const line of createInterface({ input: process.stdin })) {
    messages.push({ role: 'user', content: line });
    await answer(messages);
  }
  for (const [kind, handle] of Object.entries({ generation, sampler, session, template: chatTemplate, model, runtime }))
    tessera.release(kind, handle);
}

const [path, ...flags] = process.argv.slice(2);
if (path === undefined) {
  console.error('usage: node chat.mjs MODEL.gguf [--template NAME] [--tokens N]');
  process.exit(2);
}
const options = {};
for (let i = 0; i + 1 < flags.length; i += 2) options[flags[i].replace(/^--/, '')] = flags[i + 1];
main(path, options).catch((error) => {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
});
