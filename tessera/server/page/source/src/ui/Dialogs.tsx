// The dialogs: keyboard help, models, API key.
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { loadModel, unloadModel, type Model } from '../api/server';
import { say } from '../chat/actions';
import { refreshServer } from '../chat/server_watch';
import { chosenModel, currentModel, models, props } from '../chat/state';
import { hasLetterKeys } from '../settings';
import { bytes, count } from './format';
import { Dialog } from './Dialog';
import { kShortcuts } from './keys';
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

const kStatusWords: Record<string, string> = {
  loaded: 'Loaded',
  loading: 'Loading',
  unloaded: 'Not loaded',
  sleeping: 'Asleep',
};

function describe(model: Model): string {
  const { n_params, size, n_ctx, n_ctx_train, ftype } = model.meta ?? {};
  const context = n_ctx ?? n_ctx_train;
  return [
    n_params && `${count(n_params)} parameters`,
    size && bytes(size),
    ftype,
    context && `context of ${context.toLocaleString('en')} tokens`,
  ]
    .filter(Boolean)
    .join(' · ');
}

function ModelRow({ model }: { model: Model }) {
  const [isBusy, setBusy] = useState(false);
  const status = model.status?.failed ? 'failed' : (model.status?.value ?? 'loaded');
  const isRouter = props.value?.role === 'router' || models.value.some((other) => other.status);
  const isChosen = currentModel.value === model.id;
  const act = (what: (id: string) => Promise<unknown>, done: string) => {
    setBusy(true);
    void what(model.id)
      .then(() => say(`${model.id} ${done}`))
      .catch((error: Error) => say(`${model.id}: ${error.message}`))
      .finally(() => {
        setBusy(false);
        void refreshServer();
      });
  };
  return (
    <li class={`model ${isChosen ? 'chosen' : ''}`}>
      <div class="model-text">
        <strong dir="auto">{model.id}</strong>
        <span class="muted">{describe(model)}</span>
        <span class={`status ${status}`}>
          {status === 'failed' ? 'Could not be loaded' : (kStatusWords[status] ?? status)}
        </span>
      </div>
      <div class="row">
        {isRouter &&
          (status === 'loaded' || status === 'sleeping' ? (
            <button type="button" disabled={isBusy} onClick={() => act(unloadModel, 'is unloaded.')}>
              Unload
            </button>
          ) : (
            <button
              type="button"
              disabled={isBusy || status === 'loading'}
              onClick={() => act(loadModel, 'is being loaded.')}
            >
              Load
            </button>
          ))}
        <button
          type="button"
          class={isChosen ? '' : 'primary'}
          aria-pressed={isChosen}
          onClick={() => {
            chosenModel.value = model.id;
            close();
            void refreshServer();
          }}
        >
          {isChosen ? 'In use' : 'Use'}
        </button>
      </div>
    </li>
  );
}

function ModelsDialog() {
  return (
    <Dialog title="Models" onClose={close} class="wide">
      {models.value.length === 0 && <p class="muted">The server lists no models, or cannot be reached.</p>}
      <ul class="models">
        {models.value.map((model) => (
          <ModelRow key={model.id} model={model} />
        ))}
      </ul>
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
  if (openDialog.value === 'models') return <ModelsDialog />;
  if (openDialog.value === 'key') return <KeyDialog />;
  return null;
}
