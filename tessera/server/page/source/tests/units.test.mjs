// Tests of the modules that need no browser.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { load } from './modules.mjs';

const { EventReader } = await load('api/sse.ts');
const { Answer, chatRequest } = await load('api/chat.ts');
const { guard } = await load('text/guard.ts');
const jsonPlace = await load('text/json_place.ts');
const { checkSchema, checkTools, checkObject } = await load('text/schema.ts');
const tree = await load('store/tree.ts');
const { makeArchive, readArchive, toMarkdown } = await load('store/transfer.ts');
const { fieldsOf, readField } = await load('sampling.ts');
const { spoken, wholeSentences } = await load('chat/announcer.ts');
const { kNoParameters } = await load('types.ts');

const message = (id, parent, more = {}) => ({
  id,
  parent,
  conversation: 'c',
  role: 'user',
  created: Number(id.slice(1)),
  content: id,
  state: 'done',
  ...more,
});
const mapOf = (...messages) => new Map(messages.map((one) => [one.id, one]));

describe('EventReader', () => {
  const stream = Buffer.from(': queue 2\n\ndata: {"a":"ä€😀"}\n\ndata: x\r\ndata: y\r\n\r\n\n\ndata: [DONE]\n\n');
  const read = (pieces) => {
    const reader = new EventReader();
    return pieces.flatMap((piece) => reader.push(piece)).filter(({ data, comment }) => data || comment);
  };
  const whole = read([stream]);

  test('reads comments, data of several lines, both line ends', () => {
    assert.deepEqual(
      whole.map(({ data, comment }) => data || comment),
      ['queue 2', '{"a":"ä€😀"}', 'x\ny', '[DONE]'],
    );
  });
  test('gives the same events for every place of a cut', () => {
    for (let i = 0; i <= stream.length; ++i)
      assert.deepEqual(read([stream.subarray(0, i), stream.subarray(i)]), whole, `cut at ${i}`);
    assert.deepEqual(read([...stream].map((byte) => Uint8Array.of(byte))), whole);
  });
  test('states where to go on: the rest from an end gives the rest of the events', () => {
    whole.forEach(({ end }, i) => {
      const rest = new EventReader(end).push(stream.subarray(end)).filter(({ data, comment }) => data || comment);
      assert.deepEqual(rest, whole.slice(i + 1));
    });
    assert.equal(whole.at(-1).end, stream.length);
  });
});

describe('Answer', () => {
  const logprob = (token) => ({
    token,
    bytes: [...Buffer.from(token)],
    logprob: -0.5,
    top_logprobs: [{ token: 'other', bytes: null, logprob: null }],
  });
  const chunk = (delta, more = {}) => ({ id: 'i', choices: [{ delta, ...more }] });

  test('joins text, reasoning and the arguments of calls', () => {
    const answer = new Answer(message('m1', null, { content: '' }), []);
    answer.apply(chunk({ role: 'assistant', content: null }));
    answer.apply(chunk({ reasoning_content: 'so ' }));
    answer.apply(chunk({ content: 'a' }));
    answer.apply(chunk({ content: 'b' }));
    answer.apply(chunk({ tool_calls: [{ index: 0, id: 't', function: { name: 'f', arguments: '' } }] }));
    answer.apply(chunk({ tool_calls: [{ index: 0, function: { arguments: '{"x"' } }] }));
    answer.apply(
      chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }, { finish_reason: 'tool_calls' }),
    );
    const { content, reasoning, toolCalls, finish, completion } = answer.message;
    assert.deepEqual(
      { content, reasoning, toolCalls, finish, completion },
      {
        content: 'ab',
        reasoning: 'so ',
        toolCalls: [{ id: 't', name: 'f', arguments: '{"x":1}' }],
        finish: 'tool_calls',
        completion: 'i',
      },
    );
  });
  test('knows the place of each token in its part', () => {
    const answer = new Answer(message('m1', null, { content: 'kept' }), []);
    answer.apply(chunk({ reasoning_content: 'ab' }, { logprobs: { content: [logprob('a'), logprob('b')] } }));
    answer.apply(chunk({ content: ' c' }, { logprobs: { content: [logprob(' c')] } }));
    assert.deepEqual(
      answer.tokens.map(({ part, at }) => [part, at]),
      [
        ['reasoning', 0],
        ['reasoning', 1],
        ['content', 4],
      ],
    );
    assert.ok(answer.tokens[0].top[0].logprob < -1e38, 'null stands for minus infinity');
  });
  test('ignores calls with an impossible index', () => {
    const answer = new Answer(message('m1', null), []);
    for (const index of [-1, 1e9, 0.5]) answer.apply(chunk({ tool_calls: [{ index, function: { name: 'f' } }] }));
    assert.deepEqual(answer.message.toolCalls, []);
  });
  test('throws what an error event says', () => {
    assert.throws(() => new Answer(message('m1', null), []).apply({ error: { message: 'lost' } }), /^Error: lost$/);
  });
});

