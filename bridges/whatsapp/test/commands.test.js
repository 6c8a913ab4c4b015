import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseFrame, readCommand, readFirstVersion, requestIdOf } from '../src/commands.js';

const TO = '4915111111111@s.whatsapp.net';
const SEND = { type: 'send', requestId: '9', id: '3EB0A1B2C3D4E5F60718', to: TO, text: 'hello' };
const UPLOAD = { type: 'upload', requestId: '8', ref: 'u1', offset: 0, data: 'aGk=' };
const MEDIA = { ref: 'u1', kind: 'document', mime: 'application/pdf', name: 'a.pdf' };

test('right frames are read, and unknown members left out', () => {
  assert.deepEqual(readCommand({ ...SEND, extra: 1 }), {
    ...SEND,
    quote: undefined,
    media: undefined,
  });
  assert.deepEqual(readCommand({ ...UPLOAD }), { ...UPLOAD, data: Buffer.from('hi') });
  assert.deepEqual(readCommand({ type: 'ack', seq: [1, 2] }), { type: 'ack', seq: [1, 2] });
  const quote = { id: '3A01', participant: '5@lid', content: 'x'.repeat(9000) };
  const read = readCommand({ ...SEND, text: '', quote, media: { ...MEDIA, name: '../a\n.pdf' } });
  assert.deepEqual(read.media, { ...MEDIA, name: '.._a_.pdf' });
  assert.equal(read.quote.content.length, 4096);
  assert.deepEqual(readFirstVersion({ type: 'send', to: TO, text: 'x' }), {
    type: 'send',
    to: TO,
    text: 'x',
  });
});

test('the length of a text is counted in characters', () => {
  assert.equal(readCommand({ ...SEND, text: '😀'.repeat(65_536) }).text.length, 131_072);
  assert.throws(() => readCommand({ ...SEND, text: '😀'.repeat(65_537) }), { code: 'too_large' });
});

test('wrong frames are refused', () => {
  const wrong = [
    { ...SEND, type: 'fly' },
    { ...SEND, type: 'constructor' },
    { ...SEND, requestId: undefined },
    { ...SEND, requestId: 5 },
    { ...SEND, requestId: 'x'.repeat(129) },
    { ...SEND, to: '4915111111111:3@s.whatsapp.net' },
    { ...SEND, to: 'status@broadcast' },
    { ...SEND, to: [TO] },
    { ...SEND, id: '3EB0' },
    { ...SEND, id: `3EB0${'a'.repeat(16)}` },
    { ...SEND, id: `3EB0${'A'.repeat(29)}` },
    { ...SEND, text: '' },
    { ...SEND, text: {} },
    { ...SEND, quote: { id: 'a b' } },
    { ...SEND, quote: { id: 'x', participant: '1@g.us' } },
    { ...SEND, media: { ...MEDIA, ref: '../x' } },
    { ...SEND, media: { ...MEDIA, kind: 'toString' } },
    { ...SEND, media: { ...MEDIA, mime: 'a\n' } },
    { ...SEND, media: { ...MEDIA, name: 5 } },
    { ...UPLOAD, offset: 1.5 },
    { ...UPLOAD, offset: '0' },
    { ...UPLOAD, data: 'aGk' },
    { type: 'ack', seq: 5 },
    { type: 'ack', seq: [-1] },
    { type: 'ack', seq: Array(1025).fill(1) },
    { type: 'typing', to: TO, active: 1 },
    { type: 'read', to: TO, id: '' },
    { type: 'react', requestId: '1', to: TO, id: 'x', emoji: 'x'.repeat(33) },
    { type: 'auth', token: 'x' },
  ];
  for (const frame of wrong) {
    assert.throws(
      () => readCommand(frame),
      { code: 'invalid' },
      JSON.stringify(frame).slice(0, 200),
    );
  }
  for (const text of ['', '{', '[]', 'null', '5', '{"type":5}', '{}']) {
    assert.throws(() => parseFrame(text), { code: 'invalid' }, text);
  }
  assert.throws(() => readFirstVersion({ type: 'typing', to: TO }), { code: 'invalid' });
});

test('the request id of a wrong frame', () => {
  assert.equal(requestIdOf({ requestId: 'a' }), 'a');
  for (const frame of [undefined, {}, { requestId: '' }, { requestId: {} }])
    assert.equal(requestIdOf(frame), undefined);
});
