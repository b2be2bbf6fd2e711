// Colours of code. The library is large, so it is fetched when the first code block with a language appears; without it
// (an old tab after an update of the server) code stays plain.
import type { HLJSApi } from 'highlight.js';

const kMostCharacters = 100_000;

let library: HLJSApi | null = null;
let loading: Promise<HLJSApi | null> | null = null;

function load(): Promise<HLJSApi | null> {
  loading ??= import('highlight.js/lib/common').then(
    (module) => (library = module.default),
    () => null,
  );
  return loading;
}

/** Colours the text of a code element, at once if the library is here. */
export function highlight(code: HTMLElement, language: string): void {
  const text = code.textContent ?? '';
  if (!language || text.length > kMostCharacters) return;
  if (!library) {
    void load().then((loaded) => {
      if (loaded && code.isConnected && code.textContent === text) highlight(code, language);
    });
    return;
  }
  if (!library.getLanguage(language)) return;
  // The library escapes the text and adds spans with classes only.
  code.innerHTML = library.highlight(text, { language, ignoreIllegals: true }).value;
}
