// Tests of the page around the talking: conversations, settings, token view, models, keyboard, offline.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ask, browserTest, ended, lastAnswer, rows, send, textOf, until } from './browser.mjs';

const titles = (page) => page.locator('.conversation .title > span').allInnerTexts();

async function openMenu(page, title) {
  await page.click(`button[aria-label="Actions for ${title}"]`);
}

browserTest('conversations are listed, opened, renamed, deleted and brought back', async (page) => {
  await ask(page, 'Apples');
  await page.keyboard.press('Alt+n');
  await page.waitForSelector('.welcome');
  await ask(page, 'Pears');
  assert.deepEqual(await titles(page), ['Pears', 'Apples']);
  await page.click('.conversation .title:has-text("Apples")');
  await page.waitForFunction(() => document.querySelector('h1').innerText === 'Apples');
  await openMenu(page, 'Apples');
  await page.click('.conversation-menu button:has-text("Rename")');
  await page.fill('.renamer input', 'Green apples');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('h1').innerText === 'Green apples');
  await openMenu(page, 'Pears');
  await page.click('.conversation-menu button:has-text("Delete")');
  await until(async () => (await titles(page)).length === 1);
  assert.equal((await rows(page, 'messages')).length, 2);
  await page.click('.toast button:has-text("Undo")');
  await until(async () => (await titles(page)).length === 2);
  assert.equal((await rows(page, 'messages')).length, 4);
});

browserTest('a search finds titles and texts, without regard to accents', async (page) => {
  await ask(page, 'Crème brûlée');
  await page.keyboard.press('Alt+n');
  await page.waitForSelector('.welcome');
  await ask(page, 'Bread');
  await page.keyboard.press('Alt+k');
  await page.waitForFunction(() => document.activeElement.id === 'search');
  await page.keyboard.type('brulee');
  await until(async () => (await titles(page)).join() === 'Crème brûlée');
  await page.fill('#search', 'said: bread');
  await page.waitForSelector('.conversation small:has-text("You said: Bread")');
  await until(async () => (await titles(page)).join() === 'Bread');
  await page.fill('#search', 'nothing like it');
  await page.waitForSelector('text=Nothing was found.');
});

browserTest('an export can be imported, as a copy with its branches', async (page) => {
  await ask(page, 'Apples');
  await lastAnswer(page).locator('[data-action=regenerate]').click();
  await page.waitForSelector('.branch-count');
  await ended(page);
  const download = page.waitForEvent('download');
  await page.click('button:has-text("Export all")');
  const file = await (await download).path();
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).conversations[0].messages.length, 3);
  await page.setInputFiles('.sidebar input[type=file]', {
    name: 'x.json',
    mimeType: 'application/json',
    buffer: readFileSync(file),
  });
  await until(async () => (await titles(page)).length === 2);
  assert.equal((await rows(page, 'messages')).length, 6);
  await page.setInputFiles('.sidebar input[type=file]', {
    name: 'bad.json',
    mimeType: 'application/json',
    buffer: Buffer.from('{"format":"x"}'),
  });
  await page.waitForSelector('.toast:has-text("bad.json was not imported. format: want")');
});

browserTest('a conversation is exported as Markdown', async (page) => {
  await ask(page, 'Apples');
  await openMenu(page, 'Apples');
  const download = page.waitForEvent('download');
  await page.click('.conversation-menu button:has-text("Export as Markdown")');
  const saved = await download;
  assert.equal(saved.suggestedFilename(), 'Apples.md');
  assert.match(
    readFileSync(await saved.path(), 'utf8'),
    /^# Apples\n\n## You\n\nApples\n\n## Assistant\n\nYou said: Apples\./,
  );
});

