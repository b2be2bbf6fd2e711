// Settings of the browser, kept in localStorage and shared by its tabs: looks, keys, and the parameters with which a
// new conversation begins.
import { effect, signal } from '@preact/signals';
import { kNoParameters, type Parameters } from './types';

export type Theme = 'system' | 'light' | 'dark';

function stored<T>(name: string, otherwise: T, isValid: (value: unknown) => boolean) {
  const key = `tessera-${name}`;
  const read = (text: string | null): T => {
    try {
      const value: unknown = JSON.parse(text ?? 'null');
      return value !== null && isValid(value) ? (value as T) : otherwise;
    } catch {
      return otherwise;
    }
  };
  let initial = otherwise;
  try {
    initial = read(localStorage.getItem(key));
  } catch {
    // Storage is switched off: the setting holds until the page closes.
  }
  const setting = signal<T>(initial);
  effect(() => {
    const text = JSON.stringify(setting.value);
    try {
      localStorage.setItem(key, text);
    } catch {
      // As above.
    }
  });
  window.addEventListener('storage', (event) => {
    if (event.key === key) setting.value = read(event.newValue);
  });
  return setting;
}

const isBoolean = (value: unknown) => typeof value === 'boolean';

export const theme = stored<Theme>('theme', 'system', (value) => ['system', 'light', 'dark'].includes(value as string));
export const hasLetterKeys = stored('letter-keys', true, isBoolean);
export const sendsOnEnter = stored('enter', true, isBoolean);
export const wrapsCode = stored('wrap', false, isBoolean);
export const isSidebarOpen = stored('sidebar', true, isBoolean);
/** The model that was chosen last: that of conversations for which none was chosen. */
export const lastModel = stored('model', '', (value) => typeof value === 'string');
export const defaultParameters = stored<Parameters>('parameters', kNoParameters, (value) => {
  const parameters = value as Parameters;
  return typeof parameters.system === 'string' && typeof parameters.sampling === 'object';
});

export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}
