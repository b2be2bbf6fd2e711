// The words for screen readers. Answers are announced in whole sentences: a live region that changes with each token
// would be read in fragments, or over and over. ui/LiveRegion.tsx puts the texts on the page.
import { signal } from '@preact/signals';
import type { Message } from '../types';
import type { Phase } from './state';

export const announcement = signal('');

const kGapMs = 700; // a reader drops a text that is replaced too soon

let waiting: string[] = [];
let timer = 0;

export function announce(text: string): void {
  if (!text.trim()) return;
  waiting.push(text.trim());
  if (!timer) flush();
}

function flush(): void {
  timer = 0;
  if (waiting.length === 0) return;
  announcement.value = waiting.join(' ');
  waiting = [];
  timer = window.setTimeout(flush, kGapMs);
}

/** The length of the whole sentences at the beginning of `text`. */
export function wholeSentences(text: string): number {
  let end = 0;
  for (const match of text.matchAll(/[.!?…。！？؟।]["')\]»”]*(?=\s|$)|\n+|[。！？]/g))
    end = match.index + match[0].length;
  return end;
}

/** Markdown as one would read it aloud. */
export function spoken(markdown: string): string {
  return markdown
    .replace(/^\s*(```|~~~).*$/gm, ' ')
    .replace(/!?\[([^\]\n]*)\]\([^)\n]*\)/g, '$1')
    .replace(/^\s{0,3}(#{1,6}|>|[-*+])\s+/gm, '')
    .replace(/[*_`|]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

const told = new Map<string, number>(); // characters of each answer that were announced
const kMostAtOnce = 2000;

export function announceAnswer(message: Message, isFinished: boolean): void {
  const from = told.get(message.id) ?? message.content.length - Math.min(message.content.length, kMostAtOnce);
  const rest = message.content.slice(from, from + kMostAtOnce);
  const n = isFinished || rest.length === kMostAtOnce ? rest.length : wholeSentences(rest);
  if (n > 0) announce(spoken(rest.slice(0, n)));
  told.set(message.id, isFinished ? message.content.length : from + n);
  if (!isFinished) return;
  told.delete(message.id);
  if (message.state === 'done')
    announce(message.toolCalls?.length ? 'The model calls a tool.' : 'The answer is complete.');
  if (message.state === 'stopped') announce('The answer was stopped.');
  if (message.error) announce(`The answer failed. ${message.error}`);
}

export function announcePhase(before: Phase, phase: Phase): void {
  if (phase.kind === 'queued' && phase.position !== null) announce(`${phase.position} requests are before yours.`);
  if (before.kind === phase.kind) return;
  if (phase.kind === 'prompt') announce('The model reads your message.');
  if (phase.kind === 'reasoning') announce('The model is thinking.');
  if (phase.kind === 'busy') announce(`The server is busy. Your message is sent again in ${phase.seconds} seconds.`);
  if (phase.kind === 'reconnecting') announce('Reconnecting to the answer.');
}
