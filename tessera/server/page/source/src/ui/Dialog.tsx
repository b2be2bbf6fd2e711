// A modal dialog. The browser's own element keeps the focus inside, closes by Escape, and gives the focus back.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { announcement } from '../chat/announcer';
import { IconButton } from './icons';

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
}

export function Dialog({ title, onClose, children, ...rest }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const isGone = useRef(false);
  const before = useRef(announcement.peek());
  useLayoutEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    return () => {
      // The close event comes later, when the next dialog may be open already.
      isGone.current = true;
      dialog.close();
    };
  }, []);
  const closed = () => {
    if (!isGone.current) onClose();
  };
  const closeOutside = (event: MouseEvent) => {
    if (event.target === ref.current) onClose();
  };
  return (
    <dialog
      ref={ref}
      class={rest.class ?? ''}
      aria-labelledby="dialog-title"
      onClose={closed}
      onMouseDown={closeOutside}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
      {/* What is outside of an open dialog is not announced. */}
      <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true">
        {announcement.value === before.current ? '' : announcement.value}
      </div>
    </dialog>
  );
}
