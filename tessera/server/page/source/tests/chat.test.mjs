// Tests of talking: send, stream, stop, branches, reloads, tabs, errors.
import assert from 'node:assert/strict';
import { ask, browserTest, ended, lastAnswer, rows, send, stored, textOf, until } from './browser.mjs';

browserTest('a message is sent and its answer is shown with its figures', async (page, server) => {
  await ask(page, 'Hello there');
  const answer = lastAnswer(page);
  assert.match(await textOf(answer.locator('.markdown')), /^You said: Hello there\./);
  assert.match(
    await textOf(answer.locator('.figures')),
    /\d+ tokens.*49 tokens\/s.*first after .*0 cached, \d+ computed/s,
  );
  assert.deepEqual(server.requests[0].messages, [{ role: 'user', content: 'Hello there' }]);
  assert.equal(await page.inputValue('#composer-text'), '');
  assert.match(await textOf(page.locator('.meters')), /^\d+ of 8,192 tokens used/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'composer-text');
  assert.equal(await textOf(page.locator('h1')), 'Hello there');
});

browserTest('an answer is shown while it arrives', async (page, server) => {
  server.options.holdAfter = 4;
  await send(page, 'Hello');
  await page.waitForSelector('.message.live .markdown');
  await until(() => server.waiting.length === 1);
  const partial = await textOf(lastAnswer(page).locator('.markdown'));
  server.release();
  await ended(page);
  const whole = await textOf(lastAnswer(page).locator('.markdown'));
  assert.ok(whole.startsWith(partial) && whole.length > partial.length, `${partial} | ${whole}`);
});

browserTest('closed blocks keep their elements while the answer goes on', async (page, server) => {
  server.options.holdAfter = 140;
  await send(page, 'something long');
  await page.waitForFunction(() => document.querySelectorAll('.markdown > *').length >= 3);
  await page.evaluate(() => (document.querySelector('.markdown > *').mark = 1));
  await until(() => server.waiting.length === 1);
  server.release();
  await ended(page);
  assert.equal(await page.evaluate(() => document.querySelector('.markdown > *').mark), 1);
});

browserTest('stop keeps what has come, also on the server', async (page, server) => {
  server.options.holdAfter = 6;
  await send(page, 'Hello');
  await page.waitForSelector('.message.live .markdown');
  await until(() => server.waiting.length === 1);
  await page.keyboard.press('Escape');
  await page.waitForSelector('text=Stopped.');
  const [stream] = server.streams.values();
  await until(() => stream.isStopped);
  assert.equal((await stored(page, ({ state }) => state === 'stopped')).role, 'assistant');
});

browserTest('a stopped answer can be continued in place', async (page, server) => {
  server.options.holdAfter = 3;
  await send(page, 'Hello');
  await until(() => server.waiting.length === 1);
  await page.waitForSelector('.message.live .markdown');
  await page.click('button[aria-label="Stop the answer"]');
  await page.waitForSelector('text=Stopped.');
  server.options.holdAfter = -1;
  const before = await textOf(lastAnswer(page).locator('.markdown'));
  await lastAnswer(page).locator('[data-action=continue]').click();
  await page.waitForFunction(() => document.querySelector('.markdown')?.innerText.includes('to the end'));
  await ended(page);
  assert.equal(await textOf(lastAnswer(page).locator('.markdown')), `${before} And so it goes on to the end.`);
  assert.equal(server.requests[1].continue_final_message, true);
  assert.equal(await page.locator('.message').count(), 2);
});

browserTest('an answer that reached its limit says so', async (page) => {
  await ask(page, 'Have a short limit');
  assert.match(await textOf(lastAnswer(page).locator('.note')), /longest length/);
});

browserTest('an edit is a branch, and branches are walked', async (page, server) => {
  await ask(page, 'First question');
  await page.locator('.message.user [data-action=edit]').click();
  await page.fill('.editor textarea', 'Second question');
  await page.press('.editor textarea', 'Control+Enter');
  await page.waitForFunction(() =>
    document.querySelector('.message.assistant .markdown')?.innerText.includes('Second'),
  );
  await ended(page);
  const user = page.locator('.message.user');
  assert.equal(await textOf(user.locator('.branch-count')), '2/2');
  assert.equal(server.requests[1].messages.length, 1);
  await user.locator('[data-action=previous-branch]').click();
  await page.waitForFunction(() => document.querySelector('.bubble').innerText === 'First question');
  assert.match(await textOf(lastAnswer(page).locator('.markdown')), /First question/);
  await page.reload();
  await page.waitForSelector('.bubble');
  assert.equal(await textOf(page.locator('.bubble')), 'First question', 'the branch on show is kept');
});

