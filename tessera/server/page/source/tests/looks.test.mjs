// axe-core on every view, in light and dark, at 320 and 1280 pixels; screenshots of them in tests/shots/ to look at.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, browserTest, ended, lastAnswer, send, textOf, until } from './browser.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = join(dirname(fileURLToPath(import.meta.url)), 'shots');
mkdirSync(shots, { recursive: true });

async function check(page, name) {
  await page.evaluate(axe); // by the debugger, which the policy of the page does not bind
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const told = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} at ${target}: ${failureSummary}`),
  );
  assert.deepEqual(told, [], name);
  const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide[0] <= wide[1], `${name}: ${wide[0]} pixels wide in ${wide[1]}`);
  await page.screenshot({ path: join(shots, `${name}.png`) });
}

async function scrollTo(page, selector) {
  await page
    .locator(selector)
    .first()
    .evaluate((element) => element.scrollIntoView({ block: 'start' }));
}

/** All views of one width and colour. */
async function views(page, server, prefix) {
  const isNarrow = page.viewportSize().width < 800;
  const shot = (name) => check(page, `${prefix}-${name}`);
  await page.waitForFunction(() => document.querySelector('.model-label').innerText !== 'No model');
  await shot('welcome');

  await page.keyboard.press('Alt+s');
  await page.waitForSelector('#field-temperature');
  await page.fill('#system', 'You are a patient teacher.');
  await page.fill('#field-temperature', '0.6');
  await page.check('#wants-tokens');
  await page.fill('#box-tools', '[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]');
  await page.fill('#box-schema', '{"type": 1}');
  await shot('settings');
  await page.fill('#box-schema', '');
  await scrollTo(page, '#box-schema');
  await shot('settings-end');
  await page.keyboard.press('Alt+s');

  await ask(page, 'Write code that finds duplicate files, please, and explain in a few words how it works');
  await page.waitForSelector('.code .hljs-keyword');
  await scrollTo(page, '.message');
  await shot('code');
  await ask(page, 'Now a table');
  await scrollTo(page, '.table-frame');
  await shot('table');
  await ask(page, 'Some math');
  await page.waitForSelector('.markdown math');
  await shot('math');
  await ask(page, 'think');
  await page.click('.reasoning summary');
  await shot('reasoning');
  await lastAnswer(page).locator('[data-action=tokens]').click();
  await page.locator('.tokens .token').nth(7).click();
  await page.locator('.alternatives').scrollIntoViewIfNeeded();
  await shot('tokens');
  await ask(page, 'use the tool');
  await shot('tool');
  await ask(page, 'مرحبا، كيف حالك؟');
  await shot('right-to-left');

  server.options.failWith = {
    status: 400,
    type: 'invalid_request_error',
    message: "Field 'temperature': value 200, want at most 100",
  };
  await ask(page, 'fail');
  await lastAnswer(page).locator('[data-action=regenerate]').click();
  await page.waitForSelector('.message.assistant .branch-count');
  await ended(page);
  await page.locator('.message.user').last().locator('[data-action=edit]').click();
  await shot('edit');
  await page.keyboard.press('Escape');

  server.options.holdAfter = 30;
  await send(page, 'something long');
  await until(() => server.waiting.length === 1);
  await page.waitForSelector('.message.live .markdown');
  await shot('live');
  await page.click('button[aria-label="Stop the answer"]');
  await ended(page);
  server.options.nQueued = 3;
  await send(page, 'wait');
  await page.waitForSelector('.phase:has-text("before yours")');
  await shot('queue');
  await page.click('button[aria-label="Stop the answer"]');
  await ended(page);

  await page.focus('.thread');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog');
  await shot('help');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
  server.models.isHeld = true;
  await page.click('.model-button');
  await page.locator('.model:has-text("coder-7b") button').click();
  await page.waitForSelector('.status.loading');
  server.models.step();
  await page.waitForSelector('.status:has-text("40 %")');
  await shot('models');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
  if (isNarrow) await page.click('#menu');
  await page.locator('.conversation-row .icon-button').first().click();
  await page.waitForSelector('.conversation-menu');
  await shot('conversations');
}

for (const width of [1280, 320]) {
  for (const colorScheme of ['light', 'dark']) {
    browserTest(
      `every view is accessible and fits: ${width} pixels, ${colorScheme}`,
      (page, server) => views(page, server, `${width}-${colorScheme}`),
      {
        viewport: { width, height: width === 320 ? 640 : 860 },
        colorScheme,
        server: { router: true },
        expectsErrors: true,
      },
    );
  }
}

browserTest(
  'the page of a server with a key, at 320 pixels',
  async (page) => {
    await page.waitForSelector('dialog');
    await check(page, '320-light-key');
    assert.match(await textOf(page.locator('dialog')), /asks for a key/);
  },
  { viewport: { width: 320, height: 640 }, server: { key: 'secret' }, expectsErrors: true },
);

browserTest('motion is reduced where that is asked for', async (page, server) => {
  server.options.nQueued = 1;
  await send(page, 'Hello');
  await page.waitForSelector('.pulse');
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('.pulse')).animationName), 'none');
});
