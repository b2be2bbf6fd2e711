// Keeps the server's properties and models up to date, and notices when it goes, returns, or has a newer page.
import { effect } from '@preact/signals';
import { getHealth, getModels, getPageVersion, getProps } from '../api/server';
import { ServerError } from '../api/http';
import { areModelsFollowed, followWhileShown, hasManyModels, isAnyLoading, isLoaded, setModels } from './models';
import { currentModel, hasNewVersion, isReachable, models, props } from './state';

const kIdleMs = 30_000;
const kGoneMs = 3_000;
const kLoadingMs = 1_000;

/** With `isReread` the server looks into its folder of models again. */
export async function refreshServer(isReread = false): Promise<void> {
  try {
    const list = await getModels(isReread);
    const before = propsWanted;
    setModels(list);
    if (propsWanted === before) await refreshProps();
    isReachable.value = true;
  } catch (error) {
    isReachable.value = !(error instanceof ServerError && error.status === 0);
  }
  followWhileShown(() => void refreshServer());
  clearTimeout(loadingTimer);
  if (isAnyLoading() && !areModelsFollowed()) loadingTimer = window.setTimeout(() => void refreshServer(), kLoadingMs);
}

let loadingTimer = 0;
let propsWanted = 0; // requests so far: an older answer is not of the model on show

/** The properties of the current model, or where it is not loaded, those that all models share. */
async function refreshProps(): Promise<void> {
  const wanted = ++propsWanted;
  const id = currentModel.peek();
  const next = await getProps(hasManyModels.peek() && id !== undefined && isLoaded(id) ? id : undefined);
  if (wanted === propsWanted) props.value = next;
}

async function look(): Promise<void> {
  const was = isReachable.peek();
  try {
    await getHealth();
    isReachable.value = true;
  } catch (error) {
    // 503 while a model loads or the server ends is an answer too.
    isReachable.value = error instanceof ServerError && error.status !== 0;
  }
  const isUnfollowed = hasManyModels.peek() && !areModelsFollowed();
  if (isReachable.peek() && (!was || models.peek().length === 0 || isUnfollowed)) await refreshServer();
}

async function compareVersions(): Promise<void> {
  const mine = document.querySelector<HTMLMetaElement>('meta[name=page-version]')?.content;
  const { version } = await getPageVersion().catch(() => ({ version: mine }));
  if (mine && version !== mine) hasNewVersion.value = true;
}

export function watchServer(): void {
  const loop = async () => {
    if (!document.hidden) await look();
    setTimeout(() => void loop(), isReachable.peek() ? kIdleMs : kGoneMs);
  };
  void refreshServer().then(loop);
  document.addEventListener('visibilitychange', () => {
    followWhileShown(() => void refreshServer());
    if (document.hidden) return;
    void look();
    void compareVersions();
  });
  window.addEventListener('online', () => void look());
  let shown = '';
  effect(() => {
    // Another model, or the same one when it is loaded, has other properties.
    const next = hasManyModels.value ? `${isLoaded(currentModel.value)} ${currentModel.value}` : '';
    if (next === shown) return;
    shown = next;
    void refreshProps().catch(() => undefined);
  });
}
