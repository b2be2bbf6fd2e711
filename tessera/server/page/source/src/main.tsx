// The start of the page.
import { render } from 'preact';
import { onKeyWanted } from './api/http';
import { listenToTabs, loadConversations, openById, resumeAnswers, say } from './chat/actions';
import { watchServer } from './chat/server_watch';
import { conversations } from './chat/state';
import { applyTheme } from './settings';
import './style/page.css';
import { App } from './ui/App';
import { askForKey } from './ui/Dialogs';
import { listenToKeys } from './ui/keys';

async function start(): Promise<void> {
  applyTheme();
  // For example a full disk: without a word the page would only seem to do nothing.
  window.addEventListener('unhandledrejection', ({ reason }) => {
    say(`That did not work. ${reason instanceof Error ? reason.message : String(reason)}`);
  });
  onKeyWanted(askForKey);
  await loadConversations();
  const wanted = location.hash.slice(1);
  if (conversations.value.some(({ id }) => id === wanted)) await openById(wanted);
  render(<App />, document.getElementById('app')!);
  listenToKeys();
  listenToTabs();
  watchServer();
  void resumeAnswers();
  // Absent on plain http from another machine; the page then works without being offline.
  if ('serviceWorker' in navigator) {
    await navigator.serviceWorker.register(new URL('sw.js', document.baseURI)).catch(() => undefined);
  }
}

void start();
