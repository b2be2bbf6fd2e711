// Requests to the server that the page came from: addresses relative to the page, the API key, errors with the server's
// own words. The key is in sessionStorage: it ends with the tab and is in no file.

const kKey = 'tessera-api-key';

export class ServerError extends Error {
  constructor(
    readonly status: number, // 0: no answer at all
    message: string,
    readonly type = '',
    readonly retryAfterSeconds = 0,
  ) {
    super(message);
  }
}

let askForKey: (isWrong: boolean) => Promise<string | null> = async () => null;
let asking: Promise<string | null> | undefined;

/** Sets the function that asks the user for a key; null: they decline. */
export function onKeyWanted(ask: typeof askForKey): void {
  askForKey = ask;
}

export function apiKey(): string {
  try {
    return sessionStorage.getItem(kKey) ?? '';
  } catch {
    return '';
  }
}

export function setApiKey(key: string): void {
  try {
    if (key) sessionStorage.setItem(kKey, key);
    else sessionStorage.removeItem(kKey);
  } catch {
    // Without storage the key is asked for again.
  }
}

export function address(path: string): string {
  return new URL(path, document.baseURI).href;
}

function send(path: string, options: RequestInit): Promise<Response> {
  const headers = new Headers(options.headers);
  const key = apiKey();
  if (key) headers.set('Authorization', `Bearer ${key}`);
  return fetch(address(path), { ...options, headers, cache: 'no-store' });
}

export async function errorOf(response: Response): Promise<ServerError> {
  const retryAfter = Number(response.headers.get('Retry-After')) || 0;
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text) as { error?: { message?: string; type?: string } };
    if (error?.message) return new ServerError(response.status, error.message, error.type ?? '', retryAfter);
  } catch {
    // Not JSON: a proxy in between may have answered.
  }
  return new ServerError(response.status, `The server answered with status ${response.status}`, '', retryAfter);
}

/**
 * Returns a successful answer, or throws a ServerError; an abort throws as fetch does. On 401 it asks for a key, once
 * for all requests that wait, and sends again.
 */
export async function request(path: string, options: RequestInit & { quiet?: boolean } = {}): Promise<Response> {
  for (;;) {
    const usedKey = apiKey();
    let response: Response;
    try {
      response = await send(path, options);
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new ServerError(0, 'The server cannot be reached');
    }
    if (response.ok) return response;
    if (response.status !== 401 || options.quiet) throw await errorOf(response);
    if (apiKey() !== usedKey) continue; // another request has asked meanwhile
    asking ??= askForKey(usedKey !== '').finally(() => (asking = undefined));
    const key = await asking;
    if (key === null) throw await errorOf(response);
    setApiKey(key);
  }
}

export async function getJson<T>(path: string, options: RequestInit & { quiet?: boolean } = {}): Promise<T> {
  return (await (await request(path, options)).json()) as T;
}

export async function postJson<T>(path: string, body: unknown, options: RequestInit = {}): Promise<T> {
  return getJson<T>(path, {
    ...options,
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}
