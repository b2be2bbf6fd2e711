// Everything that a user can do to conversations and messages. Each action stores first and then shows, and tells the
// other tabs.
import { batch, signal } from '@preact/signals';
import {
  conversations,
  currentModel,
  draftModel,
  draftParameters,
  live,
  messages,
  openConversation,
  openId,
  path,
  showConversation,
  showMessage,
} from './state';
import * as db from '../store/db';
import { leafWithout, newestLeaf, pathTo, subtree } from '../store/tree';
import { download, makeArchive, readArchive, toMarkdown } from '../store/transfer';
import { kNoParameters, newId } from '../types';
import type { Conversation, Message, Parameters, Token, ToolCall } from '../types';
import { defaultParameters, lastModel } from '../settings';
import { announce } from './announcer';
import { bodyFor, remember, resumeAnswer, startAnswer, stopAndForget } from './run';
import { onNote, tellTabs, type Note } from './sync';

export interface Toast {
  text: string;
  action?: { name: string; run: () => void };
}
export const toast = signal<Toast | null>(null);

export function say(text: string, action?: Toast['action']): void {
  toast.value = action ? { text, action } : { text };
  announce(text);
}

const plainMessages = (): Map<string, Message> => {
  const plain = new Map<string, Message>();
  for (const [id, message] of messages.peek()) plain.set(id, message.peek());
  return plain;
};

// --- Conversations -------------------------------------------------------------------------------------------------

export async function loadConversations(): Promise<void> {
  conversations.value = (await db.allConversations()).sort((a, b) => b.updated - a.updated);
}

export async function openById(id: string | null): Promise<void> {
  if (id === openId.peek() && id !== null) return;
  const loaded = id === null ? [] : await db.messagesOf(id);
  batch(() => {
    openId.value = id;
    draftParameters.value = null;
    draftModel.value = undefined;
    messages.value = new Map(loaded.map((message) => [message.id, signal(message)]));
  });
  history.replaceState(null, '', id ? `#${id}` : location.pathname + location.search);
  for (const message of loaded) if (message.state === 'streaming') resumeAnswer(message);
}

const kResumedMs = 2 * 3_600_000; // older answers are looked for when their conversation is opened

/** Goes on with the answers that had not ended when the page was closed, also of conversations that are not open. */
export async function resumeAnswers(): Promise<void> {
  for (const { id, updated } of conversations.peek()) {
    if (updated < Date.now() - kResumedMs) return; // the newest are first
    for (const message of await db.messagesOf(id)) if (message.state === 'streaming') resumeAnswer(message);
  }
}

/** The parameters of the open conversation, also of one that has no message yet. */
export function parameters(): Parameters {
  return openConversation.value?.parameters ?? draftParameters.value ?? defaultParameters.value;
}

export async function setParameters(change: Partial<Parameters>): Promise<void> {
  const conversation = openConversation.peek();
  if (conversation) await saveConversation(conversation, (now) => ({ parameters: { ...now.parameters, ...change } }));
  else draftParameters.value = { ...parameters(), ...change };
}

/** The model of the open conversation's answers from now on, and of conversations to come. */
export async function chooseModel(model: string): Promise<void> {
  lastModel.value = model;
  const conversation = openConversation.peek();
  if (conversation) await saveConversation(conversation, () => ({ model }));
  else draftModel.value = model;
}

type Change = (now: Conversation) => Partial<Conversation>;

let saving: Promise<unknown> = Promise.resolve();

/**
 * Stores a changed conversation, with other writes, and shows it. One after the other, and each change is made to what
 * the one before has left: a message that is sent right after a setting was changed must have it, and not undo it.
 */
function saveConversation(conversation: Conversation, change: Change, ...writes: db.Write[]): Promise<Conversation> {
  const save = async () => {
    const now = conversations.peek().find(({ id }) => id === conversation.id) ?? conversation;
    const next = { ...now, ...change(now) };
    await db.write([{ store: 'conversations', put: next }, ...writes]);
    showConversation(next);
    tellTabs({ kind: 'conversation', conversation: next });
    return next;
  };
  const saved = saving.then(save);
  saving = saved.catch(() => undefined);
  return saved;
}

