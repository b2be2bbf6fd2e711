// Requests of chat completions, and their events. A request is made from a branch of a conversation and its parameters;
// an event changes the message that it belongs to.
import type { Message, Parameters, Part, Timings, Token, TokenChoice, ToolCall } from '../types';

const kAlternatives = 8;

interface WireLogprob {
  token: string;
  bytes?: number[] | null;
  logprob: number | null;
  top_logprobs?: WireLogprob[];
}

interface WireCall {
  index: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

export interface Chunk {
  id?: string;
  model?: string;
  error?: { message?: string };
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null; tool_calls?: WireCall[] };
    finish_reason?: string | null;
    logprobs?: { content?: WireLogprob[] } | null;
  }[];
  timings?: Timings;
  prompt_progress?: { total: number; cache: number; processed: number; time_ms: number };
}

function wireMessages(path: Message[], system: string) {
  const messages: Record<string, unknown>[] = system.trim() ? [{ role: 'system', content: system }] : [];
  for (const message of path) {
    const wire: Record<string, unknown> = { role: message.role, content: message.content };
    if (message.role === 'tool') Object.assign(wire, { tool_call_id: message.toolCallId, name: message.toolName });
    if (message.reasoning) wire.reasoning_content = message.reasoning;
    if (message.toolCalls?.length) {
      wire.tool_calls = message.toolCalls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      }));
    }
    messages.push(wire);
  }
  return messages;
}

/** The body of a request. `path` ends with the message to answer, or with the answer to continue. */
export function chatRequest(path: Message[], parameters: Parameters, model: string | undefined) {
  const body: Record<string, unknown> = {
    messages: wireMessages(path, parameters.system),
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
    return_progress: true,
    ...parameters.sampling,
  };
  if (model) body.model = model;
  if (path.at(-1)?.role === 'assistant')
    Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
  if (parameters.effort) body.reasoning_effort = parameters.effort;
  if (parameters.wantsTokens) Object.assign(body, { logprobs: true, top_logprobs: kAlternatives });
  if (parameters.schema.trim()) {
    body.response_format = {
      type: 'json_schema',
      json_schema: { name: 'answer', schema: JSON.parse(parameters.schema) },
    };
  }
  if (parameters.tools.trim()) body.tools = JSON.parse(parameters.tools);
  if (parameters.extra.trim()) Object.assign(body, JSON.parse(parameters.extra));
  return body;
}

const kLowestLogprob = -3.4028235e38; // stands for minus infinity

function choiceOf(wire: WireLogprob): TokenChoice {
  return { text: wire.token, bytes: wire.bytes ?? null, logprob: wire.logprob ?? kLowestLogprob };
}

/** An answer while it arrives. The message is replaced with each change, tokens are appended in place. */
export class Answer {
  isComplete = false; // the stream has ended as it should

  constructor(
    public message: Message,
    readonly tokens: Token[],
  ) {}

  /** Throws an Error for an error event. */
  apply(chunk: Chunk): void {
    if (chunk.error) throw new Error(chunk.error.message ?? 'The server reported an error');
    const message = { ...this.message };
    if (chunk.id) message.completion = chunk.id;
    if (chunk.model) message.model = chunk.model;
    if (chunk.timings) message.timings = chunk.timings;
    for (const { delta, finish_reason, logprobs } of chunk.choices ?? []) {
      const part: Part = delta?.content ? 'content' : delta?.reasoning_content ? 'reasoning' : 'tool';
      if (logprobs?.content) this.addTokens(part, logprobs.content);
      if (delta?.content) message.content += delta.content;
      if (delta?.reasoning_content) message.reasoning = (message.reasoning ?? '') + delta.reasoning_content;
      if (delta?.tool_calls) message.toolCalls = withCalls(message.toolCalls ?? [], delta.tool_calls);
      if (finish_reason) message.finish = finish_reason;
    }
    this.message = message;
  }

  private addTokens(part: Part, wires: WireLogprob[]): void {
    let at = part === 'content' ? this.message.content.length : (this.message.reasoning ?? '').length;
    for (const wire of wires) {
      this.tokens.push({ ...choiceOf(wire), part, at, top: (wire.top_logprobs ?? []).map(choiceOf) });
      at += wire.token.length;
    }
  }
}

function withCalls(calls: ToolCall[], deltas: WireCall[]): ToolCall[] {
  const result = [...calls];
  for (const { index, id, function: f } of deltas) {
    if (!Number.isInteger(index) || index < 0 || index > result.length) continue;
    const call = result[index] ?? { id: '', name: '', arguments: '' };
    result[index] = {
      id: id ?? call.id,
      name: call.name + (f?.name ?? ''),
      arguments: call.arguments + (f?.arguments ?? ''),
    };
  }
  return result;
}
