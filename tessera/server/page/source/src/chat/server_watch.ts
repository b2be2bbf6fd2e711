// Keeps the server's properties and models up to date, and notices when it goes, returns, or has a newer page.
import { getHealth, getModels, getPageVersion, getProps } from '../api/server';
import { ServerError } from '../api/http';
import { currentModel, hasNewVersion, isReachable, models, props } from './state';

const kIdleMs = 30_000;
const kGoneMs = 3_000;
const kLoadingMs = 1_000;

export async function refreshServer(): Promise<void> {
  try {
    models.value = await getModels();
    const isRouter = models.value.some(({ status }) => status !== undefined);
    props.value = await getProps(isRouter ? currentModel.peek() : undefined).catch(() => getProps());
    isReachable.value = true;
  } catch (error) {
    isReachable.value = !(error instanceof ServerError && error.status === 0);
  }
  clearTimeout(loadingTimer);
  if (isLoading()) loadingTimer = window.setTimeout(() => void refreshServer(), kLoadingMs);
}

let loadingTimer = 0;
const isLoading = () => models.peek().some(({ status }) => status?.value === 'loading');

async function look(): Promise<void> {
  const was = isReachable.peek();
  try {
    await getHealth();
    isReachable.value = true;
  } catch (error) {
    // 503 while a model loads or the server ends is an answer too.
    isReachable.value = error instanceof ServerError && error.status !== 0;
  }
  if (isReachable.peek() && (!was || models.peek().length === 0)) await refreshServer();
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
    if (document.hidden) return;
    void look();
    void compareVersions();
  });
  window.addEventListener('online', () => void look());
}
