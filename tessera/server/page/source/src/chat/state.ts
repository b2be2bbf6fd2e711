// What is on show: conversations, the messages of the open one, and the server's properties. Components read these
// signals; actions.ts and run.ts change them. Each message has a signal of its own, so that a token of an answer
// renders one message and not the list.
import { computed, signal, type Signal } from '@preact/signals';
import type { Model, Props } from '../api/server';
import { lastModel } from '../settings';
import { childrenByParent, pathTo } from '../store/tree';
import type { Conversation, Message, Parameters } from '../types';

export const conversations = signal<Conversation[]>([]); // newest first
export const openId = signal<string | null>(null); // null: a conversation that has no message yet
export const messages = signal<ReadonlyMap<string, Signal<Message>>>(new Map()); // of the open conversation
// Of a conversation without messages:
export const draftParameters = signal<Parameters | null>(null);
export const draftModel = signal<string | undefined>(undefined);

export const openConversation = computed(() => conversations.value.find(({ id }) => id === openId.value) ?? null);

// The structure of the tree changes only with the map of messages, so contents are read without subscribing to them.
export const tree = computed(() => {
  const plain = new Map<string, Message>();
  for (const [id, message] of messages.value) plain.set(id, message.peek());
  return { plain, children: childrenByParent(plain) };
});

export const path = computed(() => {
  const leaf = openConversation.value?.leaf ?? null;
  return pathTo(tree.value.plain, leaf).map(({ id }) => messages.value.get(id)!);
});

export const props = signal<Props | null>(null);
export const models = signal<Model[]>([]);
export const isReachable = signal(true);
export const hasNewVersion = signal(false);

export const contextSize = computed(() => props.value?.default_generation_settings?.n_ctx ?? 0);

/** The model that was chosen for the open conversation, whether the server has it or not. */
export const wantedModel = computed(() => (openId.value === null ? draftModel.value : openConversation.value?.model));

/** The model of the open conversation's next answer. Nobody chose it if it is loaded or may be. */
export const currentModel = computed(() => {
  const list = models.value;
  const known = (id: string | undefined) => list.find((model) => model.id === id);
  const model =
    known(wantedModel.value) ??
    known(lastModel.value) ??
    list.find(({ status }) => status === undefined || status.value === 'loaded') ??
    list.find(({ status }) => !status?.failed) ??
    list[0];
  return model?.id;
});

export type Phase =
  | { kind: 'sending' }
  | { kind: 'busy'; seconds: number; why: string } // the server asked to come back later
  | { kind: 'queued'; position: number | null; busySlots: number; slots: number }
  | { kind: 'prompt'; processed: number; cached: number; total: number }
  | { kind: 'reasoning' }
  | { kind: 'answering' }
  | { kind: 'reconnecting' }
  | { kind: 'elsewhere' }; // another tab receives it

export interface Live {
  conversation: string;
  phase: Signal<Phase>;
  stop: () => void;
}

/** Answers that arrive now, by message. */
export const live = signal<ReadonlyMap<string, Live>>(new Map());

export function setLive(id: string, entry: Live | null): void {
  const next = new Map(live.peek());
  if (entry) next.set(id, entry);
  else next.delete(id);
  live.value = next;
}

export const liveConversations = computed(() => new Set([...live.value.values()].map((entry) => entry.conversation)));

/** The answer that arrives on the branch on show. */
export const activeMessage = computed(() => {
  const last = path.value.at(-1);
  return last && live.value.has(last.peek().id) ? last : null;
});

/** Puts a message on show, if its conversation is open. */
export function showMessage(message: Message): void {
  if (message.conversation !== openId.peek()) return;
  const known = messages.peek().get(message.id);
  if (known) known.value = message;
  else messages.value = new Map(messages.peek()).set(message.id, signal(message));
}

export function showConversation(conversation: Conversation): void {
  const others = conversations.peek().filter(({ id }) => id !== conversation.id);
  conversations.value = [...others, conversation].sort((a, b) => b.updated - a.updated);
}
