// The models of a server that has several: their states, as the server tells each change, loading and unloading.
import { computed, signal } from '@preact/signals';
import { ServerError } from '../api/http';
import { followModels, loadModel, unloadModel, type Model, type ModelStatus } from '../api/server';
import { EventReader } from '../api/sse';
import { announce } from './announcer';
import { currentModel, models } from './state';

/** ordered: this page asked for it, and the server has not begun. */
export type ModelState = 'unloaded' | 'ordered' | 'loading' | 'loaded' | 'sleeping' | 'failed';

interface ModelEvent {
  model: string;
  event: string;
  data?: { status?: string; progress?: number; failed?: boolean; error?: string };
}

export const hasManyModels = computed(() => models.value.some(({ status }) => status !== undefined));

const ordered = signal<ReadonlySet<string>>(new Set());

function setOrdered(id: string, isOrdered: boolean): void {
  if (ordered.peek().has(id) === isOrdered) return;
  const next = new Set(ordered.peek());
  if (isOrdered) next.add(id);
  else next.delete(id);
  ordered.value = next;
}

export function stateOf({ id, status }: Model): ModelState {
  if (!status) return 'loaded';
  if (status.value === 'loading' || status.value === 'loaded' || status.value === 'sleeping') return status.value;
  if (ordered.value.has(id)) return 'ordered';
  return status.failed ? 'failed' : 'unloaded';
}

const find = (id: string | undefined) => models.value.find((model) => model.id === id);

/** Whether requests for it are answered at once. Others would load it, or be refused. */
export function isLoaded(id: string | undefined): boolean {
  const model = find(id);
  return !model || stateOf(model) === 'loaded';
}

/** The share that is loaded of a model on its way; null: it is not on its way. */
export function loadedShare(id: string | undefined): number | null {
  const model = find(id);
  if (!model) return null;
  const state = stateOf(model);
  if (state === 'ordered') return 0;
  return state === 'loading' ? (model.status!.progress ?? 0) : null;
}

export const isAnyLoading = (): boolean => models.peek().some(({ id }) => loadedShare(id) !== null);

export const kStateWords: Record<ModelState, string> = {
  loaded: 'Loaded',
  loading: 'Loading',
  ordered: 'Waiting to be loaded',
  unloaded: 'Not loaded',
  sleeping: 'Asleep',
  failed: 'Could not be loaded',
};

function announceState(model: Model, before: ModelState): void {
  const state = stateOf(model);
  if (state === before) return;
  if (state === 'failed') announce(`${model.id} could not be loaded. ${model.status?.error ?? ''}`);
  else announce(`${model.id}: ${kStateWords[state].toLowerCase()}.`);
}

/** Replaces the list by the server's. */
export function setModels(list: Model[]): void {
  models.value = list;
  for (const { id, status } of list) if (status && status.value !== 'unloaded') setOrdered(id, false);
}

export async function load(id: string): Promise<void> {
  setOrdered(id, true);
  try {
    await loadModel(id);
  } catch (error) {
    setOrdered(id, false);
    throw error;
  }
}

export const unload = unloadModel;

/** Returns false for an event of something else than the status of a known model. */
function apply({ model: id, event, data }: ModelEvent): boolean {
  const model = models.peek().find((one) => one.id === id);
  if (!model?.status || event !== 'model_status' || !data?.status) return false;
  const before = stateOf(model);
  const status: ModelStatus = { ...model.status, value: data.status, progress: data.progress ?? 0 };
  delete status.failed;
  delete status.error;
  if (data.failed) Object.assign(status, { failed: true, error: data.error });
  const next = { ...model, status };
  models.value = models.peek().map((one) => (one === model ? next : one));
  setOrdered(id, false);
  if (id === currentModel.peek() || before === 'ordered') announceState(next, before);
  else if (document.querySelector('dialog[open]')) announceState(next, before);
  return true;
}

/**
 * Applies the server's events until the stream ends, which throws nothing. `refresh` is called once when it has begun,
 * and when an event does not tell enough.
 */
async function readEvents(signal: AbortSignal, refresh: () => void): Promise<void> {
  const response = await followModels(signal);
  refresh(); // for what has changed meanwhile
  const reader = response.body!.getReader();
  const events = new EventReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const { data } of events.push(value)) {
      if (!data) continue;
      const event = JSON.parse(data) as ModelEvent;
      // A loaded model has properties that the event does not hold.
      if (!apply(event) || event.data?.status === 'loaded') refresh();
    }
  }
}

let following: AbortController | null = null;
let hasRoute = true;

/** Whether each change is told, so that nobody needs to ask. */
export const areModelsFollowed = (): boolean => following !== null;

/** A hidden page does not listen: a browser has few connections to a server for all its tabs. */
export function followWhileShown(refresh: () => void): void {
  if (!hasManyModels.peek() || document.hidden || !hasRoute) {
    following?.abort();
    following = null;
  } else if (!following) {
    const mine = (following = new AbortController());
    readEvents(mine.signal, refresh)
      .catch((error: unknown) => {
        if (error instanceof ServerError && [404, 405, 501].includes(error.status)) hasRoute = false;
      })
      .finally(() => {
        if (following === mine) following = null;
      });
  }
}
