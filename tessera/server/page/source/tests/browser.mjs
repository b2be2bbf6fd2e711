// Chromium for the tests of the page: a mock server and a fresh profile for each test. A test fails too when the page
// logs an error, breaks its Content-Security-Policy, or asks another host for anything.
import { chromium } from 'playwright-core';
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { MockServer } from './mock_server.mjs';

const kWaitMs = Number(process.env.PAGE_TEST_WAIT_MS ?? 60_000); // generous: the machine may be busy with other things

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  // Test machines run as root in containers. The name is for plain http from another machine.
  args: ['--no-sandbox', '--host-resolver-rules=MAP tessera.test 127.0.0.1'],
});
after(() => browser.close());

/** f(page, server, context); further pages of the context are watched too. */
export function browserTest(
  name,
  f,
  {
    viewport = { width: 1280, height: 860 },
    host = '127.0.0.1',
    server: serverOptions = {},
    expectsErrors = false,
    ...options
  } = {},
) {
  test(name, async () => {
    const server = new MockServer(serverOptions);
    const origin = `http://${host}:${await server.listen()}`;
    const context = await browser.newContext({ viewport, acceptDownloads: true, reducedMotion: 'reduce', ...options });
    context.setDefaultTimeout(kWaitMs);
    const problems = [];
    context.on('page', (page) => {
      page.on('pageerror', (error) => problems.push(`error: ${error.stack}`));
      page.on('console', (line) => {
        const isPolicy = /Content Security Policy/i.test(line.text());
        if (isPolicy || (line.type() === 'error' && !expectsErrors)) problems.push(`console: ${line.text()}`);
      });
      page.on('request', (request) => {
        if (!request.url().startsWith(origin) && !/^(blob|data):/.test(request.url()))
          problems.push(`request: ${request.url()}`);
      });
    });
    try {
      const page = await context.newPage();
      await page.goto(origin);
      await page.waitForSelector('#composer-text');
      await f(page, server, context);
      assert.deepEqual(problems, []);
    } finally {
      await context.close();
      await server.close();
    }
  });
}

export async function send(page, text) {
  await page.fill('#composer-text', text);
  await page.press('#composer-text', 'Enter');
}

/** Sends a message and waits for the whole answer. */
export async function ask(page, text) {
  const n = await page.locator('.message.assistant').count();
  await send(page, text);
  await page.waitForFunction((count) => document.querySelectorAll('.message.assistant').length > count, n);
  await ended(page);
}

/** Waits until no answer arrives any more. */
export const ended = (page) =>
  page.waitForFunction(() => document.querySelector('.message') && !document.querySelector('.message.live'));

export const lastAnswer = (page) => page.locator('.message.assistant').last();

export async function textOf(locator) {
  return (await locator.innerText()).trim();
}

/** Polls until f returns a truthy value. */
export async function until(f, what = 'a condition') {
  const end = Date.now() + kWaitMs;
  for (;;) {
    const value = await f();
    if (value) return value;
    assert.ok(Date.now() < end, `waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/** Waits until the database of the page holds a message for which f is true; f is evaluated here. */
export async function stored(page, f) {
  return until(async () => (await rows(page, 'messages')).find(f), 'a stored message');
}

export function rows(page, store) {
  return page.evaluate(
    (name) =>
      new Promise((resolve, reject) => {
        const open = indexedDB.open('tessera');
        open.onerror = () => reject(open.error);
        open.onsuccess = () => {
          const all = open.result.transaction(name).objectStore(name).getAll();
          all.onsuccess = () => {
            open.result.close();
            resolve(all.result);
          };
        };
      }),
    store,
  );
}