function titleOf(text: string): string {
  const line = text.trim().split('\n')[0]!.trim();
  return line.length > 60 ? line.slice(0, 59).trimEnd() + '…' : line || 'New conversation';
}

async function conversationFor(text: string): Promise<Conversation> {
  const open = openConversation.peek();
  if (open) return open;
  const now = Date.now();
  const conversation: Conversation = {
    id: newId(),
    title: titleOf(text),
    created: now,
    updated: now,
    leaf: null,
    parameters: { ...kNoParameters, ...parameters() },
    ...(draftModel.peek() ? { model: draftModel.peek()! } : {}),
  };
  await saveConversation(conversation, () => ({}));
  batch(() => {
    openId.value = conversation.id;
    messages.value = new Map();
  });
  history.replaceState(null, '', `#${conversation.id}`);
  return conversation;
}

export async function rename(conversation: Conversation, title: string): Promise<void> {
  if (title.trim()) await saveConversation(conversation, () => ({ title: title.trim().slice(0, 200) }));
}

export async function removeConversation(conversation: Conversation): Promise<void> {
  const gone = await db.messagesOf(conversation.id);
  const tokens = await db.tokenRowsOf(conversation.id);
  stopAndForget([conversation.id, ...gone.map(({ id }) => id)]);
  await db.write([
    { store: 'conversations', remove: conversation.id },
    ...gone.map(({ id }): db.Write => ({ store: 'messages', remove: id })),
    ...tokens.map(({ id }): db.Write => ({ store: 'tokens', remove: id })),
  ]);
  forgetConversation(conversation.id);
  tellTabs({ kind: 'conversation-gone', id: conversation.id });
  say('The conversation was deleted.', {
    name: 'Undo',
    run: () => {
      remember([conversation.id, ...gone.map(({ id }) => id)]);
      const back = gone.map((message): db.Write => ({ store: 'messages', put: settled(message) }));
      const rows = tokens.map((row): db.Write => ({ store: 'tokens', put: row }));
      void saveConversation(conversation, () => ({}), ...back, ...rows);
    },
  });
}

// A message that comes back after its stream was stopped has only what had arrived.
const settled = (message: Message): Message =>
  message.state === 'streaming' ? { ...message, state: 'stopped' } : message;

function forgetConversation(id: string): void {
  conversations.value = conversations.peek().filter((conversation) => conversation.id !== id);
  if (openId.peek() === id) void openById(null);
}

// --- Messages ------------------------------------------------------------------------------------------------------

function newMessage(
  conversation: Conversation,
  parent: string | null,
  role: Message['role'],
  content: string,
): Message {
  return { id: newId(), conversation: conversation.id, parent, role, content, created: Date.now(), state: 'done' };
}

/** Stores messages, shows them, and makes the last one the leaf on show. */
async function append(
  conversation: Conversation,
  added: Message[],
  tokens: db.Write[] = [],
  change: Partial<Conversation> = {},
): Promise<Conversation> {
  const puts = added.map((put): db.Write => ({ store: 'messages', put }));
  const all = { ...change, leaf: added.at(-1)!.id, updated: Date.now() };
  const next = await saveConversation(conversation, () => all, ...puts, ...tokens);
  batch(() => added.forEach(showMessage));
  for (const message of added) tellTabs({ kind: 'message', message });
  return next;
}

