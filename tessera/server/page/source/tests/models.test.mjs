// Tests of a server with several models: their states, loading, the choice of one for a conversation.
import assert from 'node:assert/strict';
import { ask, browserTest, ended, lastAnswer, rows, send, textOf, until } from './browser.mjs';

const kCoder = 'coder-7b-instruct-q5-k-m';

const row = (page, id) => page.locator('.model', { hasText: id });
const stateIn = (page, id, text) => row(page, id).locator(`.status:has-text("${text}")`).waitFor();

async function openModels(page) {
  await page.click('.model-button');
  await page.waitForSelector('.model');
}

async function done(page) {
  await page.click('dialog button:has-text("Done")');
  await page.waitForSelector('dialog', { state: 'detached' });
}

const routerTest = (name, f, more = {}) => browserTest(name, f, { server: { router: true }, ...more });

routerTest('models are listed with their states', async (page) => {
  await openModels(page);
  assert.deepEqual(
    (await page.locator('.model .status').allInnerTexts()).map((text) => text.trim()),
    ['Loaded', 'Not loaded', 'Could not be loaded', 'Asleep'],
  );
  assert.match(await textOf(row(page, 'broken-3b').locator('.problem')), /damaged, or truncated/);
  assert.match(await textOf(row(page, 'tales')), /1\.1B parameters · 610 MiB · Q4_0 · context of 8,192 tokens/);
  assert.deepEqual(await page.locator('.model button').allInnerTexts(), ['Unload', 'Load', 'Load', 'Load']);
  assert.ok(await row(page, 'tales').locator('input').isChecked(), 'a loaded model is chosen at first');
});

routerTest('loading shows its progress, and its end without a question', async (page, server) => {
  server.models.isHeld = true;
  await openModels(page);
  await until(() => server.models.readers.size === 1, 'a reader of the events');
  await row(page, kCoder).locator('button').click();
  await stateIn(page, kCoder, 'Loading, 0 %');
  server.models.step();
  await stateIn(page, kCoder, 'Loading, 40 %');
  assert.equal(await row(page, kCoder).locator('progress').getAttribute('value'), '0.4');
  await row(page, kCoder).locator('button').click({ force: true }); // does nothing
  server.models.step();
  await stateIn(page, kCoder, 'Loading, 80 %');
  server.models.step();
  await stateIn(page, kCoder, 'Loaded');
  await row(page, kCoder).locator('.muted:has-text("context of 4,096 tokens")').waitFor();
  assert.equal(await page.evaluate((id) => document.activeElement.ariaLabel === `Unload ${id}`, kCoder), true);
  await page.waitForFunction(
    (id) => document.querySelector('dialog [role=status]').innerText.includes(`${id}: loaded.`),
    kCoder,
  );
  await row(page, kCoder).locator('button').click();
  await stateIn(page, kCoder, 'Not loaded');
});

routerTest('what other clients do to the models is seen', async (page, server) => {
  await openModels(page);
  await until(() => server.models.readers.size === 1, 'a reader of the events');
  server.models.unload('tales-1b-q4');
  await stateIn(page, 'tales', 'Not loaded');
  server.models.load('broken-3b');
  await stateIn(page, 'broken-3b', 'Could not be loaded');
  server.models.load(kCoder);
  await stateIn(page, kCoder, 'Loaded');
});

routerTest('the list is right again after a connection that broke', async (page, server) => {
  await openModels(page);
  await until(() => server.models.readers.size === 1, 'a reader of the events');
  for (const reader of server.models.readers) reader.end();
  await until(() => server.models.readers.size === 0);
  server.models.unload('tales-1b-q4');
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await stateIn(page, 'tales', 'Not loaded');
  await until(() => server.models.readers.size === 1, 'a new reader');
});

routerTest('new files are found', async (page) => {
  await openModels(page);
  await page.click('button:has-text("Look for new files")');
  await stateIn(page, 'newcomer-2b', 'Not loaded');
});

routerTest('many models can be searched', async (page, server) => {
  for (let i = 0; i < 8; ++i) server.models.all.push({ id: `Extra-${i}`, status: 'unloaded', meta: {} });
  await page.reload();
  await openModels(page);
  await page.fill('dialog input[type=search]', 'extra-7');
  await page.waitForFunction(() => document.querySelectorAll('.model').length === 1);
  await page.fill('dialog input[type=search]', 'nothing');
  await page.waitForSelector('dialog :text("Nothing was found.")');
});

