// A server with the routes of `tessera serve` that the page uses, and answers from mock_answers.mjs. It serves the
// built page as the real one does: compressed, with the Content-Security-Policy, ETag and cache fields.
//
//   node tests/mock_server.mjs [--port 8099] [--delay 20]
//
// POST /mock changes its behaviour: {"key", "holdAfter", "release", "nQueued", "failWith", "cut", "down", "router",
// "keepsStreams"}.
// "hold" makes each stream wait before its n-th token until it is released, so tests depend on no timing. With "router"
// there are several models, in mock_models.mjs.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { answerFor } from './mock_answers.mjs';
import { MockModels } from './mock_models.mjs';

const page = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const kPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
  "manifest-src 'self'; worker-src 'self'; base-uri 'none'; frame-ancestors 'none'";
function pageFiles() {
  const rows = readFileSync(join(page, 'built', 'files.def'), 'utf8').matchAll(
    /TESSERA_PAGE_FILE\(\d+, "(.*?)", "(.*?)", "(.*?)", "(.*)", (true|false), \d+\)/g,
  );
  return new Map(
    [...rows].map(([, path, file, type, etag, isImmutable]) => [
      path,
      {
        type,
        etag: etag.replaceAll('\\"', '"'),
        isImmutable: isImmutable === 'true',
        data: readFileSync(join(page, file)),
      },
    ]),
  );
}

/** Pieces of a text like tokens: a word with the space before it, long words in parts; or pieces of a size. */
function tokensOf(text, size) {
  return text.match(size ? new RegExp(`[^]{1,${size}}`, 'gu') : /\s?[^\s]{1,6}|\s/gu) ?? [];
}

function probabilityOf(token, i) {
  let hash = 2166136261 ^ i;
  for (const c of token) hash = Math.imul(hash ^ c.codePointAt(0), 16777619);
  return [0.99, 0.97, 0.85, 0.6, 0.35, 0.15, 0.05][(hash >>> 8) % 7];
}

const bytesOf = (text) => [...Buffer.from(text)];

function logprobOf(token, i) {
  const p = probabilityOf(token, i);
  const others = [' perhaps', ' the', ' other', '\n'].filter((text) => text !== token);
  const top = [[token, p], ...others.map((text, k) => [text, (1 - p) / 2 ** (k + 1)])].sort((a, b) => b[1] - a[1]);
  const choice = ([text, q]) => ({ id: 1, token: text, bytes: bytesOf(text), logprob: Math.log(q) });
  return { ...choice([token, p]), top_logprobs: top.map(choice) };
}

/** A stream that outlives its connection: its bytes are kept, readers follow it. */
class Stream {
  text = Buffer.alloc(0);
  readers = new Set();
  isEnded = false;
  isStopped = false;

  write(piece) {
    this.text = Buffer.concat([this.text, Buffer.from(piece)]);
    for (const response of this.readers) response.write(piece);
  }
  end() {
    this.isEnded = true;
    for (const response of this.readers) response.end();
  }
  follow(response, from) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    response.write(this.text.subarray(from));
    if (this.isEnded) return response.end();
    this.readers.add(response);
    response.on('close', () => this.readers.delete(response));
  }
}

export class MockServer {
  options = {
    key: '',
    delay: 0,
    holdAfter: -1,
    nQueued: 0,
    failWith: null,
    cut: false,
    down: false,
    router: false,
    keepsStreams: true, // false: a stream ends with its connection, and the routes for streams are not there
  };
  requests = []; // bodies of chat requests, for tests
  streams = new Map();
  waiting = []; // held streams
  refusals = []; // of the next attempts to follow a stream
  nReasoningEnds = 0;
  models = new MockModels();

  constructor(options = {}) {
    Object.assign(this.options, options);
    this.files = pageFiles();
    this.http = createServer(
      (request, response) =>
        void this.handle(request, response).catch((error) => {
          console.error(error);
          response.destroy();
        }),
    );
  }

  listen(port = 0) {
    return new Promise((resolve) => this.http.listen(port, '127.0.0.1', () => resolve(this.http.address().port)));
  }

  close() {
    this.http.closeAllConnections();
    return new Promise((resolve) => this.http.close(resolve));
  }

  release() {
    for (const go of this.waiting.splice(0)) go();
  }

  fail(response, status, type, message, fields = {}) {
    response.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', ...fields });
    response.end(JSON.stringify({ error: { code: status, message, type } }));
  }

  json(response, value) {
    response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8' });
    response.end(JSON.stringify(value));
  }

  async handle(request, response) {
    const url = new URL(request.url, 'http://localhost');
    let text = '';
    for await (const piece of request) text += piece;
    const body = text ? JSON.parse(text) : {};
    if (url.pathname === '/mock') return this.configure(body, response);
    if (this.options.down) return response.destroy();
    if (request.method === 'GET' && this.files.has(url.pathname === '/' ? '/index.html' : url.pathname)) {
      return this.file(request, response, this.files.get(url.pathname === '/' ? '/index.html' : url.pathname));
    }
    const { key } = this.options;
    if (url.pathname !== '/health' && key && request.headers.authorization !== `Bearer ${key}`) {
      return this.fail(response, 401, 'authentication_error', 'Invalid API Key');
    }
    return this.route(request, response, url, body);
  }