browserTest('a new answer is a branch; an edited answer too', async (page) => {
  await ask(page, 'Hello');
  await lastAnswer(page).locator('[data-action=regenerate]').click();
  await page.waitForSelector('.branch-count');
  await ended(page);
  assert.equal(await textOf(lastAnswer(page).locator('.branch-count')), '2/2');
  await lastAnswer(page).locator('[data-action=edit]').click();
  await page.fill('.editor textarea', 'My own words');
  await page.click('.editor button[type=submit]');
  await page.waitForFunction(() => document.querySelector('.branch-count')?.innerText === '3/3');
  assert.equal(await textOf(lastAnswer(page).locator('.markdown')), 'My own words');
});

browserTest('a deleted message comes back by undo', async (page) => {
  await ask(page, 'One');
  await ask(page, 'Two');
  await page.locator('.message.user').last().locator('[data-action=delete]').click();
  await page.waitForFunction(() => document.querySelectorAll('.message').length === 2);
  assert.equal((await rows(page, 'messages')).length, 2);
  await page.click('.toast button:has-text("Undo")');
  await page.waitForFunction(() => document.querySelectorAll('.message').length === 4);
  await until(async () => (await rows(page, 'messages')).length === 4);
});

browserTest('a reload goes on with the answer', async (page, server) => {
  server.options.holdAfter = 8;
  await send(page, 'Hello again');
  await until(() => server.waiting.length === 1);
  await stored(page, ({ streamBytes }) => streamBytes > 0);
  await page.reload();
  await page.waitForSelector('.message.live .markdown');
  server.release();
  await ended(page);
  assert.match(
    await textOf(lastAnswer(page).locator('.markdown')),
    /^You said: Hello again\. This is a short answer\. It has three sentences\.$/,
  );
  assert.equal(server.requests.length, 1, 'nothing was computed twice');
});

browserTest(
  'a broken connection is followed again',
  async (page, server) => {
    server.options.holdAfter = 8;
    await send(page, 'Hello again');
    await until(() => server.waiting.length === 1);
    await page.waitForSelector('.message.live .markdown');
    for (const stream of server.streams.values()) for (const reader of stream.readers) reader.destroy();
    await until(() => [...server.streams.values()][0].readers.size === 1, 'a new reader');
    server.release();
    await ended(page);
    assert.match(await textOf(lastAnswer(page).locator('.markdown')), /^You said: Hello again\. .*three sentences\.$/);
    assert.equal(server.requests.length, 1);
  },
  { expectsErrors: true },
);

browserTest('an answer that the server has lost is kept as far as it came', async (page, server) => {
  server.options.holdAfter = 5;
  await send(page, 'Hello');
  await until(() => server.waiting.length === 1);
  await stored(page, ({ streamBytes }) => streamBytes > 0);
  server.streams.clear();
  await page.reload();
  await page.waitForSelector('.message .problem');
  assert.match(await textOf(lastAnswer(page)), /^Assistant.*You said.*no longer has the rest/s);
});

browserTest(
  'a server whose streams end with their connection is talked to as well',
  async (page, server) => {
    await ask(page, 'Hello');
    server.options.holdAfter = 5;
    await send(page, 'Hello again');
    await until(() => server.waiting.length === 1);
    await page.click('button[aria-label="Stop the answer"]');
    await page.waitForSelector('text=Stopped.');
    await until(() => [...server.streams.values()][1].isStopped);
    await send(page, 'Once more');
    await until(() => server.waiting.length === 2);
    await stored(page, ({ state, streamBytes }) => state === 'streaming' && streamBytes > 0);
    await page.reload();
    await page.waitForSelector('.message .problem');
    assert.match(await textOf(lastAnswer(page)), /You said.*no longer has the rest/s);
  },
  { server: { keepsStreams: false }, expectsErrors: true },
);

browserTest(
  'a reload waits for a stream whose model is being loaded, and gives up one whose next part is gone',
  async (page, server) => {
    server.options.holdAfter = 6;
    await send(page, 'Apples');
    await until(() => server.waiting.length === 1);
    await stored(page, ({ streamBytes }) => streamBytes > 0);
    const loading = { status: 503, type: 'unavailable_error', message: 'loading', fields: { 'Retry-After': '1' } };
    server.refusals = [loading, loading];
    await page.reload();
    await until(() => [...server.streams.values()][0].readers.size === 1, 'a new reader');
    server.refusals = [{ status: 400, type: 'invalid_request_error', message: 'kept from byte 4096' }];
    await page.reload();
    await page.waitForSelector('.message .problem:has-text("no longer has the rest")');
  },
  { expectsErrors: true },
);

