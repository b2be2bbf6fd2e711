// An answer while it is made: sends the request, reads the stream, stores what has come, and follows the stream again
// after a broken connection, a reload, or the end of the tab that read it. One tab receives an answer, others watch.
import { signal, type Signal } from '@preact/signals';
import { Answer, chatRequest, type Chunk } from '../api/chat';
import { ServerError, request } from '../api/http';
import { followStream, getSlots, hasStream, stopStream } from '../api/server';
import { EventReader } from '../api/sse';
import * as db from '../store/db';
import { pathTo } from '../store/tree';
import type { Conversation, Message, Token } from '../types';
import { announceAnswer, announcePhase } from './announcer';
import { isLoaded } from './models';
import { currentModel, live, setLive, showMessage, type Phase } from './state';
import { alone, tellTabs } from './sync';

const kFrameMs = 1000 / 30;
const kTellMs = 200;
const kStoreMs = 1000;
const kSlotsMs = 1500;
const kBusyTries = 10;
const kFollowTries = 8;
const kArrivalTries = 3;
const kStopTries = 3;
const kStopMs = 500;

/** Stores and shows the message of the answer, then returns the body of the request for it. */
type Begin = () => Promise<Record<string, unknown>>;

class Run {
  readonly phase: Signal<Phase> = signal<Phase>({ kind: 'sending' });
  private abort = new AbortController();
  private answer: Answer;
  private begin = 0; // when the request was sent
  private isStopped = false;
  private hasResponse = false;
  private frame = 0;
  private toldAt = 0;
  private storing: Promise<void> = Promise.resolve();
  private nextStore = 0;

  constructor(message: Message, tokens: Token[]) {
    this.answer = new Answer(message, tokens);
  }

  get id() {
    return this.answer.message.id;
  }

  stop(): void {
    this.isStopped = true;
    this.abort.abort();
  }

  /** Receives the answer to a request, or without one goes on with the stream that the server has. */
  async run(begin: Begin | null): Promise<void> {
    const { conversation } = this.answer.message;
    setLive(this.id, { conversation, phase: this.phase, stop: () => this.stop() });
    const watchSlots = setInterval(() => void this.lookAtSlots(), kSlotsMs);
    try {
      const wait = () => this.setPhase({ kind: 'elsewhere' });
      await alone(this.id, wait, this.abort.signal, () => this.receive(begin));
    } catch (error) {
      // Only waiting for another tab ends here; receive() has its own errors.
      if (this.isStopped) tellTabs({ kind: 'stop', id: this.id });
      else console.error(error);
    } finally {
      clearInterval(watchSlots);
      clearTimeout(this.frame);
      setLive(this.id, null);
    }
  }

  private async receive(begin: Begin | null): Promise<void> {
    try {
      if (!begin) {
        // Another tab may have stored more, or the end, while this one waited.
        const stored = await db.message(this.id);
        if (!stored || stored.state !== 'streaming') return stored && showMessage(stored);
        this.answer = new Answer(stored, await db.tokensOf(this.id));
        await this.follow();
      } else {
        await this.send(await begin());
      }
      this.finish('done');
    } catch (error) {
      await this.fail(error);
    }
    await this.store();
  }

  private async send(body: Record<string, unknown>): Promise<void> {
    this.begin = performance.now();
    const response = await this.request(body);
    this.hasResponse = true;
    this.setPhase({ kind: 'queued', position: null, busySlots: 0, slots: 0 });
    void this.lookAtSlots();
    try {
      await this.read(response, 0);
    } catch (error) {
      if (this.isStopped || !(error instanceof BrokenStream)) throw error;
      await this.follow();
    }
  }

