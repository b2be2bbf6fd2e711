// The keyboard. The table is what `?` shows and what the listener does, so neither can be out of date. Keys without a
// modifier act only outside of text boxes, and the settings can switch them off.
import { openById, stopActive } from '../chat/actions';
import { hasLetterKeys, isSidebarOpen } from '../settings';
import { focusComposer, focusSoon, isDrawerOpen, isNarrow, isSettingsOpen, openDialog } from './view_state';

interface Shortcut {
  keys: string; // as shown
  does: string;
  matches?: (event: KeyboardEvent) => boolean; // none: a component or the browser does it
  run?: () => void;
  isLetter?: boolean;
}

const letter = (key: string, does: string, run: () => void, keys = key): Shortcut => ({
  keys,
  does,
  run,
  isLetter: true,
  matches: (event) => event.key === key && !event.ctrlKey && !event.metaKey && !event.altKey,
});

const withAlt = (code: string, keys: string, does: string, run: () => void): Shortcut => ({
  keys,
  does,
  run,
  matches: (event) => event.altKey && !event.ctrlKey && !event.metaKey && event.code === code,
});

const messageOf = (element: Element | null) => element?.closest<HTMLElement>('.message') ?? null;
const allMessages = () => [...document.querySelectorAll<HTMLElement>('.thread .message')];

function step(by: number): void {
  const all = allMessages();
  const at = all.indexOf(messageOf(document.activeElement)!);
  const next = at < 0 ? all.at(by < 0 ? -1 : 0) : all[Math.min(Math.max(at + by, 0), all.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

/** Presses a button of the message with the focus, else of the last one that has it. */
function press(action: string): () => void {
  return () => {
    const focused = messageOf(document.activeElement);
    const among = focused ? [focused] : allMessages().reverse();
    const button = among
      .map((message) => message.querySelector<HTMLElement>(`[data-action="${action}"]`))
      .find((found) => found);
    button?.click();
  };
}

export function toggleSidebar(): void {
  if (isNarrow.value) isDrawerOpen.value = !isDrawerOpen.value;
  else isSidebarOpen.value = !isSidebarOpen.value;
}

function search(): void {
  if (isNarrow.value) isDrawerOpen.value = true;
  else isSidebarOpen.value = true;
  focusSoon('#search');
}

export function newConversation(): void {
  isDrawerOpen.value = false;
  void openById(null).then(focusComposer);
}

export function toggleSettings(): void {
  isSettingsOpen.value = !isSettingsOpen.value;
  focusSoon(isSettingsOpen.value ? '#settings-close' : '#settings-open');
}

export const kShortcuts: { group: string; entries: Shortcut[] }[] = [
  {
    group: 'Writing',
    entries: [
      { keys: 'Enter', does: 'Send the message' },
      { keys: 'Shift Enter', does: 'New line' },
      { keys: 'ArrowUp', does: 'Edit your last message, in an empty box' },
      { keys: 'Escape', does: 'Stop the answer; close what is open' },
      letter('i', 'Go to the message box', focusComposer),
      withAlt('KeyN', 'Alt N', 'New conversation', newConversation),
      letter('n', 'New conversation', newConversation),
    ],
  },
  {
    group: 'Messages (the one with the focus, else the last)',
    entries: [
      letter('j', 'Next message', () => step(1)),
      letter('k', 'Previous message', () => step(-1)),
      letter('c', 'Copy', press('copy')),
      letter('e', 'Edit', press('edit')),
      letter('r', 'New answer', press('regenerate')),
      letter('g', 'Continue the answer', press('continue')),
      letter('t', 'Token view', press('tokens')),
      letter('[', 'Previous branch', press('previous-branch')),
      letter(']', 'Next branch', press('next-branch')),
      letter('x', 'Delete the message and all below it', press('delete')),
      { keys: 'ArrowLeft ArrowRight', does: 'Move among tokens, in the token view' },
    ],
  },
  {
    group: 'Page',
    entries: [
      letter('/', 'Search conversations', search),
      withAlt('KeyK', 'Alt K', 'Search conversations', search),
      withAlt('KeyB', 'Alt B', 'Show or hide conversations', toggleSidebar),
      letter('s', 'Settings of the conversation', toggleSettings),
      withAlt('KeyS', 'Alt S', 'Settings of the conversation', toggleSettings),
      letter('m', 'Models', () => (openDialog.value = 'models')),
      letter('?', 'This list', () => (openDialog.value = 'help')),
      withAlt('Slash', 'Alt /', 'This list', () => (openDialog.value = 'help')),
    ],
  },
];

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.matches('input:not([type=checkbox]), textarea, select'));

function escape(event: KeyboardEvent): void {
  if (isDrawerOpen.value) {
    isDrawerOpen.value = false;
    focusSoon('#menu');
  } else if (stopActive()) {
    event.preventDefault();
  } else if (isSettingsOpen.value) {
    toggleSettings();
  }
}

export function listenToKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') return escape(event);
    for (const { entries } of kShortcuts) {
      for (const { matches, run, isLetter } of entries) {
        if (!matches?.(event) || (isLetter && (isTyping(event.target) || !hasLetterKeys.value))) continue;
        event.preventDefault();
        return run?.();
      }
    }
  });
}
