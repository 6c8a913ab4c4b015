import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { ACCOUNT } from './network.js';
import { ANN, ANN_CHAT, folder, linkedBridge, newId, TestClient, TOKEN } from './helpers.js';

const status = ({ type }) => type === 'status';
const ready = ({ type }) => type === 'ready';
const send = (client, rest = {}) =>
  client.request({ type: 'send', id: newId(), to: ANN_CHAT, text: 'x', ...rest });

test('a broken connection is made again, and messages of the meantime come', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  network.disconnect(428);
  const lost = await client.next(status);
  assert.deepEqual(lost, {
    type: 'status',
    status: 'disconnected',
    reason: 'the connection broke (428)',
    retry: true,
  });
  assert.equal((await send(client)).code, 'not_connected');
  network.says({ from: ANN.number, text: 'meanwhile' });
  await client.next((frame) => status(frame) && frame.status === 'connecting');
  network.setOnline();
  await client.next((frame) => status(frame) && frame.status === 'connected');
  assert.equal((await client.message()).content, 'meanwhile');
  assert.equal((await send(client)).type, 'sent');
});

test('a bridge whose place was taken does not take it back', async (t) => {
  const { bridge, network, path } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  network.disconnect(440, 'online');
  assert.deepEqual(await client.next(status), {
    type: 'status',
    status: 'disconnected',
    reason: 'replaced',
    retry: false,
  });
  assert.equal((await send(client)).code, 'not_connected');
  assert.equal(network.connections, 1);
  await bridge.stop();
  const later = await linkedBridge(t, { path });
  assert.equal((await send(await TestClient.ready(later.bridge))).type, 'sent');
});

test('a removed device is linked again by a QR code', async (t) => {
  const { bridge, network, settings } = await linkedBridge(t);
  fs.writeFileSync(join(settings.authFolder, 'session-a.json'), '{}');
  const client = await TestClient.ready(bridge);
  network.disconnect(401, 'online');
  assert.deepEqual(await client.next(status), {
    type: 'status',
    status: 'unlinked',
    reason: 'logged_out',
    retry: true,
  });
  const { qr } = await client.next(({ type }) => type === 'qr');
  assert.deepEqual(fs.readdirSync(settings.authFolder), []);
  assert.equal((await send(client)).code, 'unlinked');
  await client.close();

  const later = await TestClient.open(bridge);
  const greeting = await later.next(ready);
  assert.deepEqual(greeting, { type: 'ready', protocol: 2, version: '0.1.0', status: 'unlinked' });
  assert.equal((await later.next(({ type }) => type === 'qr')).qr, qr);
  const before = Math.floor(Date.now() / 1000);
  network.link();
  assert.equal((await later.next((frame) => status(frame) && frame.reason)).reason, 'logged_out');
  assert.equal((await later.next((frame) => status(frame) && frame.reason)).reason, 'restart');
  const { account } = await later.next((frame) => status(frame) && frame.status === 'connected');
  assert.deepEqual(account, {
    id: '4915000000001@s.whatsapp.net',
    lid: '120000000000001@lid',
    name: 'nanobot',
  });
  assert.ok(fs.existsSync(join(settings.authFolder, 'creds.json')));
  const { linkedAt } = JSON.parse(fs.readFileSync(join(settings.dataFolder, 'link.json'), 'utf8'));
  assert.ok(linkedAt >= before);
});

test('Baileys can ask again for a message that was sent', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  const { id } = await send(client, { text: 'keep this' });
  assert.deepEqual(await network.options.getMessage({ id }), { conversation: 'keep this' });
  assert.equal(await network.options.getMessage({ id: newId() }), undefined);
});

test('the data of a group is asked for once, until it changes', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const group = '120363000000000001@g.us';
  network.groups.set(group, true);
  const client = await TestClient.ready(bridge);
  await send(client, { to: group });
  network.groups.set(group, false);
  assert.equal((await send(client, { to: group })).type, 'sent');
  network.changeGroup(group);
  assert.equal((await send(client, { to: group })).code, 'forbidden');
});

test('a number is looked up once, and not at all if it wrote', async (t) => {
  const { bridge, network } = await linkedBridge(t);
  const client = await TestClient.ready(bridge);
  await send(client);
  await send(client);
  assert.deepEqual(network.lookups, [ANN_CHAT]);
  const ben = { number: '4915222222222', lid: '774915222222222', name: 'Ben' };
  network.people.push(ben);
  network.says({ from: ben.number, text: 'hello' });
  await client.message();
  assert.equal((await send(client, { to: `${ben.number}@s.whatsapp.net` })).type, 'sent');
  assert.equal((await send(client, { to: '4915999999999@s.whatsapp.net' })).code, 'not_found');
  assert.deepEqual(network.lookups, [ANN_CHAT, '4915999999999@s.whatsapp.net']);
});

test('neither tokens nor texts are logged', async (t) => {
  const lines = [];
  const note = (text, facts) => lines.push(JSON.stringify({ text, facts }));
  const log = { info: note, warn: note, error: note };
  const { bridge, network } = await linkedBridge(t, { log });
  const client = await TestClient.ready(bridge);
  network.says({ from: ANN.number, text: 'a secret' });
  await client.message();
  await send(client, { text: 'a secret', to: '4915999999999@s.whatsapp.net' });
  client.send('a secret, and no JSON');
  await client.next(({ type, requestId }) => type === 'error' && requestId === undefined);
  network.disconnect(428);
  await client.next((frame) => status(frame) && frame.status === 'disconnected');
  assert.ok(lines.length > 0);
  for (const word of ['secret', TOKEN, ANN.number, '4915999999999', ACCOUNT.name]) {
    assert.ok(!lines.join().includes(word), word);
  }
});