  /** Sends again, when the server says when, as long as it is only busy. */
  private async request(body: Record<string, unknown>): Promise<Response> {
    for (let i = 1; ; ++i) {
      try {
        return await request('v1/chat/completions', {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'X-Conversation-Id': this.id },
          body: JSON.stringify(body),
          signal: this.abort.signal,
        });
      } catch (error) {
        const isBusy = error instanceof ServerError && error.retryAfterSeconds > 0 && [429, 503].includes(error.status);
        if (!isBusy || i === kBusyTries) throw error;
        for (let seconds = Math.min(error.retryAfterSeconds, 60); seconds > 0; --seconds) {
          this.setPhase({ kind: 'busy', seconds, why: error.message });
          await this.sleep(1000);
        }
      }
    }
  }

  /** Goes on from the last byte that the message holds. */
  private async follow(): Promise<void> {
    this.setPhase({ kind: 'reconnecting' });
    for (let i = 1; ; ++i) {
      const from = this.answer.message.streamBytes ?? 0;
      try {
        if (!(await hasStream(this.id, this.abort.signal))) throw new LostStream();
        return await this.read(await followStream(this.id, from, this.abort.signal), from);
      } catch (error) {
        const mayPass =
          error instanceof BrokenStream ||
          // A request that was sent just before a reload may arrive late.
          (error instanceof LostStream && from === 0 && i < kArrivalTries) ||
          (error instanceof ServerError && (error.status === 0 || error.status === 503));
        if (error instanceof ServerError && [400, 404].includes(error.status)) throw new LostStream();
        if (!mayPass || this.isStopped || i === kFollowTries) throw error;
        if (error instanceof ServerError && error.retryAfterSeconds > 0) {
          await this.sleep(1000 * error.retryAfterSeconds);
          i = 0; // its model is being loaded, which may take long
        } else {
          await this.sleep(Math.min(250 * 2 ** i, 5000));
        }
      }
    }
  }

  private async read(response: Response, from: number): Promise<void> {
    const reader = response.body!.getReader();
    const events = new EventReader(from);
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw this.isStopped ? error : new BrokenStream();
      });
      if (done) break;
      for (const event of events.push(value)) {
        if (event.comment) this.readComment(event.comment);
        if (event.data === '[DONE]') this.answer.isComplete = true;
        else if (event.data) this.readChunk(JSON.parse(event.data) as Chunk);
        this.answer.message = { ...this.answer.message, streamBytes: event.end };
      }
      this.changed();
    }
    if (!this.answer.isComplete) throw new BrokenStream();
  }

  private readChunk(chunk: Chunk): void {
    const { message } = this.answer;
    this.answer.apply(chunk);
    const now = this.answer.message;
    const hasText =
      now.content.length > message.content.length ||
      now.reasoning !== message.reasoning ||
      now.toolCalls !== message.toolCalls;
    if (hasText && now.ttftMs === undefined && this.begin > 0) {
      this.answer.message = { ...now, ttftMs: performance.now() - this.begin };
    }
    const progress = chunk.prompt_progress;
    if (hasText) {
      this.setPhase({ kind: now.reasoning !== message.reasoning ? 'reasoning' : 'answering' });
    } else if (progress) {
      this.setPhase({ kind: 'prompt', processed: progress.processed, cached: progress.cache, total: progress.total });
    }
  }

  // While a request waits the server sends comments; ": queue 3" counts the requests before it.
  private readComment(comment: string): void {
    const position = /^queue (\d+)/.exec(comment)?.[1];
    const phase = this.phase.peek();
    if (position !== undefined && phase.kind === 'queued') this.setPhase({ ...phase, position: Number(position) });
  }

  private async lookAtSlots(): Promise<void> {
    if (this.phase.peek().kind !== 'queued' || !isLoaded(this.answer.message.model)) return;
    try {
      const slots = await getSlots(this.answer.message.model);
      const phase = this.phase.peek();
      if (phase.kind !== 'queued') return;
      this.setPhase({ ...phase, slots: slots.length, busySlots: slots.filter((slot) => slot.is_processing).length });
    } catch {
      // The route may be switched off; then only the waiting itself is shown.
    }
  }

  private setPhase(phase: Phase): void {
    const before = this.phase.peek();
    if (JSON.stringify(before) === JSON.stringify(phase)) return;
    this.phase.value = phase;
    announcePhase(before, phase);
  }

  /** Shows, tells and stores what has come, each at its own pace. */
  private changed(): void {
    if (this.frame) return;
    this.frame = window.setTimeout(() => {
      this.frame = 0;
      const { message } = this.answer;
      const now = performance.now();
      if (isForgotten(message)) return;
      showMessage(message);
      announceAnswer(message, false);
      if (now - this.toldAt >= kTellMs) {
        this.toldAt = now;
        tellTabs({ kind: 'message', message });
      }
      if (now >= this.nextStore) void this.store();
    }, kFrameMs);
  }

  /** Message and tokens in one transaction, so that `streamBytes` is true of both. */
  private store(): Promise<void> {
    const { tokens } = this.answer;
    this.nextStore = Infinity;
    this.storing = this.storing
      .then(async () => {
        if (tokens.length > 0) this.answer.message = { ...this.answer.message, hasTokens: true };
        const { message } = this.answer;
        const begin = performance.now();
        const writes: db.Write[] = [{ store: 'messages', put: message }];
        if (tokens.length > 0) writes.push(db.putTokens(message, tokens));
        if (!isForgotten(message)) await db.write(writes);
        // A long answer costs more to store, and is stored less often.
        const end = performance.now();
        this.nextStore = end + Math.max(kStoreMs, 20 * (end - begin));
      })
      .catch((error: unknown) => console.error(error));
    return this.storing;
  }

  private finish(state: Message['state'], error?: string): void {
    clearTimeout(this.frame);
    this.frame = -1; // no later frame
    const message: Message = { ...this.answer.message, state };
    if (this.answer.tokens.length > 0) message.hasTokens = true;
    if (error !== undefined) message.error = error;
    this.answer.message = message;
    if (isForgotten(message)) return;
    showMessage(message);
    tellTabs({ kind: 'message', message });
    announceAnswer(message, true);
  }

  private async fail(error: unknown): Promise<void> {
    if (this.isStopped) {
      this.finish('stopped');
      await this.stopOnServer();
    } else if (error instanceof BrokenStream || error instanceof LostStream) {
      this.finish('lost', 'The connection to the server broke, and it no longer has the rest of this answer.');
    } else {
      this.finish('failed', error instanceof Error ? error.message : String(error));
    }
  }

  /** A request that was aborted early may reach the server after the first try. */
  private async stopOnServer(): Promise<void> {
    for (let i = 1; i <= kStopTries; ++i) {
      try {
        await stopStream(this.id);
        return;
      } catch {
        // The server has ended it by itself, has not begun it, or is away.
        if (this.hasResponse) return;
      }
      await new Promise((resolve) => setTimeout(resolve, kStopMs));
    }
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const stopped = () => reject(new DOMException('stopped', 'AbortError'));
      this.abort.signal.addEventListener('abort', stopped, { once: true });
      setTimeout(resolve, ms);
    });
  }
}