/** Stores and shows messages of which the last is an answer, and makes it. Ends when they are shown. */
function begin(
  conversation: Conversation,
  added: Message[],
  tokens: Token[] = [],
  change: Partial<Conversation> = {},
): Promise<void> {
  const answer = added.at(-1)!;
  return new Promise((resolve, reject) => {
    startAnswer(answer, tokens, async () => {
      try {
        const rows = tokens.length > 0 ? [db.putTokens(answer, tokens)] : [];
        const next = await append(conversation, added, rows, change);
        resolve();
        return bodyFor(next, plainMessages(), answer);
      } catch (error) {
        reject(error);
        throw error;
      }
    });
  });
}

async function answerTo(conversation: Conversation, parent: string | null, before: Message[] = []): Promise<void> {
  const answer: Message = { ...newMessage(conversation, parent, 'assistant', ''), state: 'streaming' };
  const model = currentModel.peek();
  if (model) answer.model = model;
  await begin(conversation, [...before, answer], [], model ? { model } : {});
}

export async function sendText(text: string): Promise<void> {
  const conversation = await conversationFor(text);
  const question = newMessage(conversation, conversation.leaf, 'user', text);
  await answerTo(conversation, question.id, [question]);
}

/** A changed message is a branch beside the old one; one of the user is answered. */
export async function editMessage(message: Message, content: string): Promise<void> {
  const conversation = openConversation.peek();
  if (!conversation) return;
  const edited = newMessage(conversation, message.parent, message.role, content);
  if (message.role === 'user') return answerTo(conversation, edited.id, [edited]);
  for (const name of ['model', 'reasoning', 'toolCallId', 'toolName'] as const) {
    if (message[name] !== undefined) edited[name] = message[name];
  }
  await append(conversation, [edited]);
}

export async function regenerate(message: Message): Promise<void> {
  const conversation = openConversation.peek();
  if (!conversation || live.peek().has(message.id)) return;
  await answerTo(conversation, message.role === 'assistant' ? message.parent : message.id);
}

/** Goes on with an answer that ended early, in place. */
export async function continueAnswer(message: Message): Promise<void> {
  const conversation = openConversation.peek();
  if (!conversation || live.peek().has(message.id)) return;
  const { error: _error, finish: _finish, ttftMs: _ttft, streamBytes: _bytes, ...rest } = message;
  const begun: Message = { ...rest, state: 'streaming' };
  const tokens = message.hasTokens ? await db.tokensOf(message.id) : [];
  await begin(conversation, [begun], tokens);
}

/** A branch that has the tokens before `at`, then the alternative, and is continued from there. */
export async function branchAtToken(message: Message, tokens: Token[], at: number, alternative: Token): Promise<void> {
  const conversation = openConversation.peek();
  const token = tokens[at];
  if (!conversation || !token || token.part === 'tool') return;
  const begun: Message = {
    ...newMessage(conversation, message.parent, 'assistant', ''),
    state: 'streaming',
    hasTokens: true,
  };
  if (message.model) begun.model = message.model;
  if (token.part === 'reasoning') begun.reasoning = (message.reasoning ?? '').slice(0, token.at) + alternative.text;
  else begun.content = message.content.slice(0, token.at) + alternative.text;
  if (token.part === 'content' && message.reasoning) begun.reasoning = message.reasoning;
  const kept = [...tokens.slice(0, at), { ...alternative, part: token.part, at: token.at }];
  await begin(conversation, [begun], kept);
}

export async function sendToolResults(message: Message, results: string[]): Promise<void> {
  const conversation = openConversation.peek();
  if (!conversation) return;
  let parent = message.id;
  const added = (message.toolCalls ?? []).map((call: ToolCall, i) => {
    const result = {
      ...newMessage(conversation, parent, 'tool', results[i] ?? ''),
      toolCallId: call.id,
      toolName: call.name,
    };
    parent = result.id;
    return result;
  });
  await answerTo(conversation, parent, added);
}

export async function showBranch(message: Message): Promise<void> {
  const conversation = openConversation.peek();
  if (conversation) await saveConversation(conversation, () => ({ leaf: newestLeaf(plainMessages(), message.id) }));
}

