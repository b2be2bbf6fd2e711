// The data of the page: conversations and messages as they are stored and exported, and what an answer is made of.

export type Role = 'user' | 'assistant' | 'tool';

/** lost: the page was closed or the connection broke, and the server no longer has the rest. */
export type MessageState = 'done' | 'streaming' | 'stopped' | 'failed' | 'lost';

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON text, perhaps not yet complete
}

export interface Timings {
  cache_n?: number; // prompt tokens found in the cache
  prompt_n?: number; // prompt tokens computed
  prompt_ms?: number;
  prompt_per_second?: number;
  predicted_n?: number;
  predicted_ms?: number;
  predicted_per_second?: number;
  queue_ms?: number;
  ttft_ms?: number;
}

export interface TokenChoice {
  text: string;
  bytes: number[] | null;
  logprob: number;
}

export type Part = 'reasoning' | 'content' | 'tool';

export interface Token extends TokenChoice {
  part: Part;
  at: number; // length of its part before this token
  top: TokenChoice[];
}

export interface Message {
  id: string;
  conversation: string;
  parent: string | null;
  role: Role;
  created: number;
  content: string;
  state: MessageState;
  reasoning?: string;
  toolCalls?: ToolCall[];
  toolCallId?: string; // of a message of role tool
  toolName?: string;
  model?: string;
  finish?: string;
  error?: string;
  timings?: Timings;
  ttftMs?: number; // as this page saw it
  streamBytes?: number; // bytes of the stream that are in this message
  completion?: string; // the server's id of the answer
  hasTokens?: boolean; // its tokens are in the store of that name
}

export type ParameterValue = number | boolean | string;

export interface Parameters {
  system: string;
  sampling: Record<string, ParameterValue>; // only fields that differ from the server's defaults
  schema: string;
  tools: string;
  extra: string; // further fields, a JSON object
  effort: string; // reasoning_effort, empty: the server's default
  wantsTokens: boolean;
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  leaf: string | null; // the last message of the branch on show
  parameters: Parameters;
  model?: string;
}

export const kNoParameters: Parameters = {
  system: '',
  sampling: {},
  schema: '',
  tools: '',
  extra: '',
  effort: '',
  wantsTokens: false,
};

/** Random and unguessable: a stream is found by such an id. randomUUID is missing on plain http. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