describe('chatRequest', () => {
  test('puts the system prompt first and only changed sampling fields', () => {
    const body = chatRequest(
      [message('m1', null)],
      { ...kNoParameters, system: 'be kind', sampling: { top_k: 5 } },
      'model',
    );
    assert.deepEqual(body.messages, [
      { role: 'system', content: 'be kind' },
      { role: 'user', content: 'm1' },
    ]);
    assert.equal(body.top_k, 5);
    assert.ok(
      !('temperature' in body) &&
        !('logprobs' in body) &&
        !('response_format' in body) &&
        !('continue_final_message' in body),
    );
  });
  test('continues an answer at the end', () => {
    const body = chatRequest(
      [message('m1', null), message('m2', 'm1', { role: 'assistant' })],
      kNoParameters,
      undefined,
    );
    assert.equal(body.continue_final_message, true);
    assert.equal(body.add_generation_prompt, false);
  });
  test('sends schema, tools, further fields and probabilities', () => {
    const body = chatRequest(
      [message('m1', null)],
      {
        ...kNoParameters,
        schema: '{"type":"object"}',
        tools: '[]',
        extra: '{"stop":["x"]}',
        effort: 'none',
        wantsTokens: true,
      },
      undefined,
    );
    assert.deepEqual(body.response_format.json_schema.schema, { type: 'object' });
    assert.deepEqual([body.tools, body.stop, body.reasoning_effort, body.logprobs], [[], ['x'], 'none', true]);
  });
});

describe('tree', () => {
  //  m1 - m2 - m4
  //     \ m3 - m5 - m6
  //  m7
  const all = mapOf(
    message('m1', null),
    message('m2', 'm1'),
    message('m3', 'm1'),
    message('m4', 'm2'),
    message('m5', 'm3'),
    message('m6', 'm5'),
    message('m7', null),
  );
  const ids = (list) => list.map(({ id }) => id);

  test('finds the way to a leaf', () => assert.deepEqual(ids(tree.pathTo(all, 'm6')), ['m1', 'm3', 'm5', 'm6']));
  test('survives a cycle and a missing parent', () => {
    assert.deepEqual(ids(tree.pathTo(mapOf(message('m1', 'm2'), message('m2', 'm1')), 'm1')), ['m2', 'm1']);
    assert.deepEqual(ids(tree.pathTo(mapOf(message('m2', 'gone')), 'm2')), ['m2']);
    assert.equal(tree.subtree(mapOf(message('m1', 'm2'), message('m2', 'm1')), 'm1').length, 2);
  });
  test('knows siblings by age', () => assert.deepEqual(ids(tree.siblingsOf(all, all.get('m3'))), ['m2', 'm3']));
  test('goes down to the newest leaf', () => {
    assert.equal(tree.newestLeaf(all, 'm1'), 'm6');
    assert.equal(tree.newestLeaf(all, 'm2'), 'm4');
    assert.equal(tree.newestLeaf(all, 'm7'), 'm7');
  });
  test('finds what to show after a removal', () => {
    assert.equal(tree.leafWithout(all, 'm3'), 'm4');
    assert.equal(tree.leafWithout(all, 'm2'), 'm6');
    assert.equal(tree.leafWithout(all, 'm6'), 'm5');
    assert.equal(tree.leafWithout(mapOf(message('m1', null)), 'm1'), null);
  });
  test('handles ten thousand messages in a row', () => {
    const long = mapOf(...Array.from({ length: 10_000 }, (_, i) => message(`m${i}`, i ? `m${i - 1}` : null)));
    assert.equal(tree.pathTo(long, 'm9999').length, 10_000);
    assert.equal(tree.newestLeaf(long, 'm0'), 'm9999');
  });
});

