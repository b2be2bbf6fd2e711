// The dialogs: keyboard help, models, API key.
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { hasLetterKeys } from '../settings';
import { Dialog } from './Dialog';
import { kShortcuts } from './keys';
import { ModelsDialog } from './ModelsDialog';
import { isKeyWrong, openDialog } from './view_state';

const close = () => (openDialog.value = null);

const kKeyNames: Record<string, string> = { ArrowUp: '↑', ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc' };

const Keys = ({ keys }: { keys: string }) => (
  <>
    {keys.split(' ').map((key) => (
      <kbd key={key}>{kKeyNames[key] ?? key}</kbd>
    ))}
  </>
);

function HelpDialog() {
  return (
    <Dialog title="Keyboard" onClose={close} class="wide">
      <div class="shortcut-groups">
        {kShortcuts.map(({ group, entries }) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl class="shortcuts">
              {[...new Set(entries.map(({ does }) => does))].map((does) => (
                <div key={does}>
                  <dt>
                    {entries
                      .filter((entry) => entry.does === does)
                      .map(({ keys }, i) => (
                        <Fragment key={keys}>
                          {i > 0 && <span class="or">or</span>}
                          <Keys keys={keys} />
                        </Fragment>
                      ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={hasLetterKeys.value}
          onChange={(event) => (hasLetterKeys.value = event.currentTarget.checked)}
        />
        Keys without Alt work outside of text boxes
      </label>
    </Dialog>
  );
}

/** Resolves the request for a key that api/http.ts made. */
let answerKey: (key: string | null) => void = () => undefined;

export function askForKey(isWrong: boolean): Promise<string | null> {
  isKeyWrong.value = isWrong;
  openDialog.value = 'key';
  return new Promise((resolve) => (answerKey = resolve));
}

function KeyDialog() {
  const [key, setKey] = useState('');
  const finish = (given: string | null) => {
    close();
    answerKey(given);
  };
  return (
    <Dialog title="API key" onClose={() => finish(null)}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim()) finish(key.trim());
        }}
      >
        {isKeyWrong.value && (
          <p class="problem" role="alert">
            The server did not accept this key.
          </p>
        )}
        <label for="key">This server asks for a key. It stays in this tab and is forgotten when the tab closes.</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={key}
          autofocus
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <div class="row end">
          <button type="button" onClick={() => finish(null)}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Use this key
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function Dialogs() {
  if (openDialog.value === 'help') return <HelpDialog />;
  if (openDialog.value === 'models') return <ModelsDialog onClose={close} />;
  if (openDialog.value === 'key') return <KeyDialog />;
  return null;
}