browserTest('sampling fields show the defaults of the server, and only changes are sent', async (page, server) => {
  await page.keyboard.press('Alt+s');
  await page.waitForSelector('#field-temperature');
  assert.equal(await page.getAttribute('#field-temperature', 'placeholder'), '0.8');
  await page.fill('#field-temperature', '1000');
  await page.waitForSelector('#field-temperature-help.problem');
  await page.fill('#field-temperature', '0.3');
  await page.click('summary:has-text("Other")');
  assert.equal(await page.getAttribute('#field-new_sampler_strength', 'placeholder'), '0.25');
  await page.fill('#system', 'Answer in rhymes.');
  await page.selectOption('#effort', 'none');
  await page.fill('#box-extra', '{"stop": ["END"]}');
  await ask(page, 'Hello');
  const [body] = server.requests;
  assert.deepEqual(
    [body.temperature, body.reasoning_effort, body.stop, 'top_k' in body],
    [0.3, 'none', ['END'], false],
  );
  assert.deepEqual(body.messages[0], { role: 'system', content: 'Answer in rhymes.' });
  await page.fill('#field-temperature', '');
  await ask(page, 'Hello');
  assert.equal('temperature' in server.requests[1], false);
});

browserTest('settings belong to a conversation, and can be those of new ones', async (page, server) => {
  await page.keyboard.press('Alt+s');
  await page.fill('#system', 'Be brief.');
  await page.click('button:has-text("Use for new conversations")');
  await page.reload();
  await ask(page, 'Hello');
  assert.equal(server.requests[0].messages[0].content, 'Be brief.');
  await page.keyboard.press('Alt+s');
  await page.click('button:has-text("Reset")');
  await ask(page, 'Hello');
  assert.equal(server.requests[1].messages[0].role, 'user');
});

browserTest(
  'a setting that was changed just before a message is part of its request, and stays',
  async (page, server) => {
    await ask(page, 'Hello');
    await page.keyboard.press('Alt+s');
    await page.waitForSelector('#system');
    await page.evaluate(() => {
      const type = (selector, text) => {
        const element = document.querySelector(selector);
        element.value = text;
        element.dispatchEvent(new Event('input', { bubbles: true }));
      };
      type('#system', 'Be brief.');
      type('#field-temperature', '0.3');
      type('#composer-text', 'Again');
      document.querySelector('.composer').requestSubmit();
    });
    await until(() => server.requests.length === 2);
    assert.equal(server.requests[1].messages[0].content, 'Be brief.');
    assert.equal(server.requests[1].temperature, 0.3);
    await ended(page);
    const [{ parameters }] = await rows(page, 'conversations');
    assert.equal(parameters.system, 'Be brief.');
  },
);

browserTest('a schema with a mistake is not sent; a right one is', async (page, server) => {
  await page.keyboard.press('Alt+s');
  await page.fill('#box-schema', '{\n  "type": "objekt"\n}');
  await page.waitForSelector('#box-schema-help.problem:has-text("At /type: want one of")');
  await send(page, 'Who?');
  await page.waitForSelector('.toast:has-text("Not sent: the JSON schema")');
  assert.equal(server.requests.length, 0);
  assert.equal(await page.inputValue('#composer-text'), 'Who?', 'the text is kept');
  await page.fill('#box-schema', '{"type": "object", "properties": {"name": {"type": "string"}}}');
  await page.waitForSelector('text=No mistakes found.');
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('.message.assistant .markdown');
  await ended(page);
  assert.equal(server.requests[0].response_format.json_schema.schema.properties.name.type, 'string');
});

browserTest('the token view shows alternatives, and continues from one', async (page, server) => {
  await page.keyboard.press('Alt+s');
  await page.check('#wants-tokens');
  await page.keyboard.press('Alt+s');
  await ask(page, 'Hello');
  assert.equal(server.requests[0].top_logprobs > 0, true);
  await lastAnswer(page).locator('[data-action=tokens]').click();
  await page.waitForSelector('.tokens .token');
  const tokens = await page.locator('.tokens .token').allTextContents();
  assert.equal(tokens.join(''), 'You said: Hello. This is a short answer. It has three sentences.');
  assert.ok(
    (await page.locator('.tokens .token.p0').count()) > 0 &&
      (await page.locator('.tokens .token.p5, .tokens .token.p4').count()) > 0,
  );

  await page.locator('.tokens .token').first().focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), tokens[2]);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.alternatives');
  assert.match(await textOf(page.locator('.alternatives p')), /Token 3 of/);
  await page.click('.alternatives button:has-text("perhaps")');
  await page.waitForFunction(() => document.querySelector('.message.assistant .branch-count')?.innerText === '2/2');
  await ended(page);
  const expected = `${tokens.slice(0, 2).join('')} perhaps`;
  assert.equal(server.requests[1].messages.at(-1).content, expected);
  assert.equal(server.requests[1].continue_final_message, true);
  assert.equal(await textOf(lastAnswer(page).locator('.markdown')), `${expected} And so it goes on to the end.`);
  await lastAnswer(page).locator('[data-action=tokens]').click();
  await page.waitForSelector('.tokens .token');
  assert.equal(
    (await page.locator('.tokens .token').allTextContents()).join(''),
    `${expected} And so it goes on to the end.`,
  );
});

