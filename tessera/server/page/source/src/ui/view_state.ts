// The state of the view alone: panels, dialogs, the message being edited or shown as tokens.
import { signal } from '@preact/signals';

export type DialogName = 'help' | 'models' | 'key';

export const openDialog = signal<DialogName | null>(null);
export const isSettingsOpen = signal(false);
export const isDrawerOpen = signal(false); // the conversations on a narrow screen
export const editing = signal<string | null>(null);
export const tokenView = signal<string | null>(null);
export const searchText = signal('');
export const isKeyWrong = signal(false);

export const isNarrow = signal(matchMedia('(max-width: 800px)').matches);
matchMedia('(max-width: 800px)').addEventListener('change', (event) => (isNarrow.value = event.matches));

/** Puts the focus on an element once it is rendered. */
export function focusSoon(selector: string): void {
  requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus());
}

export const focusComposer = (): void => focusSoon('#composer-text');

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // plain http from another machine has no clipboard API
  }
}

function copyBySelection(text: string): boolean {
  const focused = document.activeElement;
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'visually-hidden';
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
