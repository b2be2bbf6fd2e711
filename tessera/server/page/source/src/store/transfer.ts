// Export and import of conversations as JSON, and export of a branch as Markdown. An imported file comes from anywhere:
// every field is checked, and ids are drawn anew, so that an import never overwrites what is here.
import { kNoParameters, newId } from '../types';
import type { Conversation, Message, MessageState, Parameters, Role, ToolCall } from '../types';

const kFormat = 'tessera-conversations';
const kVersion = 1;

export interface Archive {
  format: string;
  version: number;
  conversations: { conversation: Conversation; messages: Message[] }[];
}

export function makeArchive(conversations: Archive['conversations']): Archive {
  return { format: kFormat, version: kVersion, conversations };
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

class Reader {
  constructor(
    private where: string,
    private object: Json,
  ) {}

  private fail(name: string, want: string): never {
    throw new Error(`${this.where}.${name}: want ${want}`);
  }
  text(name: string, otherwise?: string): string {
    const value = this.object[name] ?? otherwise;
    return typeof value === 'string' ? value : this.fail(name, 'a text');
  }
  number(name: string): number {
    const value = this.object[name];
    return typeof value === 'number' && Number.isFinite(value) ? value : this.fail(name, 'a number');
  }
  oneOf<T extends string>(name: string, values: readonly T[]): T {
    const value = this.object[name];
    return values.includes(value as T) ? (value as T) : this.fail(name, values.join(', '));
  }
  textOrNull(name: string): string | null {
    const value = this.object[name] ?? null;
    return value === null || typeof value === 'string' ? value : this.fail(name, 'a text or null');
  }
}

function readParameters(where: string, value: unknown): Parameters {
  if (!isObject(value)) return { ...kNoParameters };
  const reader = new Reader(where, value);
  const sampling: Parameters['sampling'] = {};
  for (const [name, entry] of Object.entries(isObject(value.sampling) ? value.sampling : {})) {
    if (typeof entry === 'number' || typeof entry === 'boolean' || typeof entry === 'string') sampling[name] = entry;
  }
  return {
    sampling,
    system: reader.text('system', ''),
    schema: reader.text('schema', ''),
    tools: reader.text('tools', ''),
    extra: reader.text('extra', ''),
    effort: reader.text('effort', ''),
    wantsTokens: value.wantsTokens === true,
  };
}

function readCalls(where: string, value: unknown): ToolCall[] {
  if (!Array.isArray(value)) throw new Error(`${where}: want a list`);
  return value.map((call: unknown, i) => {
    if (!isObject(call)) throw new Error(`${where}[${i}]: want an object`);
    const reader = new Reader(`${where}[${i}]`, call);
    return { id: reader.text('id'), name: reader.text('name'), arguments: reader.text('arguments') };
  });
}

const kRoles: readonly Role[] = ['user', 'assistant', 'tool'];
const kStates: readonly MessageState[] = ['done', 'streaming', 'stopped', 'failed', 'lost'];

function readMessage(where: string, value: unknown): Message {
  if (!isObject(value)) throw new Error(`${where}: want an object`);
  const reader = new Reader(where, value);
  const state = reader.oneOf('state', kStates);
  const message: Message = {
    id: reader.text('id'),
    conversation: '',
    parent: reader.textOrNull('parent'),
    role: reader.oneOf('role', kRoles),
    created: reader.number('created'),
    content: reader.text('content'),
    state: state === 'streaming' ? 'lost' : state, // its stream belongs to another page
  };
  for (const name of ['reasoning', 'toolCallId', 'toolName', 'model', 'finish', 'error'] as const) {
    if (value[name] !== undefined) message[name] = reader.text(name);
  }
  if (value.toolCalls !== undefined) message.toolCalls = readCalls(`${where}.toolCalls`, value.toolCalls);
  return message;
}

/** Throws an Error that names the first field that is wrong. */
export function readArchive(text: string): Archive['conversations'] {
  const archive: unknown = JSON.parse(text);
  if (!isObject(archive) || archive.format !== kFormat) throw new Error(`format: want "${kFormat}"`);
  if (archive.version !== kVersion) throw new Error(`version: ${String(archive.version)}, want ${kVersion}`);
  if (!Array.isArray(archive.conversations)) throw new Error('conversations: want a list');
  return archive.conversations.map((entry: unknown, i) => {
    const where = `conversations[${i}]`;
    if (!isObject(entry) || !isObject(entry.conversation) || !Array.isArray(entry.messages)) {
      throw new Error(`${where}: want {"conversation", "messages"}`);
    }
    const messages = entry.messages.map((message, k) => readMessage(`${where}.messages[${k}]`, message));
    const reader = new Reader(`${where}.conversation`, entry.conversation);
    const conversation: Conversation = {
      id: newId(),
      title: reader.text('title'),
      created: reader.number('created'),
      updated: reader.number('updated'),
      leaf: reader.textOrNull('leaf'),
      parameters: readParameters(`${where}.conversation.parameters`, entry.conversation.parameters),
    };
    return renamed(conversation, messages);
  });
}

function renamed(conversation: Conversation, messages: Message[]) {
  const ids = new Map(messages.map((message) => [message.id, newId()]));
  const rename = (id: string | null) => (id === null ? null : (ids.get(id) ?? null));
  for (const message of messages) {
    message.parent = rename(message.parent);
    message.id = ids.get(message.id)!;
    message.conversation = conversation.id;
  }
  const last = messages.reduce<Message | null>((a, b) => (a && a.created > b.created ? a : b), null);
  conversation.leaf = rename(conversation.leaf) ?? last?.id ?? null;
  return { conversation, messages };
}

export function toMarkdown(title: string, path: Message[]): string {
  const names = { user: 'You', assistant: 'Assistant', tool: 'Tool result' };
  const parts = path.map((message) => `## ${names[message.role]}\n\n${message.content.trim()}\n`);
  return `# ${title}\n\n${parts.join('\n')}`;
}

/** Offers a text as a file to save. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads the blob after the click has returned.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