/** The connection ended before the stream did. */
class BrokenStream extends Error {}

/** The server has no such stream, or has dropped the part that comes next. */
class LostStream extends Error {}

// A message that was deleted while its answer arrived must not come back by a late store.
const forgotten = new Set<string>();
const isForgotten = (message: Message) => forgotten.has(message.id) || forgotten.has(message.conversation);

export function stopAndForget(ids: string[]): void {
  for (const id of ids) {
    forgotten.add(id);
    live.peek().get(id)?.stop();
  }
}
export const remember = (ids: string[]): void => ids.forEach((id) => forgotten.delete(id));

/**
 * Makes the answer `message`. `begin` runs once this tab has the answer's lock: another tab that saw the message before
 * would take the answer for one that a closed tab left, and ask the server for a stream that does not exist yet.
 */
export function startAnswer(message: Message, tokens: Token[], begin: Begin): void {
  void new Run(message, tokens).run(begin);
}

/** The body of the request for a message that is shown already. */
export function bodyFor(conversation: Conversation, all: ReadonlyMap<string, Message>, message: Message) {
  const path = pathTo(all, message.id);
  const isContinued = message.content !== '' || !!message.reasoning;
  return chatRequest(isContinued ? path : path.slice(0, -1), conversation.parameters, currentModel.peek());
}

/** Goes on with an answer that another page, perhaps this one before a reload, has begun. */
export function resumeAnswer(message: Message): void {
  if (!live.peek().has(message.id)) void new Run(message, []).run(null);
}
