// Tabs of the same browser keep each other up to date. Each tab tells the others of every change that it has stored;
// an answer that arrives is told several times a second by the one tab that receives it.
import type { Conversation, Message } from '../types';

export type Note =
  | { kind: 'conversation'; conversation: Conversation }
  | { kind: 'conversation-gone'; id: string }
  | { kind: 'message'; message: Message }
  | { kind: 'messages-gone'; conversation: string; ids: string[] }
  | { kind: 'stop'; id: string }
  | { kind: 'reload' }; // many changes at once

const channel = 'BroadcastChannel' in window ? new BroadcastChannel('tessera') : null;

export const tellTabs = (note: Note): void => channel?.postMessage(note);

export function onNote(f: (note: Note) => void): void {
  channel?.addEventListener('message', (event: MessageEvent<Note>) => f(event.data));
}

/**
 * Runs f while no other tab runs one for the same message, after waiting for it. The lock of a tab that closes is
 * released by the browser. Without locks (plain http from another machine) f runs at once.
 */
export async function alone(
  id: string,
  onWait: () => void,
  signal: AbortSignal,
  f: () => Promise<void>,
): Promise<void> {
  if (!navigator.locks) return f();
  const name = `tessera-answer-${id}`;
  const { held } = await navigator.locks.query();
  if (held?.some((lock) => lock.name === name)) onWait();
  await navigator.locks.request(name, { signal }, f);
}
