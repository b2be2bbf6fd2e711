// A text of an answer as Markdown. The elements are made by MarkdownView, not by Preact: closed blocks are never
// touched again, however long the answer grows.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { wrapsCode } from '../settings';
import { MarkdownView } from '../text/view';
import { announce } from '../chat/announcer';
import { copyText } from './view_state';

const kCostFactor = 3; // rendering takes at most a quarter of the time

async function copyCode(event: MouseEvent): Promise<void> {
  const button = (event.target as Element).closest<HTMLButtonElement>('button.copy-code');
  if (!button) return;
  const code = button.closest('figure')?.querySelector('code')?.textContent ?? '';
  const isCopied = await copyText(code);
  button.textContent = isCopied ? 'Copied' : 'Not copied';
  announce(isCopied ? 'The code was copied.' : 'The code could not be copied.');
  setTimeout(() => (button.textContent = 'Copy'), 2000);
}

export function Markdown({ text, isOpen }: { text: string; isOpen: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | null>(null);
  const pause = useRef({ until: 0, timer: 0 });

  useLayoutEffect(() => {
    const render = () => {
      const begin = performance.now();
      view.current ??= new MarkdownView(ref.current!);
      view.current.update(text, isOpen);
      const end = performance.now();
      pause.current.until = end + kCostFactor * (end - begin);
    };
    clearTimeout(pause.current.timer);
    const wait = pause.current.until - performance.now();
    if (!isOpen || wait <= 0) render();
    else pause.current.timer = window.setTimeout(render, wait);
  }, [text, isOpen]);
  useEffect(() => () => clearTimeout(pause.current.timer), []);

  return (
    <div ref={ref} class={`markdown ${wrapsCode.value ? 'wrap-code' : ''}`} onClick={(event) => void copyCode(event)} />
  );
}