browserTest('the token view of an answer without probabilities says how to get them', async (page) => {
  await ask(page, 'Hello');
  await lastAnswer(page).locator('[data-action=tokens]').click();
  await page.waitForSelector('text=This answer has no probabilities.');
});

browserTest('a list of the keys opens by ?, and gives the focus back', async (page) => {
  await page.focus('.thread');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog:has-text("Keyboard")');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement.className), 'thread');
  await page.keyboard.press('i');
  await page.waitForFunction(() => document.activeElement.id === 'composer-text');
  await page.keyboard.type('?n/');
  assert.equal(await page.inputValue('#composer-text'), '?n/', 'letters are letters in a text box');
});

browserTest('messages are reached and used by keys alone', async (page) => {
  await ask(page, 'One');
  await page.focus('.thread');
  await page.keyboard.press('k');
  assert.match(await page.evaluate(() => document.activeElement.className), /assistant/);
  await page.keyboard.press('r');
  await page.waitForSelector('.branch-count');
  await ended(page);
  await page.focus('.thread');
  await page.keyboard.press('[');
  await page.waitForFunction(() => document.querySelector('.branch-count')?.innerText === '1/2');
  await page.waitForFunction(() => document.activeElement.closest('.message') !== null); // the focus stays in it
  await page.focus('#composer-text');
  await page.keyboard.press('ArrowUp');
  await page.waitForSelector('.editor textarea');
  assert.ok(await page.evaluate(() => document.activeElement.matches('.editor textarea')));
  await page.keyboard.press('Escape');
  await page.waitForSelector('.editor', { state: 'detached' });
  await page.waitForFunction(() => document.activeElement.matches('.message.user'));
});

browserTest('everything of the page is in the order of Tab', async (page) => {
  await ask(page, 'One');
  const seen = new Set();
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press('Tab');
    seen.add(
      await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText),
    );
  }
  for (const name of [
    'Skip to the message box',
    'Search conversations',
    'Settings',
    'Keyboard help',
    'Copy',
    'New answer',
    'Delete',
    'Message',
    'Messages',
  ]) {
    assert.ok(seen.has(name), `${name}: not in ${[...seen].join(', ')}`);
  }
});

browserTest('screen readers hear whole sentences', async (page) => {
  await page.evaluate(() => {
    window.heard = [];
    new MutationObserver(() => window.heard.push(document.querySelector('#announcer').innerText)).observe(
      document.querySelector('#announcer'),
      { childList: true, characterData: true, subtree: true },
    );
  });
  await ask(page, 'something long');
  await page.waitForFunction(() => window.heard.join(' ').includes('The answer is complete.'));
  const heard = await page.evaluate(() => window.heard);
  assert.ok(heard.join(' ').includes('The lighthouse keeper wrote one line a day.'));
  for (const text of heard.filter((one) => one)) assert.match(text, /([.!?]|Part \d+)$/, text);
});

browserTest('an answer in progress keeps what the user types and where they read', async (page, server) => {
  await ask(page, 'something long');
  server.options.holdAfter = 700;
  await send(page, 'something long again');
  await until(() => server.waiting.length === 1);
  await page.hover('.thread');
  await page.mouse.wheel(0, -1e6);
  await page.waitForSelector('.to-end');
  await page.focus('#composer-text');
  await page.keyboard.type('my next');
  server.release();
  await ended(page);
  assert.equal(await page.evaluate(() => document.querySelector('.thread').scrollTop), 0);
  assert.equal(await page.inputValue('#composer-text'), 'my next');
  await page.click('.to-end');
  await page.waitForSelector('.to-end', { state: 'detached' });
});

