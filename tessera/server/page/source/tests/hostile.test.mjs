// Tests with answers that attack the page: code in Markdown shows as text, and sizes hurt nobody.
import assert from 'node:assert/strict';
import { ask, browserTest, ended, lastAnswer, send, textOf, until } from './browser.mjs';

browserTest('code in an answer shows as text', async (page) => {
  await ask(page, 'hostile');
  await page.waitForSelector('.markdown math');
  const markdown = lastAnswer(page).locator('.markdown');
  const text = await textOf(markdown);
  for (const shown of [
    '<script>window.hacked = 1</script>',
    '<img src=x onerror="window.hacked = 1">',
    '[a link](javascript:window.hacked=1)',
    '<style>body { display: none }</style>',
    '<a href="javascript:window.hacked=1" onclick="window.hacked=1">click</a>',
    '<iframe srcdoc=',
    '<svg onload=',
    '<b onmouseover="window.hacked=1">',
    '<div style="position:fixed;inset:0">covering</div>',
    '![y](javascript:window.hacked=1)',
  ]) {
    assert.ok(text.includes(shown), `${shown}\n--- not in ---\n${text}`);
  }
  const found = await markdown.evaluate((root) => ({
    tags: [...new Set([...root.querySelectorAll('*')].map((element) => element.localName))],
    handlers: [...root.querySelectorAll('*')]
      .flatMap((element) => [...element.attributes])
      .filter(({ name }) => /^on|^style$|^srcdoc$|^id$/.test(name))
      .map(({ name }) => name),
    links: [...root.querySelectorAll('[href], [src]')].map(
      (element) => element.getAttribute('href') ?? element.getAttribute('src'),
    ),
  }));
  for (const tag of ['script', 'img', 'style', 'iframe', 'svg', 'form']) {
    assert.ok(!found.tags.includes(tag), tag);
  }
  assert.deepEqual(found.handlers, []);
  assert.deepEqual(found.links, ['https://tracker.example/pixel.png']);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await markdown.locator('b').innerText(), 'harmless bold');
});

browserTest('code in a question, a title and a search shows as text', async (page) => {
  const text = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
  await ask(page, text);
  assert.equal(await textOf(page.locator('.bubble')), text);
  assert.ok((await textOf(page.locator('.conversation .title'))).startsWith('<img src=x'));
  await page.fill('#search', 'onerror');
  await page.waitForSelector('.conversation small');
  assert.equal(await page.evaluate(() => window.hacked), undefined);
});

browserTest('a line of a megabyte is shown, and the page stays usable', async (page, server) => {
  server.options.holdAfter = 200;
  await send(page, 'megaline');
  await page.waitForSelector('.message.live .markdown');
  await page.fill('#composer-text', 'still here');
  await until(() => server.waiting.length === 1);
  server.release();
  await ended(page);
  assert.equal(
    await lastAnswer(page)
      .locator('.markdown')
      .evaluate((root) => root.textContent.length),
    1 << 20,
  );
  assert.equal(await page.inputValue('#composer-text'), 'still here');
  await page.reload();
  await page.waitForFunction(() => document.querySelector('.markdown')?.textContent.length === 1 << 20);
});

browserTest('lists ten thousand levels deep are shown as text', async (page) => {
  await ask(page, 'deep');
  const text = await lastAnswer(page)
    .locator('.markdown')
    .evaluate((root) => root.textContent);
  for (const part of ['- level 9999', 'deep list', 'deep quote', '*'.repeat(100)]) assert.ok(text.includes(part), part);
  const depth = await lastAnswer(page)
    .locator('.markdown')
    .evaluate((root) => {
      let most = 0;
      for (const element of root.querySelectorAll('*')) {
        let n = 0;
        for (let up = element; up !== root; up = up.parentElement) ++n;
        most = Math.max(most, n);
      }
      return most;
    });
  assert.ok(depth < 120, String(depth));
  await ask(page, 'Hello');
});
