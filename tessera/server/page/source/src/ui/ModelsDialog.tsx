// The models of the server: the state of each, loading and unloading, and the choice of one for the conversation.
import { useComputed, useSignal } from '@preact/signals';
import type { Model } from '../api/server';
import { chooseModel } from '../chat/actions';
import { hasManyModels, kStateWords, load, loadedShare, stateOf, unload } from '../chat/models';
import { refreshServer } from '../chat/server_watch';
import { currentModel, models, openId } from '../chat/state';
import { bytes, count } from './format';
import { Dialog } from './Dialog';
import { Icon } from './icons';

const kFilterFrom = 8; // models

function describe({ meta }: Model): string {
  const { n_params, size, n_ctx, n_ctx_train, ftype } = meta ?? {};
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

function State({ model, id }: { model: Model; id: string }) {
  const state = stateOf(model);
  const share = loadedShare(model.id);
  return (
    <span class={`status ${state}`} id={id}>
      <span class={`dot ${state}`} aria-hidden="true" />
      {kStateWords[state]}
      {state === 'loading' && `, ${Math.round(100 * share!)} %`}
    </span>
  );
}

function LoadButton({ model, onFailure }: { model: Model; onFailure: (message: string) => void }) {
  const isBusy = useSignal(false);
  const state = stateOf(model);
  const isHere = state === 'loaded';
  const act = async () => {
    isBusy.value = true;
    onFailure('');
    try {
      await (isHere ? unload : load)(model.id);
    } catch (error) {
      onFailure(error instanceof Error ? error.message : String(error));
    }
    await refreshServer();
    isBusy.value = false;
  };
  // aria-disabled keeps the focus where it is while the state changes.
  const isOff = isBusy.value || state === 'loading' || state === 'ordered';
  return (
    <button
      type="button"
      class="small"
      aria-disabled={isOff}
      aria-label={`${isHere ? 'Unload' : 'Load'} ${model.id}`}
      onClick={() => {
        if (!isOff) void act();
      }}
    >
      {isHere ? 'Unload' : 'Load'}
    </button>
  );
}

function Row({ model, index }: { model: Model; index: number }) {
  const failure = useSignal(''); // of the last click
  const isChosen = currentModel.value === model.id;
  const share = loadedShare(model.id);
  const problem = failure.value || (stateOf(model) === 'failed' ? (model.status?.error ?? '') : '');
  const id = `model-${index}`;
  return (
    <div class={`model ${isChosen ? 'chosen' : ''}`}>
      <label>
        <input
          type="radio"
          name="model"
          value={model.id}
          checked={isChosen}
          aria-describedby={`${id}-state`}
          onChange={() => void chooseModel(model.id)}
        />
        <span class="model-text">
          <strong dir="auto">{model.id}</strong>
          <span class="muted">{describe(model)}</span>
        </span>
      </label>
      <div class="model-side">
        <State model={model} id={`${id}-state`} />
        <LoadButton model={model} onFailure={(message) => (failure.value = message)} />
      </div>
      {share !== null && <progress max={1} value={share} aria-label={`Loading of ${model.id}`} />}
      {problem && <p class="problem">{problem}</p>}
    </div>
  );
}

const plain = (text: string) => text.toLowerCase();

function Many({ onClose }: { onClose: () => void }) {
  const filter = useSignal('');
  const isReading = useSignal(false);
  const shown = useComputed(() => {
    const wanted = plain(filter.value.trim());
    return models.value.filter(({ id }) => plain(id).includes(wanted));
  }).value;
  return (
    <form
      class="models-form"
      onSubmit={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <p class="help">
        {openId.value === null ? 'The next conversation' : 'This conversation'} uses the chosen model. One that is not
        loaded is loaded by the next message.
      </p>
      {models.value.length >= kFilterFrom && (
        <div class="search">
          <Icon name="search" />
          <input
            type="search"
            dir="auto"
            aria-label="Search models"
            placeholder="Search"
            value={filter.value}
            onInput={(event) => (filter.value = event.currentTarget.value)}
          />
        </div>
      )}
      <fieldset class="models">
        <legend class="visually-hidden">Model of the conversation</legend>
        {shown.map((model) => (
          <Row key={model.id} model={model} index={models.value.indexOf(model)} />
        ))}
      </fieldset>
      {shown.length === 0 && <p class="muted">Nothing was found.</p>}
      <div class="dialog-foot">
        <button
          type="button"
          aria-disabled={isReading.value}
          onClick={() => {
            if (isReading.value) return;
            isReading.value = true;
            void refreshServer(true).finally(() => (isReading.value = false));
          }}
        >
          <Icon name="again" /> Look for new files
        </button>
        <button type="submit" class="primary">
          Done
        </button>
      </div>
    </form>
  );
}

export function ModelsDialog({ onClose }: { onClose: () => void }) {
  const [only] = models.value;
  return (
    <Dialog title={hasManyModels.value ? 'Models' : 'Model'} onClose={onClose} class="models-dialog">
      {!only && <p class="muted">The server lists no models, or cannot be reached.</p>}
      {only && !hasManyModels.value && (
        <div class="model-text">
          <strong dir="auto">{only.id}</strong>
          <span class="muted">{describe(only)}</span>
          <p class="help">This server has one model. With “--models-dir” it offers all models of a folder.</p>
        </div>
      )}
      {hasManyModels.value && <Many onClose={onClose} />}
    </Dialog>
  );
}