browserTest('the view follows an answer to its end, whatever its height', async (page) => {
  const fromEnd = () =>
    page.evaluate(() => {
      const { scrollHeight, scrollTop, clientHeight } = document.querySelector('.thread');
      return scrollHeight - scrollTop - clientHeight;
    });
  await ask(page, 'something long');
  await until(async () => (await fromEnd()) < 2, 'the end in view');
  await page.hover('.thread');
  await page.mouse.wheel(0, -1e6);
  await page.waitForSelector('.to-end');
  await ask(page, 'Write code');
  await page.waitForSelector('.code .hljs-keyword');
  await until(async () => (await fromEnd()) < 2, 'the end in view again');
  await ask(page, 'hostile');
  await until(async () => (await fromEnd()) < 2, 'the end in view once more');
  assert.equal(await page.locator('.to-end').count(), 0);
});

browserTest('text files become part of a message', async (page) => {
  const file = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await page.setInputFiles('.composer input[type=file]', [file('a.txt', 'one ``` two'), file('b.bin', 'a\0b')]);
  await page.waitForFunction(() => document.querySelector('#composer-text').value.includes('one'));
  assert.equal(await page.inputValue('#composer-text'), 'a.txt\n````\none ``` two\n````\n');
  await page.waitForSelector('.toast:has-text("b.bin is not a text file.")');
});

browserTest('code is coloured and copied', async (page, server, context) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await ask(page, 'Write code');
  await page.waitForSelector('.code .hljs-keyword');
  await page.locator('.copy-code').first().click();
  await page.waitForSelector('.copy-code:has-text("Copied")');
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(copied.startsWith('import hashlib\nfrom collections'), copied);
  assert.equal(await page.locator('.markdown li .code').count(), 1, 'code in a list');
});

browserTest(
  'without a server everything can still be read',
  async (page, server, context) => {
    await ask(page, 'Write code');
    await page.evaluate(() => navigator.serviceWorker.ready);
    await page.waitForFunction(async () =>
      (
        await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).length))
      ).some((n) => n >= 6),
    );
    server.options.down = true;
    await page.reload();
    await page.waitForSelector('.message .markdown');
    await page.waitForSelector('.code .hljs-keyword');
    await page.waitForSelector('.banner:has-text("cannot be reached")');
    const other = await context.newPage();
    await other.goto(page.url());
    await other.waitForSelector('.message .markdown');
    await other.close();
    await send(page, 'Hello');
    await page.waitForSelector('.message .problem:has-text("cannot be reached")');
    server.options.down = false;
    await page.waitForSelector('.banner', { state: 'detached' });
    await lastAnswer(page).locator('[data-action=regenerate]').click();
    await page.waitForFunction(() => document.querySelectorAll('.message.assistant .markdown').length === 2);
  },
  { expectsErrors: true },
);

browserTest(
  'a newer page on the server is offered',
  async (page) => {
    await page.route('**/_app/version.json', (route) => route.fulfill({ json: { version: 'another' } }));
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await page.waitForSelector('.toast:has-text("newer page")');
  },
  { serviceWorkers: 'block' },
);

browserTest(
  'colours follow the system or the choice',
  async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await ground();
    assert.notEqual(dark, light);
    await page.click('button[aria-label="Colours of the system"]');
    await until(async () => (await ground()) === light);
    await page.click('button[aria-label="Light colours"]');
    await until(async () => (await ground()) === dark);
    await page.reload();
    assert.equal(await ground(), dark);
  },
  { colorScheme: 'light' },
);

browserTest('formulas are drawn, and money stays money', async (page) => {
  await ask(page, 'Some math');
  await page.waitForSelector('.markdown math mfrac');
  const markdown = lastAnswer(page).locator('.markdown');
  assert.equal(await markdown.locator('math').count(), 4);
  assert.equal(await markdown.locator('.formula-block math').count(), 2);
  const text = await textOf(markdown);
  assert.ok(text.includes('It costs $5 to $7, not more.'), text);
  assert.ok(text.includes('\\unknown{x}'), 'what is no formula stays as it is');
});