describe('archive', () => {
  const conversation = {
    id: 'c',
    title: 'Title',
    created: 1,
    updated: 2,
    leaf: 'm2',
    parameters: { ...kNoParameters, system: 's', sampling: { top_k: 3 } },
  };
  const messages = [
    message('m1', null),
    message('m2', 'm1', { role: 'assistant', reasoning: 'r', toolCalls: [{ id: 't', name: 'n', arguments: '{}' }] }),
  ];
  const text = JSON.stringify(makeArchive([{ conversation, messages }]));

  test('keeps the tree under new ids', () => {
    const [entry] = readArchive(text);
    assert.notEqual(entry.conversation.id, 'c');
    assert.equal(entry.conversation.leaf, entry.messages[1].id);
    assert.equal(entry.messages[1].parent, entry.messages[0].id);
    assert.deepEqual(entry.conversation.parameters, conversation.parameters);
    assert.deepEqual(entry.messages[1].toolCalls, messages[1].toolCalls);
    assert.ok(entry.messages.every((one) => one.conversation === entry.conversation.id));
  });
  test('ends streams that belong to another page', () => {
    const [entry] = readArchive(text.replace('"state":"done"', '"state":"streaming"'));
    assert.equal(entry.messages[0].state, 'lost');
  });
  for (const [change, problem] of [
    [['"tessera-conversations"', '"other"'], /format/],
    [['"version":1', '"version":9'], /version: 9/],
    [['"role":"user"', '"role":"root"'], /messages\[0\]\.role/],
    [['"content":"m1"', '"content":5'], /messages\[0\]\.content/],
    [['"arguments":"{}"', '"arguments":null'], /toolCalls\[0\]\.arguments/],
    [['"title":"Title"', '"title":[]'], /conversation\.title/],
    [['"created":1,"updated"', '"created":"1","updated"'], /conversation\.created/],
  ]) {
    test(`refuses ${change[1]} and names the field`, () =>
      assert.throws(() => readArchive(text.replace(...change)), problem));
  }
  test('writes Markdown', () => assert.equal(toMarkdown('T', messages.slice(0, 1)), '# T\n\n## You\n\nm1\n'));
});

describe('guard', () => {
  const joined = (text) =>
    guard(text)
      .map((piece) => piece.text)
      .join('');
  const plain = (text) =>
    guard(text)
      .filter(({ isPlain }) => isPlain)
      .map((piece) => piece.text)
      .join('');

  for (const [name, text] of Object.entries({
    'a line of a megabyte': `before\n\n${'x'.repeat(1 << 20)}\n\nafter`,
    'ten thousand quotes': `${'> '.repeat(10_000)}x`,
    'ten thousand dashes': `${'- '.repeat(10_000)}x`,
    'quotes without spaces': `${'>'.repeat(10_000)}x`,
    'a list nested by indentation': Array.from({ length: 300 }, (_, i) => `${' '.repeat(2 * i)}- x`).join('\n'),
    'a paragraph of a hundred kilobytes': 'word [[[ *a '.repeat(20).concat('\n').repeat(400),
  })) {
    test(`sets ${name} apart`, () => {
      assert.equal(joined(text), text);
      assert.notEqual(plain(text), '');
    });
  }
  test('leaves long lines and deep indentation of code alone', () => {
    const text = `\`\`\`json\n${'y'.repeat(100_000)}\n${' '.repeat(500)}- x\n\`\`\`\n`;
    assert.equal(plain(text), '');
    assert.equal(joined(text), text);
  });
  test('leaves an ordinary answer alone', () => {
    assert.equal(
      plain(
        '# A\n\n- b\n  - c\n    1. d\n\n> quote\n> > more\n\n| a | b |\n|---|---|\n| **1** | 2 |\n\n---\n\n* * *\n',
      ),
      '',
    );
  });
});

describe('mistakeIn', () => {
  const { mistakeIn } = jsonPlace;
  for (const [text, at] of [
    ['{"a": [1, -2.5e3, "x\\n\\u00e4", true, null, {}, []]} ', 52],
    ['{"a" 1}', 5],
    ['{"a": 01}', 7],
    ['[1, ]', 4],
    ['{"a":1,}', 7],
    ['{a:1}', 1],
    ["['x']", 1],
    ['"a\nb"', 0],
    ['', 0],
    ['[1', 2],
    ['[1 2]', 3],
    ['{}}', 2],
    ['[}', 1],
    ['tru', 0],
  ]) {
    test(`${JSON.stringify(text)}: ${at}`, () => assert.equal(mistakeIn(text), at));
  }
});

