// The frame of the page: conversations on one side, settings on the other, messages between.
import { useEffect } from 'preact/hooks';
import { announcement } from '../chat/announcer';
import { toast } from '../chat/actions';
import { kStateWords, stateOf } from '../chat/models';
import { currentModel, hasNewVersion, models, openConversation } from '../chat/state';
import { isSidebarOpen, theme, type Theme } from '../settings';
import { attach, Composer } from './Composer';
import { Dialogs } from './Dialogs';
import { Icon, IconButton, type IconName } from './icons';
import { toggleSettings, toggleSidebar } from './keys';
import { SettingsPanel } from './SettingsPanel';
import { Sidebar } from './Sidebar';
import { Thread } from './Thread';
import { isDrawerOpen, isNarrow, isSettingsOpen, openDialog } from './view_state';

const kNextTheme: Record<Theme, [Theme, IconName, string]> = {
  system: ['light', 'system', 'Colours of the system'],
  light: ['dark', 'sun', 'Light colours'],
  dark: ['system', 'moon', 'Dark colours'],
};

function Header() {
  const [next, icon, label] = kNextTheme[theme.value];
  const model = models.value.find(({ id }) => id === currentModel.value);
  const state = model ? stateOf(model) : 'unloaded';
  return (
    <header class="top">
      <button
        type="button"
        id="menu"
        class="icon-button"
        aria-label="Conversations"
        title="Conversations (Alt B)"
        aria-controls="sidebar"
        aria-expanded={isNarrow.value ? isDrawerOpen.value : isSidebarOpen.value}
        onClick={toggleSidebar}
      >
        <Icon name="menu" />
      </button>
      <h1 dir="auto">{openConversation.value?.title ?? 'New conversation'}</h1>
      <button
        type="button"
        class="model-button"
        title="Models (m)"
        aria-haspopup="dialog"
        aria-label={model ? `Model: ${model.id}, ${kStateWords[state].toLowerCase()}` : 'Model: none'}
        onClick={() => (openDialog.value = 'models')}
      >
        <span class={`dot ${state}`} aria-hidden="true" />
        <span class="model-label" dir="auto">
          {model?.id ?? 'No model'}
        </span>
      </button>
      <IconButton icon={icon} label={label} class="wide-only" onClick={() => (theme.value = next)} />
      <IconButton
        icon="help"
        label="Keyboard help"
        keys="?"
        class="wide-only"
        onClick={() => (openDialog.value = 'help')}
      />
      <button
        type="button"
        id="settings-open"
        class="icon-button"
        aria-label="Settings"
        title="Settings (Alt S)"
        aria-expanded={isSettingsOpen.value}
        onClick={toggleSettings}
      >
        <Icon name="settings" />
      </button>
    </header>
  );
}

const kToastMs = 10_000;

function ToastLine() {
  const shown = toast.value;
  useEffect(() => {
    if (!shown) return;
    const timer = setTimeout(() => (toast.value = null), kToastMs);
    return () => clearTimeout(timer);
  }, [shown]);
  if (!shown && !hasNewVersion.value) return null;
  if (!shown) {
    return (
      <div class="toast">
        <span>The server has a newer page.</span>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
      </div>
    );
  }
  return (
    <div class="toast">
      <span>{shown.text}</span>
      {shown.action && (
        <button
          type="button"
          onClick={() => {
            toast.value = null;
            shown.action!.run();
          }}
        >
          {shown.action.name}
        </button>
      )}
      <IconButton icon="close" label="Dismiss" onClick={() => (toast.value = null)} />
    </div>
  );
}

export function App() {
  const hasSidebar = isNarrow.value ? isDrawerOpen.value : isSidebarOpen.value;
  const covered = isNarrow.value && (isDrawerOpen.value || isSettingsOpen.value);
  useEffect(() => {
    document.title = openConversation.value ? `${openConversation.value.title} – tessera` : 'tessera';
  }, [openConversation.value?.title]);
  return (
    <div
      class={`app ${hasSidebar ? 'with-sidebar' : ''} ${isSettingsOpen.value ? 'with-settings' : ''}`}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        if (event.dataTransfer?.files.length) void attach([...event.dataTransfer.files]);
      }}
    >
      <button type="button" class="skip" onClick={() => document.getElementById('composer-text')?.focus()}>
        Skip to the message box
      </button>
      {hasSidebar && <Sidebar />}
      {covered && (
        <div
          class="cover"
          onClick={() => {
            isDrawerOpen.value = isSettingsOpen.value = false;
          }}
        />
      )}
      <main class="main" inert={covered}>
        <Header />
        <Thread />
        <Composer />
      </main>
      {isSettingsOpen.value && <SettingsPanel />}
      <Dialogs />
      <ToastLine />
      <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true" id="announcer">
        {announcement.value}
      </div>
    </div>
  );
}