browserTest('a reload goes on with answers of all conversations', async (page, server) => {
  server.options.holdAfter = 6;
  await send(page, 'Apples');
  await until(() => server.waiting.length === 1);
  await stored(page, ({ streamBytes }) => streamBytes > 0);
  await page.keyboard.press('Alt+n');
  await page.waitForSelector('.welcome');
  await page.reload();
  await page.waitForSelector('.conversation .pulse');
  await until(() => [...server.streams.values()][0].readers.size === 1, 'a new reader');
  server.release();
  await page.waitForSelector('.conversation .pulse', { state: 'detached' });
  await stored(page, ({ state, content }) => state === 'done' && content.endsWith('three sentences.'));
  assert.equal(server.requests.length, 1);
});

browserTest('two tabs show one answer, and either can stop it', async (page, server, context) => {
  server.options.holdAfter = 6;
  await send(page, 'Hello tabs');
  await until(() => server.waiting.length === 1);
  await stored(page, ({ streamBytes }) => streamBytes > 0);
  const other = await context.newPage();
  await other.goto(page.url());
  await other.waitForSelector('.message.live');
  server.options.holdAfter = -1;
  server.release();
  await ended(page);
  await ended(other);
  assert.equal(
    await textOf(lastAnswer(other).locator('.markdown')),
    await textOf(lastAnswer(page).locator('.markdown')),
  );
  await until(async () => (await rows(page, 'messages')).every(({ state }) => state === 'done'));

  server.options.holdAfter = 3;
  await send(other, 'Once more');
  await page.waitForSelector('.message.live');
  await until(() => server.waiting.length === 1);
  await page.keyboard.press('Escape');
  await other.waitForSelector('text=Stopped.');
  await page.waitForSelector('text=Stopped.');
  assert.equal(server.requests.length, 2);
});

browserTest('when the tab that receives an answer closes, the other goes on', async (page, server, context) => {
  server.options.holdAfter = 6;
  await send(page, 'Hello tabs');
  await until(() => server.waiting.length === 1);
  await stored(page, ({ streamBytes }) => streamBytes > 0);
  const other = await context.newPage();
  await other.goto(page.url());
  await other.waitForSelector('.message.live');
  await page.close();
  await until(() => [...server.streams.values()][0].readers.size === 1, 'the other tab to read');
  server.release();
  await ended(other);
  assert.match(await textOf(lastAnswer(other).locator('.markdown')), /three sentences\.$/);
  assert.equal(server.requests.length, 1);
});

browserTest('a message that is deleted while its answer arrives stays deleted', async (page, server) => {
  server.options.holdAfter = 4;
  await send(page, 'Hello');
  await page.waitForSelector('.message.live .markdown');
  await page.locator('.message.user [data-action=delete]').click();
  await page.waitForSelector('.welcome');
  await until(() => [...server.streams.values()][0].isStopped);
  assert.equal((await rows(page, 'messages')).length, 0);
});

browserTest('thinking is folded, and can be ended', async (page, server) => {
  server.options.holdAfter = 5;
  await send(page, 'think');
  await page.waitForSelector('.reasoning summary:has-text("Thinking")');
  assert.equal(await page.locator('.reasoning-text').isVisible(), false);
  await page.click('button:has-text("Answer now")');
  await until(() => server.nReasoningEnds === 1);
  server.options.holdAfter = -1;
  server.release();
  await ended(page);
  assert.match(await textOf(lastAnswer(page).locator('.markdown').last()), /^The answer is 42/);
  const { reasoning } = await stored(page, ({ state, role }) => state === 'done' && role === 'assistant');
  assert.ok(reasoning.length < 40, reasoning);
  await page.click('.reasoning summary');
  assert.match(await textOf(page.locator('.reasoning-text')), /^The user wants/);
});

