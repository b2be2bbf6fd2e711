// Loads TypeScript modules of the page in Node, for tests of what needs no browser.
import { createServer } from 'vite';
import { after } from 'node:test';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const vite = await createServer({
  root,
  configFile: false,
  logLevel: 'error',
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  appType: 'custom',
  optimizeDeps: { noDiscovery: true },
});
after(() => vite.close());

export const load = (name) => vite.ssrLoadModule(`/src/${name}`);
