import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { useMultiFileAuthState } from '@whiskeysockets/baileys';

import { AuthStore } from '../src/auth.js';
import { silentLog } from '../src/log.js';
import { folder, real } from './helpers.js';

const KEYS = {
  'pre-key': { 7: { public: Buffer.from('public'), private: Buffer.from('private') } },
  session: { '774915111111111_1.0': Buffer.from('a session') },
  'sender-key': { '120363000000000001@g.us::774915111111111::0': Buffer.from('a key') },
  'sender-key-memory': { '120363000000000001@g.us': { '4915111111111:3@s.whatsapp.net': true } },
  'app-state-sync-key': { 'AAAA/b+c=': { keyData: Buffer.from('data'), timestamp: 5 } },
  'lid-mapping': { '774915111111111_reverse': '4915111111111' },
};

async function all(keys) {
  const values = {};
  for (const [type, ids] of Object.entries(KEYS))
    values[type] = await keys.get(type, Object.keys(ids));
  return JSON.parse(JSON.stringify(values, real.auth.replacer));
}

test('the folder of the Python program goes on to work', async (t) => {
  const path = folder(t);
  const { state, saveCreds } = await useMultiFileAuthState(path);
  state.creds.me = { id: '4915000000001:7@s.whatsapp.net', name: 'Ann' };
  await saveCreds();
  await state.keys.set(KEYS);
  const before = fs.readdirSync(path).sort();

  const store = new AuthStore(path, real.auth, silentLog);
  assert.equal(store.isLinked, true);
  const text = (creds) => JSON.stringify(creds, real.auth.replacer);
  assert.equal(text(store.creds), text(state.creds));
  const { keys } = store.state();
  assert.deepEqual(await all(keys), await all(state.keys));
  assert.equal(store.phoneOf('774915111111111'), '4915111111111');
  assert.equal(store.phoneOf('../creds'), '');

  // What this store writes has the same names, and Baileys' helper reads it.
  await keys.set(KEYS);
  store.saveCreds();
  assert.deepEqual(fs.readdirSync(path).sort(), before);
  const { state: read } = await useMultiFileAuthState(path);
  assert.equal(text(read.creds), text(state.creds));
  assert.deepEqual(await all(read.keys), await all(keys));
});

test('keys are removed, missing and damaged ones are null', async (t) => {
  const path = folder(t);
  const { keys } = new AuthStore(path, real.auth, silentLog).state();
  await keys.set({ session: { a: Buffer.from('x'), b: Buffer.from('y') } });
  await keys.set({ session: { a: null } });
  fs.writeFileSync(join(path, 'session-b.json'), '{"type":');
  assert.deepEqual(await keys.get('session', ['a', 'b', 'c']), { a: null, b: null, c: null });
});

test('reads see writes that have begun, and later writes win', async (t) => {
  const { keys } = new AuthStore(folder(t), real.auth, silentLog).state();
  const writes = [1, 2, 3].map((number) => keys.set({ 'device-list': { a: [`${number}`] } }));
  assert.deepEqual(await keys.get('device-list', ['a']), { a: ['3'] });
  await Promise.all(writes);
});

test('after a logout only our files are gone, and late writes are ignored', async (t) => {
  const path = folder(t);
  fs.writeFileSync(join(path, 'notes.json'), '{}');
  const store = new AuthStore(path, real.auth, silentLog);
  const { keys } = store.state();
  store.creds.me = { id: '1@s.whatsapp.net' };
  store.saveCreds();
  await keys.set(KEYS);
  store.clear();
  await keys.set({ session: { late: Buffer.from('x') } });
  assert.deepEqual(fs.readdirSync(path), ['notes.json']);
  assert.equal(store.isLinked, false);
});

test('damaged credentials are put aside with all keys of their device', (t) => {
  const path = folder(t);
  fs.writeFileSync(join(path, 'creds.json'), '{"noiseKey":');
  fs.writeFileSync(join(path, 'session-a.json'), '{}');
  const store = new AuthStore(path, real.auth, silentLog);
  assert.equal(store.isLinked, false);
  assert.deepEqual(fs.readdirSync(path), ['creds.json.damaged']);
});

const WRITER = `
  import { AuthStore } from './src/auth.js';
  import { library } from './src/baileys.js';
  import { silentLog } from './src/log.js';
  const store = new AuthStore(process.argv[1], library(silentLog).auth, silentLog);
  const { keys } = store.state();
  for (let number = 0; ; number += 1) {
    store.creds.me = { id: '1@s.whatsapp.net', name: String(number).repeat(2000) };
    store.saveCreds();
    await keys.set({ session: { a: Buffer.alloc(5000, number) } });
    process.stdout.write(number + '\\n');
  }`;

test('a kill during a write leaves the old value or the new one', async (t) => {
  const path = folder(t);
  for (let round = 0; round < 2; round += 1) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', WRITER, path], {
      cwd: new URL('..', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let count = 0;
    for await (const chunk of child.stdout) {
      count += String(chunk).split('\n').length - 1;
      if (count > 20 + round * 7) break;
    }
    child.kill('SIGKILL');
    const store = new AuthStore(path, real.auth, silentLog);
    assert.match(store.creds.me.name, /^([0-9]+)\1{1999}$/);
    const { a } = await store.state().keys.get('session', ['a']);
    assert.equal(a.length, 5000);
    assert.equal(new Set(a).size, 1);
    assert.ok(fs.readdirSync(path).every((name) => /^(creds|session-a)\.json$/.test(name)));
  }
});
