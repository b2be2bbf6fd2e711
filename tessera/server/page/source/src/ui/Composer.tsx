// The box for the next message, with the meters of the conversation below it.
import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { countTokens } from '../api/server';
import { parameters, say, sendText, stopActive } from '../chat/actions';
import { hasManyModels, isLoaded } from '../chat/models';
import { activeMessage, contextSize, currentModel, isReachable, openId, path, wantedModel } from '../chat/state';
import { sendsOnEnter } from '../settings';
import { checkObject, checkSchema, checkTools } from '../text/schema';
import { bytes, whole } from './format';
import { IconButton } from './icons';
import { editing, focusSoon, isSettingsOpen } from './view_state';

const kCountAfterMs = 400;
const kMostFileBytes = 2 << 20;

// The text of each conversation that was not sent yet, as long as the tab is open.
const kDrafts = 'tessera-drafts';
const drafts = signal<Record<string, string>>(storedDrafts());

function storedDrafts(): Record<string, string> {
  try {
    return JSON.parse(sessionStorage.getItem(kDrafts) ?? '{}') as Record<string, string>;
  } catch {
    return {};
  }
}

window.addEventListener('pagehide', () => {
  try {
    sessionStorage.setItem(kDrafts, JSON.stringify(drafts.peek()));
  } catch {
    // Storage is full or switched off: the texts end with the page.
  }
});

const draftKey = () => openId.value ?? 'new';
export const draft = () => drafts.value[draftKey()] ?? '';
const setDraft = (text: string) => (drafts.value = { ...drafts.peek(), [openId.peek() ?? 'new']: text });

/** A mistake in the boxes of the settings that would make the request fail. */
function mistake(): string | null {
  const { schema, tools, extra } = parameters();
  const checks: [string, ReturnType<typeof checkSchema>][] = [
    ['JSON schema', checkSchema(schema)],
    ['tools', checkTools(tools)],
    ['further fields', checkObject(extra)],
  ];
  const wrong = checks.find(([, problem]) => problem);
  return wrong
    ? `Not sent: the ${wrong[0]} in the settings has a mistake at ${wrong[1]!.where}: ${wrong[1]!.message}.`
    : null;
}

function send(): void {
  const text = draft();
  if (!text.trim() || activeMessage.peek()) return;
  const wrong = mistake();
  if (wrong) {
    isSettingsOpen.value = true;
    return say(wrong);
  }
  setDraft('');
  void sendText(text);
}

/** The text of files as fenced code, with a fence that the text does not contain. */
export async function attach(files: Iterable<File>): Promise<void> {
  for (const file of files) {
    if (file.size > kMostFileBytes) {
      say(`${file.name} has ${bytes(file.size)}, more than the ${bytes(kMostFileBytes)} that fit a message.`);
      continue;
    }
    const text = await file.text();
    if (text.includes('\0')) {
      say(`${file.name} is not a text file.`);
      continue;
    }
    let fence = '```';
    while (text.includes(fence)) fence += '`';
    const before = draft() && !draft().endsWith('\n') ? draft() + '\n\n' : draft();
    setDraft(`${before}${file.name}\n${fence}\n${text.trimEnd()}\n${fence}\n`);
  }
  focusSoon('#composer-text');
}

function ContextMeter({ drafted }: { drafted: number | null }) {
  const last = path.value.findLast((source) => source.value.timings)?.value.timings;
  const used = (last?.cache_n ?? 0) + (last?.prompt_n ?? 0) + (last?.predicted_n ?? 0);
  const size = contextSize.value;
  const isFull = size > 0 && used + (drafted ?? 0) > 0.9 * size;
  return (
    <p class="meters">
      {size > 0 && (
        <span class={isFull ? 'warn' : ''}>
          <meter min={0} max={size} high={0.9 * size} value={Math.min(used, size)} aria-label="Context used" />{' '}
          {whole(used)} of {whole(size)} tokens used
        </span>
      )}
      {drafted !== null && drafted > 0 && <span>{whole(drafted)} in this message</span>}
      <span class="hint">{sendsOnEnter.value ? 'Enter sends, Shift Enter starts a line' : 'Ctrl Enter sends'}</span>
    </p>
  );
}

function useTokenCount(text: string) {
  const drafted = useSignal<number | null>(null);
  useEffect(() => {
    // A model that is not loaded would be loaded only to count.
    if (!text.trim() || !isLoaded(currentModel.peek())) {
      drafted.value = null;
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      countTokens(text, currentModel.peek(), abort.signal).then(
        (n) => (drafted.value = n),
        () => (drafted.value = null),
      );
    }, kCountAfterMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return drafted.value;
}

export function Composer() {
  const text = draft();
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const drafted = useTokenCount(text);
  const active = activeMessage.value;

  useEffect(() => {
    // The height follows the text; browsers with field-sizing do this by themselves.
    if (CSS.supports('field-sizing', 'content')) return;
    area.current!.style.height = 'auto';
    area.current!.style.height = `${area.current!.scrollHeight}px`;
  }, [text]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const wantsSend = sendsOnEnter.value ? !event.shiftKey : event.ctrlKey || event.metaKey;
    if (event.key === 'Enter' && wantsSend) {
      event.preventDefault();
      send();
    } else if (event.key === 'ArrowUp' && text === '') {
      const mine = path.value.findLast((source) => source.peek().role === 'user');
      if (!mine || active) return;
      event.preventDefault();
      editing.value = mine.peek().id;
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {!isReachable.value && (
        <p class="banner" role="status">
          The server cannot be reached. You can read, and write once it is back.
        </p>
      )}
      {hasManyModels.value && wantedModel.value && wantedModel.value !== currentModel.value && (
        <p class="note composer-note" dir="auto">
          This server does not have {wantedModel.value}. {currentModel.value} answers next.
        </p>
      )}
      <div class="composer-box">
        <textarea
          id="composer-text"
          ref={area}
          dir="auto"
          rows={1}
          autofocus
          aria-label="Message"
          placeholder="Write a message"
          value={text}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={(event) => {
            const files = event.clipboardData?.files;
            if (!files?.length) return;
            event.preventDefault();
            void attach(files);
          }}
        />
        <div class="composer-buttons">
          <input
            ref={picker}
            type="file"
            multiple
            class="visually-hidden"
            tabIndex={-1}
            aria-label="Text files"
            onChange={(event) => {
              const { files } = event.currentTarget;
              if (files) void attach([...files]);
              event.currentTarget.value = '';
            }}
          />
          <IconButton icon="attach" label="Add text files" onClick={() => picker.current!.click()} />
          {active ? (
            <IconButton
              icon="stop"
              label="Stop the answer"
              keys="Esc"
              class="send stop"
              onClick={() => {
                stopActive();
                area.current!.focus();
              }}
            />
          ) : (
            <IconButton
              icon="send"
              label="Send"
              class="send"
              disabled={!text.trim()}
              onClick={() => {
                send();
                area.current!.focus();
              }}
            />
          )}
        </div>
      </div>
      <ContextMeter drafted={drafted} />
    </form>
  );
}