  configure(body, response) {
    if (body.release) this.release();
    if (body.cut) for (const stream of this.streams.values()) for (const reader of stream.readers) reader.destroy();
    Object.assign(this.options, body);
    this.json(response, {});
  }

  file(request, response, { type, etag, isImmutable, data }) {
    const fields = {
      'Content-Type': type,
      ETag: etag,
      Vary: 'Accept-Encoding',
      'Cache-Control': isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache',
      'Content-Security-Policy': kPolicy,
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    };
    if (request.headers['if-none-match'] === etag) return void response.writeHead(304, fields).end();
    const isPacked = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
    response.writeHead(200, isPacked ? { ...fields, 'Content-Encoding': 'gzip' } : fields);
    response.end(isPacked ? data : gunzipSync(data));
  }

  async route(request, response, url, body) {
    const path = url.pathname.replace(/^\/v1/, '');
    if (/^\/streams?\b/.test(path) && !this.options.keepsStreams)
      return this.fail(response, 404, 'not_found_error', 'File Not Found');
    switch (`${request.method} ${path}`) {
      case 'GET /health':
        return this.json(response, { status: 'ok' });
      case 'GET /props':
        return this.answerOr400(response, url, () => this.props(url.searchParams.get('model')));
      case 'GET /models':
        if (url.searchParams.get('reload') === '1') this.models.reread();
        return this.json(response, { object: 'list', data: this.models.list(this.options.router) });
      case 'GET /models/sse':
        return this.models.follow(response);
      case 'POST /models/load':
      case 'POST /models/unload': {
        const error = path.endsWith('/load') ? this.models.load(body.model) : this.models.unload(body.model);
        if (error) return this.fail(response, error.status, 'invalid_request_error', error.message);
        return this.json(response, { success: true });
      }
      case 'GET /slots':
        return this.answerOr400(response, url, () => this.slots());
      case 'POST /tokenize':
        return this.json(response, { tokens: tokensOf(body.content).map((_, i) => i) });
      case 'POST /chat/completions':
        return this.chat(request, response, body);
      case 'POST /chat/completions/control':
        ++this.nReasoningEnds;
        this.endsReasoning = true;
        return this.json(response, { success: true });
      case 'POST /streams/lookup':
        return this.lookup(response, body);
      case 'GET /stream':
        return this.resume(response, url);
      case 'DELETE /stream':
        return this.stop(response, url);
      default:
        return this.fail(response, 404, 'not_found_error', 'File Not Found');
    }
  }

  /** Answers with f(), unless the request names a model that is not loaded. */
  answerOr400(response, url, f) {
    const id = url.searchParams.get('model');
    if (id && this.options.router && this.models.find(id)?.status !== 'loaded')
      return this.fail(response, 400, 'invalid_request_error', `model '${id}' is not loaded`);
    return this.json(response, f());
  }

  props(id) {
    const model = this.options.router ? this.models.find(id) : this.models.all[0];
    const params = {
      seed: 4294967295,
      temperature: 0.800000011920929,
      dynatemp_range: 0,
      dynatemp_exponent: 1,
      top_k: 40,
      top_p: 0.949999988079071,
      min_p: 0.05,
      top_n_sigma: -1,
      xtc_probability: 0,
      xtc_threshold: 0.1,
      typical_p: 1,
      repeat_last_n: 64,
      repeat_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      dry_multiplier: 0,
      dry_base: 1.75,
      dry_allowed_length: 2,
      dry_penalty_last_n: 64,
      mirostat: 0,
      mirostat_tau: 5,
      mirostat_eta: 0.1,
      max_tokens: -1,
      n_predict: -1,
      ignore_eos: false,
      stream: true,
      min_keep: 0,
      samplers: ['top_k', 'top_p'],
      new_sampler_strength: 0.25,
    };
    return {
      default_generation_settings: { params, n_ctx: model?.meta.n_ctx ?? 0 },
      total_slots: 4,
      model_alias: model?.id ?? 'tessera',
      ...(model ? {} : { role: 'router' }),
      build_info: 'b900-abcdef0',
    };
  }

  slots() {
    const nBusy = Math.min(
      4,
      this.options.nQueued > 0 ? 4 : [...this.streams.values()].filter((stream) => !stream.isEnded).length,
    );
    return Array.from({ length: 4 }, (_, id) => ({ id, n_ctx: 8192, is_processing: id < nBusy }));
  }

  lookup(response, { conversation_ids: ids }) {
    const found = ids.filter((id) => this.streams.has(id));
    return this.json(
      response,
      found.map((id) => ({ conversation_id: id, is_done: this.streams.get(id).isEnded })),
    );
  }

  resume(response, url) {
    const stream = this.streams.get(url.searchParams.get('conv_id'));
    if (!stream) return this.fail(response, 404, 'not_found_error', 'no such stream');
    const refusal = this.refusals.shift();
    if (refusal) return this.fail(response, refusal.status, refusal.type, refusal.message, refusal.fields);
    stream.follow(response, Number(url.searchParams.get('from') ?? 0));
  }

