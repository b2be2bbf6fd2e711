// One message: its text, reasoning, tool calls, what can be done with it, and its figures.
import { useSignal, type Signal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { endReasoning } from '../api/server';
import { loadedShare } from '../chat/models';
import { continueAnswer, editMessage, regenerate, removeMessage, say, showBranch } from '../chat/actions';
import { live, tree, type Live, type Phase } from '../chat/state';
import type { Message } from '../types';
import { duration, plural, rate, whole } from './format';
import { Icon, IconButton } from './icons';
import { Markdown } from './Markdown';
import { ToolCalls } from './ToolCalls';
import { TokenView } from './TokenView';
import { copyText, editing, focusComposer, focusSoon, tokenView } from './view_state';

const kNames = { user: 'You', assistant: 'Assistant', tool: 'Tool result' };

function phaseText(phase: Phase): string {
  switch (phase.kind) {
    case 'sending':
      return 'Sending';
    case 'busy':
      return `The server is busy. Trying again in ${phase.seconds} s`;
    case 'queued':
      if (phase.position !== null && phase.position > 0)
        return `Waiting: ${plural(phase.position, 'request')} before yours`;
      if (phase.slots > 0 && phase.busySlots === phase.slots) return `Waiting: all ${phase.slots} slots are busy`;
      return 'Waiting for the model';
    case 'prompt':
      return `Reading ${whole(phase.processed)} of ${plural(phase.total, 'token')}`;
    case 'reasoning':
      return 'Thinking';
    case 'answering':
      return 'Writing';
    case 'reconnecting':
      return 'Reconnecting to the answer';
    case 'elsewhere':
      return 'Another tab receives this answer';
  }
}

function PhaseLine({ entry, model }: { entry: Live; model: string | undefined }) {
  const phase = entry.phase.value;
  if (phase.kind === 'answering' || phase.kind === 'elsewhere') return null;
  const share = phase.kind === 'sending' || phase.kind === 'reconnecting' ? loadedShare(model) : null;
  if (share !== null)
    return (
      <div class="phase">
        <span class="pulse" aria-hidden="true" />
        <span>
          Loading <span dir="auto">{model}</span>, {Math.round(100 * share)} %
        </span>
        <progress max={1} value={share} aria-label="Share of the model that is loaded" />
      </div>
    );
  return (
    <div class="phase">
      <span class="pulse" aria-hidden="true" />
      <span>{phaseText(phase)}</span>
      {phase.kind === 'prompt' && (
        <progress max={Math.max(phase.total, 1)} value={phase.processed} aria-label="Prompt tokens read" />
      )}
    </div>
  );
}

function Reasoning({ message, entry, isOpen }: { message: Message; entry: Live | undefined; isOpen: boolean }) {
  const isThinking = entry !== undefined && !message.content && !message.toolCalls;
  const [isAsked, setAsked] = useState(false);
  const answerNow = () => {
    setAsked(true);
    void endReasoning(message.completion!, message.model).catch((error: Error) => {
      setAsked(false);
      say(`The thinking could not be ended. ${error.message}`);
    });
  };
  return (
    <div class="reasoning">
      <details>
        <summary>
          <Icon name="thought" /> {isThinking ? 'Thinking' : 'Thought'}
        </summary>
        <div class="reasoning-text">
          <Markdown text={message.reasoning!} isOpen={isOpen && isThinking} />
        </div>
      </details>
      {isThinking && message.completion && (
        <button type="button" class="small" disabled={isAsked} onClick={answerNow}>
          Answer now
        </button>
      )}
    </div>
  );
}

function Editor({ message }: { message: Message }) {
  const text = useSignal(message.content);
  const ref = useRef<HTMLTextAreaElement>(null);
  const isUser = message.role === 'user';
  useLayoutEffect(() => {
    ref.current!.focus();
    ref.current!.setSelectionRange(text.value.length, text.value.length);
  }, []);
  const close = () => {
    editing.value = null;
    focusSoon(`#message-${message.id}`);
  };
  const save = () => {
    if (!text.value.trim()) return;
    editing.value = null;
    void editMessage(message, text.value).then(focusComposer);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      event.preventDefault();
      close();
    } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      save();
    }
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <textarea
        ref={ref}
        dir="auto"
        aria-label="Edit the message"
        value={text.value}
        rows={3}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="row end">
        <span class="muted hint">The old one stays as a branch.</span>
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button type="submit" class="primary" title="Ctrl Enter">
          {isUser ? 'Send' : 'Save'}
        </button>
      </div>
    </form>
  );
}

function Branches({ message }: { message: Message }) {
  const siblings = tree.value.children.get(message.parent) ?? [];
  if (siblings.length < 2) return null;
  const at = siblings.findIndex(({ id }) => id === message.id);
  const go = (to: number) => {
    const sibling = siblings[to];
    if (sibling)
      void showBranch(sibling).then(() =>
        focusSoon(
          `#message-${sibling.id} [data-action=${to < at ? 'previous' : 'next'}-branch]:enabled, #message-${sibling.id}`,
        ),
      );
  };
  return (
    <span class="branches" role="group" aria-label="Branches">
      <IconButton
        icon="left"
        label="Previous branch"
        keys="["
        action="previous-branch"
        disabled={at <= 0}
        onClick={() => go(at - 1)}
      />
      <span class="branch-count" aria-label={`Branch ${at + 1} of ${siblings.length}`} role="img">
        {at + 1}/{siblings.length}
      </span>
      <IconButton
        icon="right"
        label="Next branch"
        keys="]"
        action="next-branch"
        disabled={at >= siblings.length - 1}
        onClick={() => go(at + 1)}
      />
    </span>
  );
}