browserTest('a tool call shows its arguments, and its result is sent', async (page, server) => {
  await page.keyboard.press('Alt+s');
  await page.fill('#box-tools', '[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]');
  await page.keyboard.press('Alt+s');
  await ask(page, 'Use the tool');
  assert.match(await textOf(page.locator('.tool-call pre')), /"city": "Freiburg"/);
  await page.fill('.tool-calls textarea', 'rain');
  await page.click('button:has-text("Send the result")');
  await page.waitForFunction(() => document.querySelectorAll('.message.assistant').length === 2);
  await ended(page);
  assert.match(await textOf(lastAnswer(page).locator('.markdown')), /The tool said: rain\./);
  const [, call, result] = server.requests[1].messages;
  assert.deepEqual(call.tool_calls[0].function, {
    name: 'weather',
    arguments: '{"city": "Freiburg", "unit": "celsius"}',
  });
  assert.deepEqual(result, { role: 'tool', content: 'rain', tool_call_id: 'call_1', name: 'weather' });
});

browserTest('waiting shows the place in the queue', async (page, server) => {
  server.options.nQueued = 2;
  await send(page, 'Hello');
  await page.waitForSelector('.phase:has-text("2 requests before yours")');
  server.release();
  await page.waitForSelector('.phase:has-text("1 request before yours")');
  server.release();
  await ended(page);
});

browserTest('the progress of the prompt is shown', async (page, server) => {
  server.options.holdAfter = 0;
  await send(page, 'Hello');
  await page.waitForSelector('.phase:has-text("Reading")');
  assert.match(await textOf(page.locator('.phase')), /Reading 5 of 5 tokens/);
  assert.equal(await page.locator('.phase progress').getAttribute('value'), '5');
  server.release();
  await ended(page);
});

browserTest(
  'a refusal shows the words of the server, and can be tried again',
  async (page, server) => {
    server.options.failWith = {
      status: 400,
      type: 'invalid_request_error',
      message: "Field 'top_p': value 1.5, want 0 to 1",
    };
    await send(page, 'Hello');
    await page.waitForSelector('.message .problem');
    assert.equal(await textOf(page.locator('.message .problem')), "Field 'top_p': value 1.5, want 0 to 1");
    await lastAnswer(page).locator('[data-action=regenerate]').click();
    await page.waitForSelector('.message .markdown');
  },
  { expectsErrors: true },
);

browserTest('an error in the middle of a stream keeps the text', async (page) => {
  await send(page, 'this breaks');
  await page.waitForSelector('.message .problem');
  assert.match(await textOf(lastAnswer(page)), /You said:.*the device was lost/s);
});

browserTest(
  'a busy server is asked again when it said',
  async (page, server) => {
    server.options.failWith = {
      status: 503,
      type: 'unavailable_error',
      message: 'queue full',
      fields: { 'Retry-After': '1' },
    };
    await send(page, 'Hello');
    await page.waitForSelector('.message .markdown');
    assert.equal(server.requests.length, 2);
  },
  { expectsErrors: true },
);

browserTest(
  'the key is asked for, kept in the tab, and asked again when wrong',
  async (page, server) => {
    await page.waitForSelector('dialog');
    await page.fill('#key', 'wrong');
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=did not accept');
    await page.fill('#key', 'secret');
    await page.keyboard.press('Enter');
    await page.waitForSelector('dialog', { state: 'detached' });
    await ask(page, 'Hello');
    await page.reload();
    await page.waitForSelector('.message .markdown');
    await page.waitForFunction(() => document.querySelector('.model-label').innerText === 'tales-1b-q4');
    assert.equal(await page.locator('dialog').count(), 0);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('secret')), false);
  },
  { server: { key: 'secret' }, expectsErrors: true },
);

browserTest(
  'on plain http from another machine the page works too',
  async (page, server) => {
    assert.deepEqual(await page.evaluate(() => [isSecureContext, 'locks' in navigator, 'serviceWorker' in navigator]), [
      false,
      false,
      false,
    ]);
    server.options.holdAfter = 8;
    await send(page, 'Hello again');
    await until(() => server.waiting.length === 1);
    await stored(page, ({ streamBytes }) => streamBytes > 0);
    await page.reload();
    await page.waitForSelector('.message.live .markdown');
    server.release();
    await ended(page);
    assert.match(await textOf(lastAnswer(page).locator('.markdown')), /three sentences\.$/);
    assert.equal(server.requests.length, 1);
    await lastAnswer(page).locator('[data-action=copy]').click();
    await page.waitForSelector('.toast:has-text("The message was copied.")');
  },
  { host: 'tessera.test' },
);

browserTest('a text that was not sent survives a reload', async (page) => {
  await page.fill('#composer-text', 'half a thought');
  await page.reload();
  await page.waitForSelector('#composer-text');
  assert.equal(await page.inputValue('#composer-text'), 'half a thought');
});
