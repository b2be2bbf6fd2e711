// Formulas in Markdown: $$...$$ and \[...\] as blocks, \(...\), $...$ and $$...$$ within lines. A dollar sign in prose is
// money more often than mathematics, so $...$ wants no space inside its ends, no digit after it, and a single line.
import type { MarkedExtension, TokenizerAndRendererExtension, Tokens } from 'marked';

const kBlock = /^ {0,3}(?:\$\$([^]{1,4000}?)\$\$|\\\[([^]{1,4000}?)\\\])[ \t]*(?:\n+|$)/;
const kInline = /^(?:\\\(([^\n]{1,1000}?)\\\)|\$\$([^\n$]{1,1000}?)\$\$|\$(?![\s$])([^\n$]{0,500}[^\s\\$])\$(?![\d$]))/;

function extension(
  name: string,
  level: 'block' | 'inline',
  pattern: RegExp,
  start: RegExp,
): TokenizerAndRendererExtension {
  return {
    name,
    level,
    start: (text) => {
      const at = text.search(start);
      return at < 0 ? undefined : at;
    },
    tokenizer: (text) => {
      const match = pattern.exec(text);
      if (!match) return undefined;
      return { type: name, raw: match[0], text: (match[1] ?? match[2] ?? match[3] ?? '').trim() };
    },
    renderer: (token: Tokens.Generic) =>
      formulaElement(String(token.text), level === 'block' || token.raw.startsWith('$$')),
  };
}

const kEscapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => kEscapes[c]!);

/** The source of a formula; math.ts replaces it by the formula once its library is here. */
function formulaElement(source: string, isBlock: boolean): string {
  const code = `<code class="formula">${escapeHtml(source)}</code>`;
  return isBlock ? `<p class="formula-block">${code}</p>` : code;
}

export const mathExtension: MarkedExtension = {
  extensions: [
    extension('formulaBlock', 'block', kBlock, /^ {0,3}(?:\$\$|\\\[)/m),
    extension('formula', 'inline', kInline, /\$|\\\(/),
  ],
};
