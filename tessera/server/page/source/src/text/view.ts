// Shows a text that grows. Blocks that are closed stay as they are; only the last one, which the next token may change,
// is rendered anew. At the end the whole text is split once more, because a link may be defined after its use.
import { highlight } from './highlight';
import { renderFormulas } from './math';
import { kPageLevel, renderBlock, setLevels, splitBlocks, type Block, type Links } from './markdown';

const kLiveHighlight = 6000; // characters of open code that are coloured with each change

interface Shown {
  raw: string;
  token: Block['token'];
  nodes: ChildNode[];
  level: number; // of the last heading up to here
}

export class MarkdownView {
  private shown: Shown[] = [];
  private nClosed = 0;
  private closedText = '';
  private links: Links = {};

  constructor(private root: HTMLElement) {}

  update(text: string, isOpen: boolean): void {
    if (!text.startsWith(this.closedText)) this.clear();
    if (!isOpen) return this.finish(text);
    const blocks = splitBlocks(text.slice(this.closedText.length), this.links);
    let nOpen = 0; // the blocks from the last one that is not blank
    while (nOpen < blocks.length && blocks[blocks.length - 1 - nOpen]!.raw.trim() === '') ++nOpen;
    const nNewlyClosed = Math.max(blocks.length - nOpen - 1, 0);
    this.show(blocks, this.nClosed, nNewlyClosed);
    this.nClosed += nNewlyClosed;
    this.closedText += blocks
      .slice(0, nNewlyClosed)
      .map(({ raw }) => raw)
      .join('');
  }

  private finish(text: string): void {
    this.links = {};
    const definitions = /^ {0,3}\[[^\]\n]+\]:/m.test(text);
    if (definitions) {
      splitBlocks(text, this.links); // collects them
      this.clear(this.links);
    }
    this.nClosed = 0;
    this.closedText = '';
    const blocks = splitBlocks(text, this.links);
    this.show(blocks, 0, blocks.length);
  }

  /** Replaces the blocks from `first` on; of these the first `nClosed` will not change any more. */
  private show(blocks: Block[], first: number, nClosed: number): void {
    blocks.forEach((block, i) => {
      const old = this.shown[first + i];
      const isClosed = i < nClosed;
      if (old?.raw === block.raw) {
        if (isClosed) this.colour(old, true);
        return;
      }
      if (old && extendPlain(old, block)) return;
      if (old && this.extendCode(old, block)) return this.colour(old, isClosed);
      const fragment = document.createDocumentFragment();
      fragment.append(renderBlock(block));
      const level = setLevels(fragment, this.shown[first + i - 1]?.level ?? kPageLevel);
      const fresh: Shown = { ...block, level, nodes: [...fragment.childNodes] };
      for (const node of fresh.nodes) decorate(node);
      fresh.nodes = [...fragment.childNodes];
      const next = this.shown.slice(first + i + (old ? 1 : 0)).find(({ nodes }) => nodes.length)?.nodes[0] ?? null;
      this.root.insertBefore(fragment, next);
      old?.nodes.forEach((node) => node.remove());
      this.shown[first + i] = fresh;
      this.colour(fresh, isClosed);
    });
    for (const extra of this.shown.splice(first + blocks.length)) extra.nodes.forEach((node) => node.remove());
  }

  /** Code that grows keeps its element, and so its scroll position, selection and focus. */
  private extendCode(old: Shown, { raw, token }: Block): boolean {
    const figure = old.nodes[0];
    if (token?.type !== 'code' || !(figure instanceof HTMLElement) || !figure.matches('figure.code')) return false;
    const language = /^[\w+#.-]{1,30}/.exec((token as { lang?: string }).lang ?? '')?.[0] ?? '';
    if (figure.dataset.language !== language) return false;
    figure.querySelector('code')!.textContent = (token as unknown as { text: string }).text;
    old.raw = raw;
    return true;
  }

  private colour({ nodes }: Shown, isClosed: boolean): void {
    for (const node of nodes) {
      if (!(node instanceof HTMLElement)) continue;
      renderFormulas(node);
      for (const figure of node.matches('figure.code') ? [node] : node.querySelectorAll<HTMLElement>('figure.code')) {
        const code = figure.querySelector('code')!;
        const isColoured = code.childElementCount > 0;
        if (isColoured || (!isClosed && code.textContent!.length > kLiveHighlight)) continue;
        highlight(code, figure.dataset.language ?? '');
      }
    }
  }

  private clear(links: Links = {}): void {
    this.root.replaceChildren();
    this.shown = [];
    this.nClosed = 0;
    this.closedText = '';
    this.links = links;
  }
}

/** A line of a megabyte grows by what is new. */
function extendPlain(old: Shown, { raw, token }: Block): boolean {
  const text = old.nodes[0]?.firstChild;
  const isPlain = token === null && old.token === null && text instanceof Text && raw.startsWith(old.raw);
  if (!isPlain || text.data.length !== old.raw.length) return false;
  text.appendData(raw.slice(old.raw.length));
  old.raw = raw;
  return true;
}

/** Gives code a head with its language and a copy button, and makes what scrolls sideways reachable by keyboard. */
function decorate(node: ChildNode): void {
  if (!(node instanceof HTMLElement)) return;
  for (const pre of node.matches('pre') ? [node] : node.querySelectorAll('pre')) wrapCode(pre);
  for (const table of node.matches('table') ? [node] : node.querySelectorAll('table')) wrapTable(table);
}

function wrapCode(pre: HTMLElement): void {
  const language = pre.getAttribute('lang') ?? '';
  pre.removeAttribute('lang'); // it was a programming language
  const figure = document.createElement('figure');
  figure.className = 'code';
  figure.dir = 'ltr';
  figure.dataset.language = language;
  const head = document.createElement('figcaption');
  const name = document.createElement('span');
  name.textContent = language || 'text';
  const copy = document.createElement('button');
  copy.type = 'button';
  copy.className = 'copy-code';
  copy.textContent = 'Copy';
  copy.setAttribute('aria-label', `Copy the ${language || ''} code`.replace('  ', ' '));
  head.append(name, copy);
  pre.tabIndex = 0;
  pre.setAttribute('role', 'group');
  pre.setAttribute('aria-label', language ? `${language} code` : 'Code');
  pre.replaceWith(figure);
  figure.append(head, pre);
}

function wrapTable(table: HTMLElement): void {
  const frame = document.createElement('div');
  frame.className = 'table-frame';
  frame.tabIndex = 0;
  frame.setAttribute('role', 'group');
  frame.setAttribute('aria-label', 'Table');
  table.replaceWith(frame);
  frame.append(table);
}