export async function removeMessage(message: Message): Promise<void> {
  const conversation = openConversation.peek();
  if (!conversation) return;
  const all = plainMessages();
  const gone = subtree(all, message.id);
  const ids = gone.map(({ id }) => id);
  const tokens = (await db.tokenRowsOf(conversation.id)).filter((row) => ids.includes(row.id));
  stopAndForget(ids);
  const removals = ids.flatMap((id): db.Write[] => [
    { store: 'messages', remove: id },
    { store: 'tokens', remove: id },
  ]);
  await saveConversation(conversation, () => ({ leaf: leafWithout(all, message.id) }), ...removals);
  hideMessages(conversation.id, ids);
  tellTabs({ kind: 'messages-gone', conversation: conversation.id, ids });
  say(gone.length === 1 ? 'The message was deleted.' : `${gone.length} messages were deleted.`, {
    name: 'Undo',
    run: () => {
      remember(ids);
      const back = gone.map(settled);
      void append(
        conversation,
        back,
        tokens.map((row): db.Write => ({ store: 'tokens', put: row })),
      ).then((next) => saveConversation(next, () => ({ leaf: conversation.leaf })));
    },
  });
}

function hideMessages(conversation: string, ids: string[]): void {
  if (conversation !== openId.peek()) return;
  const next = new Map(messages.peek());
  for (const id of ids) next.delete(id);
  messages.value = next;
}

export function stopActive(): boolean {
  const active = path.peek().at(-1)?.peek();
  const entry = active && live.peek().get(active.id);
  entry?.stop();
  return !!entry;
}

// --- Export and import ---------------------------------------------------------------------------------------------

const fileName = (title: string) =>
  title
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 40) || 'conversation';

export async function exportJson(which: Conversation[]): Promise<void> {
  const archive = makeArchive(
    await Promise.all(
      which.map(async (conversation) => ({ conversation, messages: await db.messagesOf(conversation.id) })),
    ),
  );
  const name = which.length === 1 ? fileName(which[0]!.title) : 'conversations';
  download(`${name}.json`, 'application/json', JSON.stringify(archive, null, 1));
}

export async function exportMarkdown(conversation: Conversation): Promise<void> {
  const all = new Map((await db.messagesOf(conversation.id)).map((message) => [message.id, message]));
  const text = toMarkdown(conversation.title, pathTo(all, conversation.leaf));
  download(`${fileName(conversation.title)}.md`, 'text/markdown', text);
}

export async function importJson(file: File): Promise<void> {
  try {
    const entries = readArchive(await file.text());
    await db.write(
      entries.flatMap(({ conversation, messages }): db.Write[] => [
        { store: 'conversations', put: conversation },
        ...messages.map((put): db.Write => ({ store: 'messages', put })),
      ]),
    );
    await loadConversations();
    tellTabs({ kind: 'reload' });
    say(entries.length === 1 ? 'One conversation was imported.' : `${entries.length} conversations were imported.`);
  } catch (error) {
    say(`${file.name} was not imported. ${error instanceof Error ? error.message : String(error)}`);
  }
}

// --- Other tabs ----------------------------------------------------------------------------------------------------

/** Waits for the end of the tab that receives an answer. Without locks nobody could tell that it has ended. */
function watch(message: Message): void {
  if (message.state === 'streaming' && message.conversation === openId.peek() && 'locks' in navigator)
    resumeAnswer(message);
}

function receive(note: Note): void {
  switch (note.kind) {
    case 'conversation':
      return showConversation(note.conversation);
    case 'conversation-gone':
      stopAndForget([note.id]);
      return forgetConversation(note.id);
    case 'message':
      showMessage(note.message);
      return watch(note.message);
    case 'messages-gone':
      stopAndForget(note.ids);
      return hideMessages(note.conversation, note.ids);
    case 'stop':
      return live.peek().get(note.id)?.stop();
    case 'reload':
      return void loadConversations();
  }
}

export const listenToTabs = (): void => onNote(receive);
