// Tool calls of an answer. The server runs no tools: the user, or a program of theirs, fills in the results here.
import { useState } from 'preact/hooks';
import { sendToolResults } from '../chat/actions';
import type { Message, ToolCall } from '../types';
import { Icon } from './icons';
import { focusComposer } from './view_state';

/** Arguments with line breaks where they are complete JSON. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Call({ call, isOpen }: { call: ToolCall; isOpen: boolean }) {
  return (
    <details class="tool-call" open={isOpen}>
      <summary>
        <Icon name="tool" /> Calls <code>{call.name}</code>
      </summary>
      <pre dir="ltr" tabIndex={0} role="group" aria-label={`Arguments of ${call.name}`}>
        {pretty(call.arguments)}
      </pre>
    </details>
  );
}

interface Props {
  message: Message;
  canAnswer: boolean; // the message is the last of its branch, and complete
}

export function ToolCalls({ message, canAnswer }: Props) {
  const calls = message.toolCalls ?? [];
  const [results, setResults] = useState<string[]>([]);
  const set = (i: number, text: string) => setResults(calls.map((_, k) => (k === i ? text : (results[k] ?? ''))));
  return (
    <form
      class="tool-calls"
      onSubmit={(event) => {
        event.preventDefault();
        void sendToolResults(message, results).then(focusComposer);
      }}
    >
      {calls.map((call, i) => (
        <div key={i}>
          <Call call={call} isOpen={canAnswer} />
          {canAnswer && (
            <label class="stack">
              <span>Result of {call.name}</span>
              <textarea
                rows={3}
                dir="auto"
                value={results[i] ?? ''}
                spellcheck={false}
                onInput={(event) => set(i, event.currentTarget.value)}
              />
            </label>
          )}
        </div>
      ))}
      {canAnswer && (
        <div class="row end">
          <button type="submit" class="primary">
            Send {calls.length === 1 ? 'the result' : 'the results'}
          </button>
        </div>
      )}
    </form>
  );
}
