import assert from 'node:assert/strict';
import { get } from 'node:http';
import { test } from 'node:test';

import { isToken } from '../src/client.js';
import { ANN, ANN_CHAT, linkedBridge, newId, TestClient, TOKEN } from './helpers.js';

const say = (network, text, rest = {}) => network.says({ from: ANN.number, text, ...rest });

test('tokens are compared as a whole', () => {
  for (const value of ['', 'a token', `${TOKEN}x`, undefined, null, 5, [TOKEN]]) {
    assert.equal(isToken(value, TOKEN), false, String(value));
  }
  assert.equal(isToken(TOKEN, TOKEN), true);
});

test('a client has to give its token in time', async (t) => {
  const { bridge } = await linkedBridge(t, { limits: { server: { authMilliseconds: 50 } } });
  assert.equal(await new TestClient(bridge.address).closed, 4001);
});

test('a client has to give its token first', async (t) => {
  const { bridge } = await linkedBridge(t);
  const wrong = { type: 'auth', token: 'wrong' };
  for (const first of ['no json', [], { type: 'typing' }, { type: 'auth' }, wrong]) {
    const client = new TestClient(bridge.address);
    await client.opened();
    client.send(first);
    assert.equal(await client.closed, 4003, JSON.stringify(first));
    assert.deepEqual(client.frames, []);
  }
});

test('a page of a browser is refused, and so is plain HTTP', async (t) => {
  const { bridge } = await linkedBridge(t);
  const page = new TestClient(bridge.address, { origin: 'http://evil.example' });
  assert.equal(await page.closed, 1006);
  const status = await new Promise((resolve) => {
    get(bridge.address.replace('ws:', 'http:'), (response) =>
      resolve(response.resume().statusCode),
    );
  });
  assert.equal(status, 426);
});

test('connections are limited', async (t) => {
  const { bridge } = await linkedBridge(t, { limits: { server: { connections: 2 } } });
  const clients = [new TestClient(bridge.address), new TestClient(bridge.address)];
  await Promise.all(clients.map((client) => client.opened()));
  assert.equal(await new TestClient(bridge.address).closed, 1013);
});

test('one client of version 2', async (t) => {
  const { bridge } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  assert.equal(await (await TestClient.open(bridge)).closed, 4009);
  await client.fence();
  await client.close();
  await TestClient.ready(bridge);
});

test('a client that answers no pings is cut off', async (t) => {
  const { bridge } = await linkedBridge(t, { limits: { server: { pingMilliseconds: 150 } } });
  const dead = new TestClient(bridge.address, { autoPong: false });
  await dead.opened();
  dead.send({ type: 'auth', token: TOKEN, protocol: 2 });
  const alive = new TestClient(bridge.address);
  await alive.opened();
  alive.send({ type: 'auth', token: TOKEN });
  assert.equal(await dead.closed, 1006);
  assert.equal(alive.socket.readyState, alive.socket.OPEN);
});

test('messages are repeated until they are confirmed, over connections and restarts', async (t) => {
  const first = await linkedBridge(t);
  let client = await TestClient.ready(first.bridge);
  for (const text of ['a', 'b', 'c']) say(first.network, text);
  const messages = [await client.message(), await client.message(), await client.message()];
  assert.deepEqual(
    messages.map(({ seq, content }) => [seq, content]),
    [
      [1, 'a'],
      [2, 'b'],
      [3, 'c'],
    ],
  );
  client.send({ type: 'ack', seq: [2] });
  await client.fence();
  await client.close();
  client = await TestClient.ready(first.bridge);
  assert.deepEqual([await client.message(), await client.message()], [messages[0], messages[2]]);
  await client.close();
  await first.bridge.stop();

  const second = await linkedBridge(t, { path: first.path });
  client = await TestClient.ready(second.bridge);
  assert.deepEqual([await client.message(), await client.message()], [messages[0], messages[2]]);
  client.send({ type: 'ack', seq: [1, 3, 3, 77] });
  say(second.network, 'd');
  assert.equal((await client.message()).seq, 4);
});

test('at most 64 messages are ahead', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  for (let number = 0; number < 66; number += 1) say(network, `${number}`);
  for (let number = 0; number < 64; number += 1) await client.message();
  await client.fence();
  assert.equal(client.frames.length, 0);
  client.send({ type: 'ack', seq: [10] });
  assert.equal((await client.message()).seq, 65);
});

test('a message that comes twice is one message', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  const id = say(network, 'a');
  network.repeat(id);
  say(network, 'b');
  assert.deepEqual(
    [(await client.message()).content, (await client.message()).content],
    ['a', 'b'],
  );
});

test('dropped messages are counted', async (t) => {
  const { bridge, network } = await linkedBridge(t, { limits: { journal: { messages: 2 } } });
  let client = await TestClient.ready(bridge);
  await client.close();
  for (const text of ['a', 'b', 'c', 'd']) say(network, text);
  client = await TestClient.ready(bridge);
  const [third, fourth] = [await client.message(), await client.message()];
  assert.deepEqual(
    [third.content, third.lost, fourth.content, fourth.lost],
    ['c', 2, 'd', undefined],
  );
});

test('a slow reader does not fill the memory', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  const data = Buffer.alloc(1024 * 1024, 'x').toString('base64');
  network.says({ from: ANN.number, file: { kind: 'document', mime: 'a/b', name: 'x', data } });
  const {
    media: [{ ref }],
  } = await client.message();
  client.socket.pause();
  for (let number = 0; number < 100; number += 1) {
    client.send({ type: 'fetch', requestId: `f${number}`, ref, offset: 0 });
  }
  client.socket.resume();
  const answers = [];
  for (let number = 0; number < 100; number += 1) {
    answers.push(await client.next(({ requestId }) => requestId === `f${number}`));
  }
  assert.ok(answers.every(({ type, size }) => type === 'chunk' && size === 1024 * 1024));
});

test('errors of version 2 and of version 1', async (t) => {
  const { bridge } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  client.socket.send(Buffer.from('{"type":"read"}'), { binary: true });
  assert.equal((await client.next(({ type }) => type === 'error')).code, 'invalid');
  const refused = await client.request({ type: 'send', id: newId(), to: 'nobody', text: 'x' });
  assert.deepEqual([refused.type, refused.code], ['error', 'invalid']);
  const old = await TestClient.open(bridge, { protocol: 1 });
  old.send({ type: 'send', to: 'nobody', text: 'x' });
  const frame = await old.next(({ type }) => type === 'error');
  assert.deepEqual(Object.keys(frame), ['type', 'error']);
});

test('a client of version 1 gets texts and the state, and confirms nothing', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const old = await TestClient.open(bridge, { protocol: 1 });
  assert.deepEqual(await old.next(() => true), { type: 'status', status: 'connected' });
  const voice = { kind: 'voice', mime: 'audio/ogg', name: '', data: 'YQ==' };
  const id = network.says({ from: ANN.number, file: voice });
  const { timestamp, ...frame } = await old.message();
  assert.ok(Number.isInteger(timestamp));
  assert.deepEqual(frame, {
    type: 'message',
    id,
    sender: ANN_CHAT,
    pn: '',
    content: '[Voice Message]',
    isGroup: false,
  });
  network.disconnect(428);
  assert.deepEqual(await old.next(({ type }) => type === 'status'), {
    type: 'status',
    status: 'disconnected',
  });
  network.setOnline();
  const client = await TestClient.open(bridge);
  assert.equal((await client.message()).id, id);
});
