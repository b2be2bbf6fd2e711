// Formulas as MathML, which browsers draw themselves. The library is fetched when the first formula appears; what it
// cannot read stays as its source.
import DOMPurify from 'dompurify';

/** A node of the library's tree, as far as it is looked into here. */
interface TreeNode {
  children?: TreeNode[];
  attributes?: Record<string, string>;
  style?: Record<string, string>;
  toNode(): Node;
}

// The tree and not its text, because the text has style attributes. The name is internal, the version is fixed.
interface Library {
  __renderToMathMLTree(source: string, options: object): TreeNode;
}

// No links or styles from formulas (trust), and bounds for their macros.
const kOptions = { trust: false, throwOnError: true, maxExpand: 200, maxSize: [20, 20], strict: false };
const kClean = {
  USE_PROFILES: { mathMl: true },
  FORBID_ATTR: ['href', 'xlink:href', 'id'],
  ADD_ATTR: ['style'], // those of the library
  IN_PLACE: true as const,
};

let library: Library | null = null;
let loading: Promise<void> | null = null;

function load(): Promise<void> {
  loading ??= import('temml').then(
    (module) => void (library = module.default as unknown as Library),
    () => undefined,
  );
  return loading;
}

/** Replaces the sources of formulas below `root`, at once if the library is here. */
export function renderFormulas(root: HTMLElement): void {
  const sources = root.querySelectorAll<HTMLElement>('code.formula');
  if (sources.length === 0) return;
  if (library) sources.forEach(renderFormula);
  else void load().then(() => library && root.isConnected && renderFormulas(root));
}

function renderFormula(code: HTMLElement): void {
  const source = code.textContent ?? '';
  const block = code.parentElement?.matches('.formula-block') ? code.parentElement : null;
  code.classList.remove('formula'); // tried once
  try {
    const tree = library!.__renderToMathMLTree(source, { ...kOptions, displayMode: block !== null });
    moveStyles(tree);
    const math = tree.toNode();
    if (!(math instanceof Element) || math.localName !== 'math') return;
    DOMPurify.sanitize(math, kClean);
    math.setAttribute('aria-label', source);
    code.replaceWith(math);
    if (block) makeReachable(block, source);
  } catch {
    code.classList.add('formula-error'); // not TeX, or more than the bounds allow
  }
}

/** The policy of the page forbids style attributes as texts; properties set one by one are allowed. */
function moveStyles(tree: TreeNode): void {
  const waiting = [tree];
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    waiting.push(...(node.children ?? []));
    const text = node.attributes?.style;
    if (typeof text !== 'string') continue;
    delete node.attributes!.style;
    for (const declaration of text.split(';')) {
      const [name, value] = declaration.split(':');
      const property = name!.trim().replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
      if (value && node.style) node.style[property] = value.trim();
    }
  }
}

/** A wide formula scrolls, so the keyboard must reach it. */
function makeReachable(block: HTMLElement, source: string): void {
  block.tabIndex = 0;
  block.setAttribute('role', 'group');
  block.setAttribute('aria-label', `Formula ${source}`);
}