  stop(response, url) {
    const stream = this.streams.get(url.searchParams.get('conv_id'));
    if (stream) {
      stream.isStopped = true;
      this.release();
    }
    response.writeHead(204).end();
  }

  async chat(request, response, body) {
    this.requests.push(body);
    const { failWith } = this.options;
    if (failWith) {
      this.options.failWith = failWith.again ? failWith : null;
      return this.fail(response, failWith.status, failWith.type, failWith.message, failWith.fields);
    }
    if (this.options.router) {
      const error = await this.models.use(body.model);
      if (error) return this.fail(response, error.status, 'server_error', error.message);
    }
    const stream = new Stream();
    this.streams.set(request.headers['x-conversation-id'] ?? `anonymous ${this.requests.length}`, stream);
    stream.follow(response, 0);
    if (!this.options.keepsStreams) response.on('close', () => (stream.isStopped = true));
    await this.speak(stream, body);
    stream.end();
  }

  /** Waits for its turn: a held stream for the release, others for the delay. */
  turn(stream, n) {
    const { holdAfter, delay } = this.options;
    if (stream.isStopped) return undefined;
    if (holdAfter >= 0 && n === holdAfter) return new Promise((resolve) => this.waiting.push(resolve));
    if (delay > 0) return new Promise((resolve) => setTimeout(resolve, delay));
    return n % 64 === 0 ? new Promise((resolve) => setImmediate(resolve)) : undefined;
  }

  async speak(stream, body) {
    const id = `chatcmpl-${this.requests.length}`;
    const last = body.messages.at(-1);
    const send = (choice, more = {}) =>
      stream.write(
        `data: ${JSON.stringify({
          choices: choice ? [{ finish_reason: null, index: 0, ...choice }] : [],
          created: 1,
          id,
          model: body.model ?? 'tales-1b-q4',
          object: 'chat.completion.chunk',
          ...more,
        })}\n\n`,
      );
    for (let n = this.options.nQueued; n > 0; --n) {
      stream.write(`: queue ${n}\n\n`);
      await new Promise((resolve) => this.waiting.push(resolve));
    }
    const total = body.messages.reduce((sum, { content }) => sum + tokensOf(content ?? '').length + 4, 0);
    const cache = body.messages.length > 2 ? Math.floor(total / 2) : 0;
    for (const processed of [cache, total]) send(null, { prompt_progress: { total, cache, processed, time_ms: 5 } });
    send({ delta: { role: 'assistant', content: null } });
    const isContinued = last.role === 'assistant';
    const question = body.messages.findLast(({ role }) => role === 'user')?.content ?? '';
    const parts =
      last.role === 'tool'
        ? [{ content: `The tool said: ${last.content}.` }]
        : isContinued
          ? [{ content: ' And so it goes on to the end.' }]
          : answerFor(question, body);
    let n = 0;
    this.endsReasoning = false;
    const timings = () => ({
      cache_n: cache,
      prompt_n: total - cache,
      prompt_ms: 12.5,
      prompt_per_second: 900,
      predicted_n: n,
      predicted_ms: n * 20,
      predicted_per_second: n > 1 ? 48.6 : 0,
      queue_ms: 1,
      ttft_ms: 31,
    });
    for (const part of parts) {
      if (part.call) {
        send({
          delta: {
            tool_calls: [
              { index: 0, id: 'call_1', type: 'function', function: { name: part.call.name, arguments: '' } },
            ],
          },
        });
        for (const piece of tokensOf(part.call.arguments))
          send({ delta: { tool_calls: [{ index: 0, function: { arguments: piece } }] } });
        continue;
      }
      const name = part.reasoning ? 'reasoning_content' : 'content';
      for (const token of tokensOf(part.reasoning ?? part.content, part.pieces)) {
        await this.turn(stream, n);
        if (stream.isStopped) return;
        if (part.reasoning && this.endsReasoning) break;
        const logprobs = body.logprobs ? { logprobs: { content: [logprobOf(token, n)], refusal: null } } : {};
        ++n;
        send({ delta: { [name]: token }, ...logprobs }, body.timings_per_token ? { timings: timings() } : {});
        if (/\bbreaks\b/.test(question) && n === 5) {
          stream.write('data: {"error":{"code":500,"message":"the device was lost","type":"server_error"}}\n\n');
          return;
        }
      }
    }
    const reason = parts.some(({ call }) => call)
      ? 'tool_calls'
      : /\bshort limit\b/.test(question) && !isContinued
        ? 'length'
        : 'stop';
    send({ delta: {}, finish_reason: reason }, { timings: timings() });
    send(null, { usage: { completion_tokens: n, prompt_tokens: total, total_tokens: total + n } });
    stream.write('data: [DONE]\n\n');
  }
}

const flag = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const port = await new MockServer({ delay: flag('--delay', 20), router: process.argv.includes('--router') }).listen(
    flag('--port', 8099),
  );
  console.log(`http://127.0.0.1:${port}/`);
}
