// The bridge as a process, with the real Baileys and without a network.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

import { ACCOUNT } from './network.js';
import { ANN, ANN_CHAT, folder, newId, real, TestClient, TOKEN } from './helpers.js';

const HERE = new URL('..', import.meta.url);
const status = ({ type }) => type === 'status';

function start(t, program, path, environment = {}) {
  const child = spawn(process.execPath, ['--import', './test/no-network.js', program], {
    cwd: HERE,
    env: {
      PATH: process.env.PATH,
      BRIDGE_TOKEN: TOKEN,
      BRIDGE_PORT: '0',
      BRIDGE_SUPERVISED: '1',
      AUTH_DIR: join(path, 'auth'),
      BRIDGE_DIR: join(path, 'data'),
      ...environment,
    },
  });
  t.after(() => child.kill('SIGKILL'));
  const run = { child, output: '', log: '', ended: once(child, 'close').then(([code]) => code) };
  child.stdout.on('data', (data) => (run.output += data));
  child.stderr.on('data', (data) => (run.log += data));
  return run;
}

async function running(t, program, path, environment) {
  const run = start(t, program, path, environment);
  const lines = createInterface({ input: run.child.stdout })[Symbol.asyncIterator]();
  run.line = async () => JSON.parse((await lines.next()).value);
  run.where = await run.line();
  run.bridge = { address: run.where.listening };
  return run;
}

test('a bridge without a device', async (t) => {
  const path = folder(t);
  const run = await running(t, 'index.js', path);
  assert.match(run.where.listening, /^ws:\/\/127\.0\.0\.1:[0-9]+$/);
  assert.equal(run.where.protocol, 2);
  assert.equal(await (await TestClient.open(run.bridge, { token: 'wrong' })).closed, 4003);
  const client = await TestClient.open(run.bridge);
  const greeting = await client.next(({ type }) => type === 'ready');
  assert.ok(['unlinked', 'disconnected'].includes(greeting.status), greeting.status);
  assert.equal(greeting.account, undefined);
  const { reason, retry } = await client.next(
    (frame) => status(frame) && frame.status === 'disconnected',
  );
  assert.equal(typeof reason, 'string');
  assert.equal(retry, true);
  await client.next((frame) => status(frame) && frame.status === 'unlinked');
  const answer = await client.request({
    type: 'send',
    id: newId(),
    to: ANN_CHAT,
    text: 'a secret',
  });
  assert.equal(answer.code, 'unlinked');
  run.child.stdin.end();
  assert.equal(await run.ended, 0);
  assert.equal(await client.closed, 1001);
  assert.equal(run.output.trim().split('\n').length, 1);
  for (const word of [TOKEN, 'secret']) assert.ok(!run.log.includes(word), run.log);
  for (const name of fs.readdirSync(path))
    assert.equal(fs.statSync(join(path, name)).mode & 0o077, 0, name);
});

test('a bridge that the Python program has linked', async (t) => {
  const path = folder(t);
  fs.mkdirSync(join(path, 'auth'));
  const creds = JSON.stringify({ ...real.auth.create(), me: ACCOUNT }, real.auth.replacer);
  fs.writeFileSync(join(path, 'auth', 'creds.json'), creds);
  const run = await running(t, 'index.js', path);
  const client = await TestClient.open(run.bridge);
  const greeting = await client.next(({ type }) => type === 'ready');
  assert.ok(['connecting', 'disconnected'].includes(greeting.status), greeting.status);
  assert.equal(greeting.account.id, '4915000000001@s.whatsapp.net');
  assert.equal(
    (await client.next((frame) => status(frame) && frame.status === 'disconnected')).retry,
    true,
  );
  await client.next((frame) => status(frame) && frame.status === 'connecting');
  const answer = await client.request({ type: 'send', id: newId(), to: ANN_CHAT, text: 'x' });
  assert.equal(answer.code, 'not_connected');
  assert.equal(fs.readFileSync(join(path, 'auth', 'creds.json'), 'utf8'), creds);
  run.child.kill('SIGTERM');
  assert.equal(await run.ended, 0);
});

test('exit codes of what cannot start', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await once(taken, 'listening');
  const table = [
    [{ BRIDGE_TOKEN: '' }, 2],
    [{ BRIDGE_PORT: '70000' }, 2],
    [{ BRIDGE_PORT: 'x' }, 2],
    [{ BRIDGE_PORT: String(taken.address().port) }, 1],
    [{ BRIDGE_DIR: '/dev/null/x' }, 1],
  ];
  for (const [environment, code] of table) {
    const run = start(t, 'index.js', folder(t), environment);
    assert.equal(await run.ended, code, JSON.stringify(environment));
    assert.equal(run.output, '');
    assert.ok(run.log.length > 0);
    assert.ok(!run.log.includes(TOKEN));
  }
});

test('a killed bridge loses no message and sends none twice', async (t) => {
  const path = folder(t);
  const phone = async (run, order) => {
    run.child.stdin.write(`${JSON.stringify(order)}\n`);
    return run.line();
  };
  const first = await running(t, 'test/stand-in.js', path);
  await phone(first, { phone: 'person', ...ANN });
  const { id } = await phone(first, { phone: 'says', from: ANN.number, text: 'hello' });
  const before = await TestClient.ready(first.bridge);
  const sent = { type: 'send', id: newId(), to: ANN_CHAT, text: 'x' };
  assert.equal((await before.request(sent)).repeated, false);
  const message = await before.message();
  assert.equal(message.id, id);
  first.child.kill('SIGKILL');
  await first.ended;

  const second = await running(t, 'test/stand-in.js', path);
  const client = await TestClient.ready(second.bridge);
  assert.deepEqual(await client.message(), message);
  assert.equal((await client.request(sent)).repeated, true);
  assert.deepEqual((await phone(second, { phone: 'seen' })).messages, []);
  second.child.stdin.end();
  assert.equal(await second.ended, 0);
});
