// The messages of the branch on show. The view follows the end of an answer while it is in sight, and leaves the reader
// alone once they have scrolled away.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { sendText } from '../chat/actions';
import { currentModel, openId, path, props } from '../chat/state';
import { Icon } from './icons';
import { MessageView } from './MessageView';
import { focusComposer } from './view_state';

const kNearEnd = 80; // pixels

// The model that is part of the program knows little else.
const kIdeasForTales = [
  'Tell me a story about a fox.',
  'Tell me a story about a baker.',
  'Tell me a story about the sea.',
];

const kIdeas = [
  'Explain how a transformer predicts the next word, step by step.',
  'Write a Python function that finds duplicate files in a folder.',
  'Compare B-trees and LSM-trees in a table.',
];

function Welcome() {
  const ideas = props.value?.model_path?.endsWith('(bundled)') ? kIdeasForTales : kIdeas;
  return (
    <div class="welcome">
      <svg class="mark" viewBox="0 0 64 64" aria-hidden="true">
        <path d="M8 8h14v14H8zM25 8h14v14H25zM42 8h14v14H42zM25 25h14v14H25zM25 42h14v14H25z" />
      </svg>
      <h2>What is on your mind?</h2>
      <p class="muted">
        {currentModel.value ? (
          <>
            You are talking to <b dir="auto">{currentModel.value}</b>. Conversations stay in this browser.
          </>
        ) : (
          'Conversations stay in this browser.'
        )}
      </p>
      <ul class="ideas">
        {ideas.map((idea) => (
          <li key={idea}>
            <button type="button" onClick={() => void sendText(idea).then(focusComposer)}>
              {idea}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Thread() {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isAtEnd = useSignal(true);
  const nShown = path.value.length;
  const end = () => {
    const { scrollHeight, clientHeight } = scroller.current!;
    return scrollHeight - clientHeight;
  };
  const last = useRef({ top: 0, height: 0 }); // as this component left or saw them
  const moveTo = (top: number) => {
    const element = scroller.current!;
    element.scrollTop = top;
    last.current = { top: element.scrollTop, height: element.scrollHeight };
  };
  const hasInput = useRef(false); // of the reader, since the view was last sent to the end
  const onInput = () => (hasInput.current = true);
  // The browser tells of scrolling later, when the text may have grown or shrunk. A move upwards is the reader's after
  // an input, or in a text of the same height.
  const onScroll = () => {
    const { scrollTop, scrollHeight } = scroller.current!;
    const isNear = end() - scrollTop < kNearEnd;
    const isReader = scrollTop < last.current.top && (hasInput.current || scrollHeight === last.current.height);
    if (isNear || isReader) isAtEnd.value = isNear;
    last.current.top = scrollTop;
  };
  const goToEnd = () => {
    isAtEnd.value = true;
    hasInput.current = false;
    moveTo(nShown > 0 ? end() : 0);
  };
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const follows = isAtEnd.peek() && path.peek().length > 0;
      moveTo(follows ? end() : scroller.current!.scrollTop);
    });
    observer.observe(content.current!);
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(goToEnd, [openId.value, nShown]);
  return (
    <div class="thread-frame">
      <div
        ref={scroller}
        class="thread"
        tabIndex={0}
        role="region"
        aria-label="Messages"
        onScroll={onScroll}
        onWheel={onInput}
        onTouchMove={onInput}
        onPointerDown={onInput}
        onKeyDown={onInput}
      >
        <div ref={content} class="thread-content">
          {nShown === 0 && <Welcome />}
          {path.value.map((source, i) => (
            <div key={source.peek().id} class="message-row">
              <MessageView source={source} isLast={i === nShown - 1} />
            </div>
          ))}
        </div>
      </div>
      {!isAtEnd.value && nShown > 0 && (
        <button type="button" class="to-end" onClick={goToEnd}>
          <Icon name="down" /> Latest
        </button>
      )}
    </div>
  );
}
