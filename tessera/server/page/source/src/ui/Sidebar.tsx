// The list of conversations: search, open, rename, delete, export, import.
import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { exportJson, exportMarkdown, importJson, openById, removeConversation, rename } from '../chat/actions';
import { conversations, liveConversations, openId } from '../chat/state';
import * as db from '../store/db';
import { isInMemory } from '../store/db';
import type { Conversation } from '../types';
import { day } from './format';
import { Icon, IconButton } from './icons';
import { newConversation } from './keys';
import { focusComposer, focusSoon, isDrawerOpen, isNarrow, searchText } from './view_state';

const kSearchAfterMs = 150;

const plain = (text: string) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();

/** A piece of a text around what was found. */
function excerpt(text: string, at: number, length: number): string {
  const begin = Math.max(at - 30, 0);
  return (
    (begin > 0 ? '…' : '') +
    text
      .slice(begin, at + length + 60)
      .replace(/\s+/g, ' ')
      .trim()
  );
}

/** Excerpts of the conversations with messages that contain a text, by conversation. */
async function searchMessages(wanted: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const needle = plain(wanted);
  await db.eachMessage((message) => {
    if (found.has(message.conversation)) return true;
    const at = plain(message.content).indexOf(needle);
    if (at >= 0) found.set(message.conversation, excerpt(message.content, at, wanted.length));
    return true;
  });
  return found;
}

function Renamer({ conversation, onDone }: { conversation: Conversation; onDone: () => void }) {
  const ref = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => ref.current!.select(), []);
  const save = () => void rename(conversation, ref.current!.value).then(onDone);
  return (
    <form
      class="renamer"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <input
        ref={ref}
        dir="auto"
        aria-label="Title"
        defaultValue={conversation.title}
        maxLength={200}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          event.preventDefault();
          onDone();
        }}
      />
      <IconButton icon="check" label="Save the title" onClick={save} />
    </form>
  );
}

function Row({ conversation, found }: { conversation: Conversation; found: string | undefined }) {
  const hasMenu = useSignal(false);
  const isRenaming = useSignal(false);
  const isOpen = conversation.id === openId.value;
  const back = () => {
    isRenaming.value = hasMenu.value = false;
    focusSoon(`#conversation-${conversation.id}`);
  };
  if (isRenaming.value)
    return (
      <li>
        <Renamer conversation={conversation} onDone={back} />
      </li>
    );
  return (
    <li class={`conversation ${isOpen ? 'open' : ''}`}>
      <div class="conversation-row">
        <button
          type="button"
          id={`conversation-${conversation.id}`}
          class="title"
          aria-current={isOpen ? 'page' : undefined}
          onClick={() => {
            isDrawerOpen.value = false;
            void openById(conversation.id).then(focusComposer);
          }}
        >
          <span dir="auto">
            {liveConversations.value.has(conversation.id) && (
              <span class="pulse" role="img" aria-label="An answer arrives." />
            )}
            {conversation.title}
          </span>
          {found && <small dir="auto">{found}</small>}
        </button>
        <IconButton
          icon="more"
          label={`Actions for ${conversation.title}`}
          expanded={hasMenu.value}
          onClick={() => (hasMenu.value = !hasMenu.value)}
        />
      </div>
      {hasMenu.value && (
        <div
          class="conversation-menu"
          onKeyDown={(event) => {
            if (event.key !== 'Escape') return;
            event.preventDefault();
            back();
          }}
        >
          <button type="button" onClick={() => (isRenaming.value = true)}>
            <Icon name="edit" /> Rename
          </button>
          <button type="button" onClick={() => void exportJson([conversation])}>
            <Icon name="download" /> Export as JSON
          </button>
          <button type="button" onClick={() => void exportMarkdown(conversation)}>
            <Icon name="download" /> Export as Markdown
          </button>
          <button
            type="button"
            class="danger"
            onClick={() => void removeConversation(conversation).then(() => focusSoon('#search'))}
          >
            <Icon name="trash" /> Delete
          </button>
        </div>
      )}
    </li>
  );
}

function byDay(list: Conversation[]): [string, Conversation[]][] {
  const groups = new Map<string, Conversation[]>();
  for (const conversation of list) {
    const name = day(conversation.updated);
    groups.set(name, [...(groups.get(name) ?? []), conversation]);
  }
  return [...groups];
}

export function Sidebar() {
  const picker = useRef<HTMLInputElement>(null);
  const found = useSignal<Map<string, string>>(new Map());
  const wanted = searchText.value.trim();
  useEffect(() => {
    if (!wanted) return void (found.value = new Map());
    let isCurrent = true;
    const timer = setTimeout(
      () =>
        void searchMessages(wanted).then((result) => {
          if (isCurrent) found.value = result;
        }),
      kSearchAfterMs,
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [wanted, conversations.value]);
  const shown = useComputed(() => {
    const needle = plain(searchText.value.trim());
    if (!needle) return conversations.value;
    return conversations.value.filter(({ id, title }) => found.value.has(id) || plain(title).includes(needle));
  }).value;

  return (
    <nav class="sidebar" id="sidebar" aria-label="Conversations">
      <div class="sidebar-head">
        <span class="brand">
          <Icon name="model" /> tessera
        </span>
        {isNarrow.value && (
          <IconButton
            icon="close"
            label="Close the list"
            onClick={() => {
              isDrawerOpen.value = false;
              focusSoon('#menu');
            }}
          />
        )}
      </div>
      <button type="button" class="new" title="Alt N" onClick={newConversation}>
        <Icon name="plus" /> New conversation
      </button>
      <div class="search">
        <Icon name="search" />
        <input
          id="search"
          type="search"
          dir="auto"
          aria-label="Search conversations"
          placeholder="Search"
          value={searchText.value}
          onInput={(event) => (searchText.value = event.currentTarget.value)}
        />
      </div>
      <div class="conversations">
        {shown.length === 0 && <p class="muted empty">{wanted ? 'Nothing was found.' : 'No conversations yet.'}</p>}
        {byDay(shown).map(([name, list]) => (
          <section key={name}>
            <h2>{name}</h2>
            <ul>
              {list.map((conversation) => (
                <Row key={conversation.id} conversation={conversation} found={found.value.get(conversation.id)} />
              ))}
            </ul>
          </section>
        ))}
      </div>
      {isInMemory && <p class="note">This browser window stores nothing: conversations end with it.</p>}
      <div class="sidebar-foot">
        <input
          ref={picker}
          type="file"
          accept=".json,application/json"
          class="visually-hidden"
          tabIndex={-1}
          aria-label="File of conversations"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            if (file) void importJson(file);
            event.currentTarget.value = '';
          }}
        />
        <button type="button" onClick={() => picker.current!.click()}>
          <Icon name="upload" /> Import
        </button>
        <button
          type="button"
          disabled={conversations.value.length === 0}
          onClick={() => void exportJson(conversations.value)}
        >
          <Icon name="download" /> Export all
        </button>
      </div>
    </nav>
  );
}