describe('checkSchema', () => {
  for (const [text, where] of [
    ['', null],
    [
      '{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],"additionalProperties":false}',
      null,
    ],
    ['{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}}', null],
    ['{"type": "object"', /^line 1, column \d+$/],
    ['{\n  "type": oops\n}', /^line 2, column \d+$/],
    ['5', /^\/$/],
    ['{"type":"text"}', /^\/type$/],
    ['{"properties":{"a/b":{"type":"nul"}}}', /^\/properties\/a~1b\/type$/],
    ['{"items":[{"minLength":-1}]}', /^\/items\/0\/minLength$/],
    ['{"anyOf":[]}', /^\/anyOf$/],
    ['{"required":"a"}', /^\/required$/],
    ['{"pattern":"("}', /^\/pattern$/],
    ['{"minimum":5,"maximum":1}', /^\/minimum$/],
    ['{"$ref":"#/$defs/none"}', /^\/\$ref$/],
    ['{"$ref":"https://example.org/s"}', /^\/\$ref$/],
  ]) {
    test(`${text || 'a blank text'}: ${where ?? 'right'}`, () => {
      const problem = checkSchema(text);
      if (where) assert.match(problem.where, where);
      else assert.equal(problem, null);
    });
  }
  test('a schema a hundred thousand levels deep ends', () => {
    let text = '{"type":"nul"}';
    text = '{"not":'.repeat(2000) + text + '}'.repeat(2000);
    assert.ok(checkSchema(text).where.endsWith('/not/type'));
    assert.doesNotThrow(() => checkSchema('{"not":'.repeat(100_000) + '{}' + '}'.repeat(100_000)));
  });
  test('tools are named and have schemas', () => {
    assert.equal(checkTools('[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'), null);
    assert.equal(checkTools('{}').where, '/');
    assert.equal(checkTools('[{"type":"function","function":{"name":"a b"}}]').where, '/0/function/name');
    assert.equal(
      checkTools('[{"type":"function","function":{"name":"f","parameters":{"type":1}}}]').where,
      '/0/function/parameters/type',
    );
  });
  test('further fields are an object', () => {
    assert.equal(checkObject('{"stop":["a"]}'), null);
    assert.equal(checkObject('[1]').where, '/');
  });
});

describe('sampling', () => {
  const props = {
    default_generation_settings: {
      params: {
        temperature: 0.949999988079071,
        new_field: 2,
        stream: true,
        n_predict: 7,
        seed: 4294967295,
        top_k: 1234567,
      },
    },
  };
  const field = (name) => fieldsOf(props).find((one) => one.name === name);

  test('defaults are those of the server, as they were written', () => {
    assert.equal(field('temperature').fallback, 0.95);
    assert.equal(field('max_tokens').fallback, 7);
    assert.equal(field('seed').fallback, -1);
    assert.equal(field('top_k').fallback, 1234567);
  });
  test('fields that only the server knows are offered', () => {
    assert.equal(field('new_field').group, 'Other');
    assert.equal(field('stream'), undefined);
  });
  test('values are checked', () => {
    assert.deepEqual(readField(field('temperature'), ' 0,5 '), { value: 0.5 });
    assert.deepEqual(readField(field('temperature'), ''), { value: undefined });
    assert.match(readField(field('temperature'), '-1').error, /0 to 100/);
    assert.match(readField(field('top_k'), '1.5').error, /integer/);
    assert.match(readField(field('top_k'), 'many').error, /number/);
  });
});

describe('announcements', () => {
  test('end at whole sentences', () => {
    const text = 'One is 3.5 long. Two? "Three!" And fo';
    assert.equal(text.slice(0, wholeSentences(text)), 'One is 3.5 long. Two? "Three!"');
    assert.equal(wholeSentences('no end yet'), 0);
    assert.equal(wholeSentences('終わり。次'), 4);
  });
  test('read Markdown as text', () => {
    assert.equal(spoken('## A *b* `c`\n- [link](https://x.y)\n```js\ncode\n```'), 'A b c link code');
  });
});
