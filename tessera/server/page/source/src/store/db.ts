// The browser's database: conversations, messages, and the tokens of messages whose probabilities were asked for.
// Where IndexedDB is missing (some private windows), everything is kept in memory until the page closes.
import type { Conversation, Message, Token } from '../types';

const kName = 'tessera';
const kVersion = 1;
const kStores = ['conversations', 'messages', 'tokens'] as const;
type Store = (typeof kStores)[number];

interface TokenRow {
  id: string; // of the message
  conversation: string;
  tokens: Token[];
}

export interface Write {
  store: Store;
  put?: Conversation | Message | TokenRow;
  remove?: string;
}

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function openDatabase(): Promise<IDBDatabase> {
  const request = indexedDB.open(kName, kVersion);
  request.onupgradeneeded = () => {
    for (const store of kStores) {
      const objects = request.result.createObjectStore(store, { keyPath: 'id' });
      if (store !== 'conversations') objects.createIndex('conversation', 'conversation');
    }
  };
  return result(request).then((database) => {
    // A later version of the page in another tab must not wait for this one.
    database.onversionchange = () => database.close();
    return database;
  });
}

/** The same operations on maps. */
class MemoryTables {
  private tables = new Map<Store, Map<string, { id: string; conversation?: string }>>(
    kStores.map((store) => [store, new Map()]),
  );

  all(store: Store, conversation?: string) {
    const rows = [...this.tables.get(store)!.values()];
    return conversation === undefined ? rows : rows.filter((row) => row.conversation === conversation);
  }
  get(store: Store, id: string) {
    return this.tables.get(store)!.get(id);
  }
  write(writes: Write[]) {
    for (const { store, put, remove } of writes) {
      if (put) this.tables.get(store)!.set(put.id, structuredClone(put));
      if (remove !== undefined) this.tables.get(store)!.delete(remove);
    }
  }
}

let opened: Promise<IDBDatabase | MemoryTables> | undefined;
export let isInMemory = false;

function tables(): Promise<IDBDatabase | MemoryTables> {
  opened ??= Promise.resolve()
    .then(openDatabase)
    .catch(() => {
      isInMemory = true;
      return new MemoryTables();
    });
  return opened;
}

async function all<T>(store: Store, conversation?: string): Promise<T[]> {
  const db = await tables();
  if (db instanceof MemoryTables) return db.all(store, conversation) as T[];
  const objects = db.transaction(store).objectStore(store);
  if (conversation === undefined) return result(objects.getAll()) as Promise<T[]>;
  return result(objects.index('conversation').getAll(conversation)) as Promise<T[]>;
}

async function get<T>(store: Store, id: string): Promise<T | undefined> {
  const db = await tables();
  if (db instanceof MemoryTables) return db.get(store, id) as T | undefined;
  return result(db.transaction(store).objectStore(store).get(id)) as Promise<T | undefined>;
}

/** All writes or none. */
export async function write(writes: Write[]): Promise<void> {
  const db = await tables();
  if (writes.length === 0) return;
  if (db instanceof MemoryTables) return db.write(writes);
  const transaction = db.transaction([...new Set(writes.map(({ store }) => store))], 'readwrite');
  const done = new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
  for (const { store, put, remove } of writes) {
    if (put) transaction.objectStore(store).put(put);
    if (remove !== undefined) transaction.objectStore(store).delete(remove);
  }
  return done;
}

export const allConversations = () => all<Conversation>('conversations');
export const conversation = (id: string) => get<Conversation>('conversations', id);
export const allMessages = () => all<Message>('messages');
export const messagesOf = (conversationId: string) => all<Message>('messages', conversationId);
export const message = (id: string) => get<Message>('messages', id);
export const tokenRowsOf = (conversationId: string) => all<TokenRow>('tokens', conversationId);
export const tokensOf = async (id: string) => (await get<TokenRow>('tokens', id))?.tokens ?? [];

export function putTokens(message: Message, tokens: Token[]): Write {
  return { store: 'tokens', put: { id: message.id, conversation: message.conversation, tokens } };
}

/** Calls f with each message until it returns false, without holding all of them in memory. */
export async function eachMessage(f: (message: Message) => boolean): Promise<void> {
  const db = await tables();
  if (db instanceof MemoryTables) {
    (db.all('messages') as unknown as Message[]).every(f);
    return;
  }
  const request = db.transaction('messages').objectStore('messages').openCursor();
  return new Promise((resolve, reject) => {
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const cursor = request.result;
      if (cursor && f(cursor.value as Message)) cursor.continue();
      else resolve();
    };
  });
}
