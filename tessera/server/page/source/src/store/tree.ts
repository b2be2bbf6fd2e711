// A conversation is a tree of messages. Its branch on show is the way from a leaf up to the root, so an edit or a new
// answer is a sibling and nothing is ever overwritten. Functions here read maps and change nothing; none recurses.
import type { Message } from '../types';

export type MessageMap = ReadonlyMap<string, Message>;

/** The messages from the root to `leaf`. A missing parent or a cycle, as a damaged import may have, ends the way. */
export function pathTo(messages: MessageMap, leaf: string | null): Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  for (let id = leaf; id !== null && !seen.has(id);) {
    const message = messages.get(id);
    if (!message) break;
    seen.add(id);
    path.push(message);
    id = message.parent;
  }
  return path.reverse();
}

const byAge = (a: Message, b: Message) => a.created - b.created || (a.id < b.id ? -1 : 1);

export function childrenByParent(messages: MessageMap): Map<string | null, Message[]> {
  const children = new Map<string | null, Message[]>();
  for (const message of messages.values()) {
    const siblings = children.get(message.parent);
    if (siblings) siblings.push(message);
    else children.set(message.parent, [message]);
  }
  for (const siblings of children.values()) siblings.sort(byAge);
  return children;
}

/** The messages with the same parent, oldest first, the message itself among them. */
export function siblingsOf(messages: MessageMap, message: Message): Message[] {
  return [...messages.values()].filter((other) => other.parent === message.parent).sort(byAge);
}

/** The leaf below a message that was made last. */
export function newestLeaf(messages: MessageMap, id: string): string {
  const children = childrenByParent(messages);
  let leaf = id;
  for (const message of subtree(messages, id, children)) {
    const isNewer = byAge(messages.get(leaf)!, message) < 0;
    if (!children.has(message.id) && (isNewer || children.has(leaf))) leaf = message.id;
  }
  return leaf;
}

/** A message and all below it. */
export function subtree(messages: MessageMap, id: string, children = childrenByParent(messages)): Message[] {
  const root = messages.get(id);
  const found: Message[] = root ? [root] : [];
  const seen = new Set<string>([id]);
  for (let i = 0; i < found.length; ++i) {
    for (const child of children.get(found[i]!.id) ?? []) {
      if (seen.has(child.id)) continue;
      seen.add(child.id);
      found.push(child);
    }
  }
  return found;
}

/** The leaf to show after `id` and all below it are gone: below the nearest sibling, else the parent. */
export function leafWithout(messages: MessageMap, id: string): string | null {
  const message = messages.get(id);
  if (!message) return null;
  const siblings = siblingsOf(messages, message);
  const at = siblings.findIndex((sibling) => sibling.id === id);
  const next = siblings[at - 1] ?? siblings[at + 1];
  return next ? newestLeaf(messages, next.id) : message.parent;
}