function CopyButton({ text }: { text: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    if (!(await copyText(text))) return say('The text could not be copied.');
    setDone(true);
    say('The message was copied.');
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <IconButton icon={isDone ? 'check' : 'copy'} label="Copy" keys="c" action="copy" onClick={() => void copy()} />
  );
}

function Actions({ message }: { message: Message }) {
  const isAnswer = message.role === 'assistant';
  const isShowingTokens = tokenView.value === message.id;
  const remove = () => {
    const article = document.getElementById(`message-${message.id}`);
    const before = article?.parentElement?.previousElementSibling?.querySelector('.message')?.id;
    void removeMessage(message).then(() => (before ? focusSoon(`#${before}`) : focusComposer()));
  };
  return (
    <div class="actions" role="toolbar" aria-label="Actions">
      <Branches message={message} />
      <CopyButton text={message.content} />
      {message.role !== 'tool' && (
        <IconButton icon="edit" label="Edit" keys="e" action="edit" onClick={() => (editing.value = message.id)} />
      )}
      {isAnswer && (
        <IconButton
          icon="again"
          label="New answer"
          keys="r"
          action="regenerate"
          onClick={() => void regenerate(message).then(focusComposer)}
        />
      )}
      {isAnswer && !message.toolCalls && (
        <IconButton
          icon="forward"
          label="Continue"
          keys="g"
          action="continue"
          onClick={() => void continueAnswer(message).then(focusComposer)}
        />
      )}
      {isAnswer && (
        <IconButton
          icon="tokens"
          label="Token view"
          keys="t"
          action="tokens"
          pressed={isShowingTokens}
          onClick={() => (tokenView.value = isShowingTokens ? null : message.id)}
        />
      )}
      <IconButton icon="trash" label="Delete" keys="x" action="delete" onClick={remove} />
    </div>
  );
}

/** The figures of an answer. */
export function Figures({ message }: { message: Message }) {
  const { timings, ttftMs } = message;
  if (!timings) return null;
  const cached = timings.cache_n ?? 0;
  const computed = timings.prompt_n ?? 0;
  const ttft = ttftMs ?? timings.ttft_ms;
  return (
    <p class="figures">
      {timings.predicted_n !== undefined && <span>{plural(timings.predicted_n, 'token')}</span>}
      {!!timings.predicted_per_second && <span>{rate(timings.predicted_per_second)} tokens/s</span>}
      {ttft !== undefined && <span>first after {duration(ttft)}</span>}
      <span>
        prompt: {whole(cached)} cached, {whole(computed)} computed
      </span>
    </p>
  );
}

const kEndings: Partial<Record<Message['state'], string>> = { stopped: 'Stopped.' };

function Ending({ message }: { message: Message }) {
  if (message.error)
    return (
      <p class="problem" role="alert">
        {message.error}
      </p>
    );
  const text =
    message.finish === 'length'
      ? 'The answer reached its longest length. “Continue” goes on.'
      : kEndings[message.state];
  return text ? <p class="note">{text}</p> : null;
}

function Body({ message, entry, isLast }: { message: Message; entry: Live | undefined; isLast: boolean }) {
  if (editing.value === message.id) return <Editor message={message} />;
  if (message.role === 'user')
    return (
      <div class="bubble" dir="auto">
        {message.content}
      </div>
    );
  if (message.role === 'tool') {
    return (
      <details class="tool-result">
        <summary>
          <Icon name="tool" /> Result of <code>{message.toolName}</code>
        </summary>
        <pre dir="auto" tabIndex={0} role="group" aria-label="Tool result">
          {message.content}
        </pre>
      </details>
    );
  }
  const isOpen = message.state === 'streaming';
  if (tokenView.value === message.id && !isOpen) return <TokenView message={message} isBusy={entry !== undefined} />;
  return (
    <>
      {message.reasoning && <Reasoning message={message} entry={entry} isOpen={isOpen} />}
      {message.content && <Markdown text={message.content} isOpen={isOpen} />}
      {message.toolCalls && <ToolCalls message={message} canAnswer={isLast && message.state === 'done'} />}
    </>
  );
}

export const MessageView = memo(function MessageView({ source, isLast }: { source: Signal<Message>; isLast: boolean }) {
  const message = source.value;
  const entry = live.value.get(message.id);
  const isLive = entry !== undefined && message.state === 'streaming';
  return (
    <article
      class={`message ${message.role} ${isLive ? 'live' : ''}`}
      id={`message-${message.id}`}
      tabIndex={-1}
      aria-labelledby={`name-${message.id}`}
    >
      <h2 class={message.role === 'assistant' ? 'name' : 'name visually-hidden'} id={`name-${message.id}`} dir="auto">
        {kNames[message.role]}
        {message.role === 'assistant' && message.model && <span class="model-name">{message.model}</span>}
      </h2>
      <Body message={message} entry={entry} isLast={isLast} />
      {isLive && <PhaseLine entry={entry} model={message.model} />}
      {!isLive && <Ending message={message} />}
      <footer class="message-foot">
        {!isLive && editing.value !== message.id && <Actions message={message} />}
        {message.role === 'assistant' && (!isLive || message.timings?.predicted_n) && <Figures message={message} />}
      </footer>
    </article>
  );
});
