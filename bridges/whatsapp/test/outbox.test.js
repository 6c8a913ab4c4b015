import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';

import { AuthStoreError } from '../src/auth.js';
import { Failure } from '../src/failure.js';
import { silentLog } from '../src/log.js';
import { Outbox } from '../src/outbox.js';
import { SentIds } from '../src/sent.js';
import { closed } from './socket.js';
import { ANN_CHAT, folder, newId } from './helpers.js';

// A connection whose sends the test ends.
class Connection extends EventEmitter {
  sends = [];

  checkConnected() {}

  async checkNumber() {}

  sendMessage(to, body, { id }) {
    return new Promise((resolve, reject) => {
      this.sends.push({ to, id, body, resolve, reject });
      this.emit('handed', id);
    });
  }

  // The next message that is handed over.
  handed() {
    return new Promise((resolve) => this.once('handed', () => resolve(this.sends.at(-1))));
  }
}

function outbox(t, options = {}) {
  const sent = new SentIds(folder(t));
  const whatsapp = new Connection();
  const uploads = { use: (_, task) => task('/path') };
  return {
    sent,
    whatsapp,
    outbox: new Outbox({ sent, whatsapp, uploads, log: silentLog, ...options }),
  };
}

const message = (rest = {}) => ({ id: newId(), to: ANN_CHAT, text: 'x', ...rest });
const code = (promise) =>
  promise.then(
    () => 'sent',
    (error) => error.code,
  );

test('a message is sent when the server acknowledges it, and its id is kept then', async (t) => {
  const { sent, whatsapp, outbox: box } = outbox(t);
  const command = message();
  let isDone = false;
  const done = box.send(command).finally(() => (isDone = true));
  (await whatsapp.handed()).resolve();
  await new Promise(setImmediate);
  assert.deepEqual([isDone, sent.has(command.id)], [false, false]);
  whatsapp.emit('acknowledged', 'another id');
  whatsapp.emit('acknowledged', command.id);
  assert.deepEqual(await done, { id: command.id, repeated: false });
  assert.equal(sent.has(command.id), true);
  assert.deepEqual(await box.send(command), { id: command.id, repeated: true });
  assert.equal(whatsapp.sends.length, 1);
});

test('what an error means', async (t) => {
  const withData = (data) => Object.assign(new Error('x'), { data });
  const table = [
    [closed(428), 'not_connected'],
    [closed(408), 'not_connected'],
    [withData(403), 'forbidden'],
    [withData(404), 'not_found'],
    [withData(429), 'rate_limited'],
    [withData(500), 'failed'],
    [new AuthStoreError('x'), 'unknown_outcome'],
    [new Failure('not_found', 'x'), 'not_found'],
    [new TypeError('x'), 'failed'],
  ];
  for (const [error, expected] of table) {
    const { sent, whatsapp, outbox: box } = outbox(t);
    const command = message();
    const result = code(box.send(command));
    (await whatsapp.handed()).reject(error);
    assert.equal(await result, expected);
    assert.equal(sent.has(command.id), false);
  }
});

test('what a refusal means', async (t) => {
  const table = {
    403: 'forbidden',
    404: 'not_found',
    413: 'too_large',
    429: 'rate_limited',
    463: 'forbidden',
    479: 'failed',
    x: 'failed',
  };
  for (const [error, expected] of Object.entries(table)) {
    const { whatsapp, outbox: box } = outbox(t);
    const command = message();
    const result = code(box.send(command));
    (await whatsapp.handed()).resolve();
    whatsapp.emit('acknowledged', command.id, error);
    assert.equal(await result, expected, error);
  }
});

test('without an acknowledgement the outcome is unknown, and the id is sent again', async (t) => {
  const { whatsapp, outbox: box } = outbox(t, { acknowledgeMilliseconds: 10 });
  const command = message();
  const result = code(box.send(command));
  (await whatsapp.handed()).resolve();
  assert.equal(await result, 'unknown_outcome');
  const again = box.send(command);
  (await whatsapp.handed()).resolve();
  whatsapp.emit('acknowledged', command.id);
  assert.deepEqual(await again, { id: command.id, repeated: false });
  assert.deepEqual(
    whatsapp.sends.map(({ id }) => id),
    [command.id, command.id],
  );
});

test('a broken connection makes the outcome unknown at once', async (t) => {
  const { whatsapp, outbox: box } = outbox(t);
  const result = code(box.send(message()));
  (await whatsapp.handed()).resolve();
  await new Promise(setImmediate);
  whatsapp.emit('closed');
  assert.equal(await result, 'unknown_outcome');
});

test('a repetition during the send waits for its outcome', async (t) => {
  const { whatsapp, outbox: box } = outbox(t);
  const command = message();
  const results = [box.send(command), box.send(command)];
  (await whatsapp.handed()).resolve();
  whatsapp.emit('acknowledged', command.id);
  await Promise.all(results);
  assert.equal(whatsapp.sends.length, 1);
});

test('messages of a chat are in order, other chats do not wait', async (t) => {
  const { whatsapp, outbox: box } = outbox(t);
  const [first, second, other] = [message(), message(), message({ to: '5@lid' })];
  const results = [first, second, other].map((command) => box.send(command));
  await new Promise(setImmediate);
  assert.deepEqual(
    whatsapp.sends.map(({ id }) => id),
    [first.id, other.id],
  );
  whatsapp.sends[0].reject(closed(428));
  assert.equal(await code(results[0]), 'not_connected');
  const next =
    whatsapp.sends.at(-1).id === second.id ? whatsapp.sends.at(-1) : await whatsapp.handed();
  assert.equal(next.id, second.id);
  for (const { id, resolve } of whatsapp.sends) resolve(whatsapp.emit('acknowledged', id));
  await Promise.all(results.slice(1));
});

test('sends at once are limited', async (t) => {
  const { whatsapp, outbox: box } = outbox(t);
  const results = Array.from({ length: 64 }, () => box.send(message()));
  await assert.rejects(box.send(message()), { code: 'rate_limited', retryAfter: 1 });
  whatsapp.emit('closed');
  for (const result of results) assert.equal(await code(result), 'unknown_outcome');
});

test('files have the content that Baileys wants, and start no other program', async (t) => {
  const table = [
    ['image', { image: { url: '/path' }, caption: 'x', mimetype: 'a/b', jpegThumbnail: null }],
    ['video', { video: { url: '/path' }, caption: 'x', mimetype: 'a/b', jpegThumbnail: null }],
    ['audio', { audio: { url: '/path' }, mimetype: 'a/b' }],
    ['voice', { audio: { url: '/path' }, mimetype: 'a/b', ptt: true }],
    ['sticker', { sticker: { url: '/path' }, mimetype: 'a/b' }],
    ['document', { document: { url: '/path' }, caption: 'x', mimetype: 'a/b', fileName: 'n' }],
  ];
  for (const [kind, expected] of table) {
    const { whatsapp, outbox: box } = outbox(t);
    const command = message({ media: { ref: 'u', kind, mime: 'a/b', name: 'n' } });
    const done = box.send(command);
    const { body, resolve } = await whatsapp.handed();
    assert.deepEqual(body, expected);
    resolve();
    whatsapp.emit('acknowledged', command.id);
    await done;
  }
});

test('a reaction to a message that the bridge did not send', async (t) => {
  const { outbox: box } = outbox(t);
  const reaction = { to: ANN_CHAT, id: newId(), participant: '', fromBot: true, emoji: 'x' };
  await assert.rejects(box.react(reaction), { code: 'not_found' });
});