routerTest(
  'the words of a refusal stand at the model',
  async (page, server) => {
    await openModels(page);
    server.models.find(kCoder).status = 'loaded'; // which the page does not know yet
    await row(page, kCoder).locator('button').click();
    await row(page, kCoder).locator('.problem:has-text("is loaded already")').waitFor();
    await stateIn(page, kCoder, 'Loaded');
  },
  { expectsErrors: true },
);

routerTest('a conversation keeps its model; new ones have the one chosen last', async (page, server) => {
  await ask(page, 'Apples');
  await page.keyboard.press('Alt+n');
  await page.waitForSelector('.welcome');
  await openModels(page);
  await row(page, kCoder).locator('input').check();
  await done(page);
  await ask(page, 'Pears');
  assert.match(await textOf(lastAnswer(page).locator('.name')), /coder-7b/);
  await page.reload();
  await page.waitForFunction((id) => document.querySelector('.model-label').innerText === id, kCoder);
  await page.waitForSelector('.meters:has-text("of 4,096 tokens used")'); // the context of this model
  await page.click('.conversation .title:has-text("Apples")');
  await page.waitForFunction(() => document.querySelector('.model-label').innerText === 'tales-1b-q4');
  await page.waitForSelector('.meters:has-text("of 8,192 tokens used")');
  await ask(page, 'More');
  await page.keyboard.press('Alt+n');
  await page.waitForFunction((id) => document.querySelector('.model-label').innerText === id, kCoder);
  assert.deepEqual(
    server.requests.map(({ model }) => model),
    ['tales-1b-q4', kCoder, 'tales-1b-q4'],
  );
});

routerTest('the model of a conversation is changed at once', async (page) => {
  await ask(page, 'Apples');
  await openModels(page);
  await row(page, kCoder).locator('input').check();
  await done(page);
  await until(async () => (await rows(page, 'conversations'))[0].model === kCoder);
});

routerTest('an answer shows the loading of its model', async (page, server) => {
  server.models.isHeld = true;
  await until(() => server.models.readers.size === 1, 'a reader of the events');
  await openModels(page);
  await row(page, kCoder).locator('input').check();
  await done(page);
  await send(page, 'Hello');
  await page.waitForSelector(`.phase:has-text("Loading ${kCoder}, 0 %")`);
  server.models.step();
  await page.waitForSelector('.phase:has-text("40 %")');
  server.models.isHeld = false;
  server.models.step();
  await ended(page);
  await page.waitForSelector('.model-button .dot.loaded');
});

routerTest('nothing that only looks loads a model', async (page, server) => {
  await openModels(page);
  await row(page, kCoder).locator('input').check();
  await done(page);
  const paths = [];
  page.on('request', (request) => paths.push(new URL(request.url()).pathname));
  await page.fill('#composer-text', 'Hello');
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await until(() => paths.includes('/health'));
  await page.keyboard.press('Alt+s');
  await page.waitForSelector('#field-temperature');
  assert.equal(await page.getAttribute('#field-temperature', 'placeholder'), '0.8');
  assert.deepEqual(
    paths.filter((path) => path === '/tokenize'),
    [],
  );
  assert.equal(server.models.find(kCoder).status, 'unloaded');
});

routerTest('a model that the server no longer has is named, and another answers', async (page, server) => {
  await ask(page, 'Apples');
  server.models.all.shift();
  await page.reload();
  await page.waitForSelector('.composer-note:has-text("This server does not have tales-1b-q4.")');
});

routerTest('models are chosen by keys alone', async (page) => {
  await page.focus('.thread');
  await page.keyboard.press('m');
  await page.waitForSelector('.model');
  for (let i = 0; i < 9 && !(await page.evaluate(() => document.activeElement.type === 'radio')); ++i)
    await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction((id) => document.activeElement.value === id, kCoder);
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog', { state: 'detached' });
  await page.waitForFunction((id) => document.querySelector('.model-label').innerText === id, kCoder);
});

browserTest('the only model of a server is described', async (page) => {
  await page.click('.model-button');
  await page.waitForSelector('dialog:has-text("tales-1b-q4")');
  assert.equal(await page.locator('dialog input').count(), 0);
});
