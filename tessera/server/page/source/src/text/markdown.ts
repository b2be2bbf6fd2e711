// Markdown to elements. HTML in the text is shown as text, only a few harmless tags without attributes are understood;
// links lead to http, https and mailto; images of other hosts become links. DOMPurify then cleans what the parser made:
// two lines of defence, and the Content-Security-Policy of the server is the third.
import DOMPurify from 'dompurify';
import { Lexer, Marked, type Token, type Tokens } from 'marked';
import { guard } from './guard';
import { escapeHtml, mathExtension } from './math_syntax';

const kSimpleTag = /^<\/?(?:br|sub|sup|kbd|b|i|u|em|strong|code|s|del|mark)\s*\/?>$/i;
const kSafeLink = /^(?:https?:\/\/|mailto:)/i;
const kSafeImage = /^data:image\/(?:png|jpeg|gif|webp);base64,/i;

const marked = new Marked({
  gfm: true,
  renderer: {
    html({ text, block }: Tokens.HTML | Tokens.Tag) {
      if (kSimpleTag.test(text.trim())) return text;
      const escaped = escapeHtml(text.trimEnd());
      return block ? `<p class="source-text">${escaped}</p>` : escaped;
    },
    // The class has the looks; setLevels() below decides the level.
    heading({ tokens, depth }) {
      return `<h3 class="h${depth}">${this.parser.parseInline(tokens)}</h3>`;
    },
    link({ href, title, tokens, raw }) {
      if (!kSafeLink.test(href)) return escapeHtml(raw);
      const hint = title ? ` title="${escapeHtml(title)}"` : '';
      return `<a href="${escapeHtml(href)}"${hint}>${this.parser.parseInline(tokens)}</a>`;
    },
    image({ href, text, raw }) {
      if (kSafeImage.test(href)) return `<img src="${escapeHtml(href)}" alt="${escapeHtml(text)}">`;
      if (!kSafeLink.test(href)) return escapeHtml(raw);
      return `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`;
    },
    code({ text, lang }) {
      const language = /^[\w+#.-]{1,30}/.exec(lang ?? '')?.[0] ?? '';
      return `<pre lang="${escapeHtml(language)}"><code>${escapeHtml(text)}</code></pre>`;
    },
    checkbox({ checked }) {
      const [sign, words] = checked ? ['☑', 'done'] : ['☐', 'to do'];
      return `<span role="img" aria-label="${words}">${sign}</span> `;
    },
    tablecell({ tokens, header, align }) {
      const tag = header ? 'th' : 'td';
      const side = align ? ` class="align-${align}"` : '';
      return `<${tag}${side}>${this.parser.parseInline(tokens)}</${tag}>\n`;
    },
  },
});

marked.use(mathExtension);

const kClean = {
  ALLOWED_TAGS: [
    'p',
    'br',
    'hr',
    'h3',
    'strong',
    'b',
    'em',
    'i',
    'u',
    's',
    'del',
    'mark',
    'sub',
    'sup',
    'kbd',
    'code',
    'pre',
    'blockquote',
    'ul',
    'ol',
    'li',
    'a',
    'img',
    'table',
    'thead',
    'tbody',
    'tr',
    'th',
    'td',
    'span',
  ],
  ALLOWED_ATTR: ['href', 'title', 'src', 'alt', 'class', 'lang', 'start', 'role', 'aria-label'],
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

function finishElement(node: Element): void {
  if (node.nodeName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
}

let hasHooks = false;

function clean(html: string): DocumentFragment {
  if (!hasHooks) DOMPurify.addHook('afterSanitizeAttributes', finishElement);
  hasHooks = true;
  return DOMPurify.sanitize(html, kClean);
}

/**
 * Gives the headings of a block their levels: below those of the page, and never more than one below the heading
 * before, whatever the text begins with, for readers that move by headings. Returns the level of the last one.
 */
export function setLevels(block: ParentNode, before: number): number {
  let level = before;
  for (const heading of block.querySelectorAll('h3')) {
    const depth = Number(heading.className.slice(1)) || 1;
    level = Math.min(depth + kPageLevel, level + 1);
    heading.setAttribute('aria-level', String(level));
  }
  return level;
}

export const kPageLevel = 2; // of the name above each message

/** A top-level part of a text: a paragraph, a list, a table, code. */
export interface Block {
  raw: string;
  token: Token | null; // null: plain text
}

export type Links = Record<string, { href: string | null; title: string | null }>;

/** Splits a text into blocks; joined their `raw` is the text. `links` are the definitions found before, and grow. */
export function splitBlocks(text: string, links: Links): Block[] {
  const blocks: Block[] = [];
  for (const piece of guard(text)) {
    if (piece.isPlain) blocks.push({ raw: piece.text, token: null });
    else blocks.push(...lex(piece.text, links));
  }
  return blocks;
}

function lex(text: string, links: Links): Block[] {
  try {
    const lexer = new Lexer(marked.defaults);
    Object.assign(lexer.tokens.links, links);
    const tokens = lexer.lex(text);
    Object.assign(links, tokens.links);
    const isWhole = tokens.reduce((n, { raw }) => n + raw.length, 0) === text.length;
    // The lexer changes line ends and tabs of some texts. Positions would then be wrong: such a text is one block.
    if (!isWhole) return [{ raw: text, token: { type: 'blocks', raw: text, tokens } as Token }];
    return tokens.map((token) => ({ raw: token.raw, token }));
  } catch {
    return [{ raw: text, token: null }]; // nested too deeply for the lexer
  }
}

export function renderBlock({ raw, token }: Block): Node {
  if (token) {
    try {
      const tokens = token.type === 'blocks' ? (token as Tokens.Generic).tokens! : [token];
      const fragment = clean(marked.parser(tokens));
      // Only whole blocks: an element with "auto" does not look into those inside that have a direction of their own.
      for (const element of fragment.children) element.setAttribute('dir', 'auto');
      return fragment;
    } catch {
      // As above.
    }
  }
  const plain = document.createElement('p');
  plain.className = 'source-text';
  plain.dir = 'auto';
  plain.textContent = raw;
  return plain;
}
