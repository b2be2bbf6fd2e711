// The service worker: keeps the page's files, so that conversations can be read while the server is away. Only the
// files of the page are cached, never an answer of the API. scripts/pack.mjs fills in the version and the list.
declare const self: ServiceWorkerGlobalScope;

const kVersion = '%PAGE_VERSION%';
const kFiles = '%PAGE_FILES%'.split(' ');
const kCache = `tessera-page-${kVersion}`;

const inScope = (name: string) => new URL(name, self.registration.scope).href;

self.addEventListener('install', (event) => {
  const names = ['./', ...kFiles].map(inScope);
  // Past the HTTP cache, or an old index could be kept with new files.
  event.waitUntil(
    caches.open(kCache).then((cache) => cache.addAll(names.map((name) => new Request(name, { cache: 'reload' })))),
  );
});

self.addEventListener('activate', (event) => {
  const isOld = (name: string) => name.startsWith('tessera-page-') && name !== kCache;
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter(isOld).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

/** The index comes from the server where it answers, so that a reload shows a new version. */
async function index(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    if (response.ok) return response;
  } catch {
    // The server is away.
  }
  return (await caches.match(inScope('./'))) ?? Response.error();
}

async function asset(request: Request): Promise<Response> {
  return (await caches.match(request)) ?? fetch(request);
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  if (request.method !== 'GET') return;
  const name = request.url.split(/[?#]/)[0]!;
  if (request.mode === 'navigate' && [inScope('./'), inScope('index.html')].includes(name))
    event.respondWith(index(request));
  else if (kFiles.map(inScope).includes(name)) event.respondWith(asset(request));
});

export {};
