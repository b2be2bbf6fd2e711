// Builds the page and compares the result with the committed one, byte by byte. Needs `npm ci` before it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = join(dirname(fileURLToPath(import.meta.url)), '..');
const committed = join(source, '..', 'built');
const fresh = mkdtempSync(join(tmpdir(), 'tessera-page-'));

function names(folder) {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  return entries.map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name))).sort();
}

function run(command, ...args) {
  const result = spawnSync(command, args, { cwd: source, stdio: 'inherit' });
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')}: status ${result.status}`);
}

function differences() {
  const all = new Set([...names(committed), ...names(fresh)]);
  return [...all].filter((name) => {
    try {
      return !readFileSync(join(committed, name)).equals(readFileSync(join(fresh, name)));
    } catch {
      return true; // only on one side
    }
  });
}

try {
  run('npx', 'tsc', '--noEmit');
  run('npx', 'vite', 'build', '--logLevel', 'warn');
  run('node', 'scripts/pack.mjs', fresh);
  const different = differences();
  for (const name of different) console.error(`built/${name}: differs from a fresh build`);
  if (different.length > 0) process.exitCode = 1;
  else console.log('built/ is what the sources give');
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
