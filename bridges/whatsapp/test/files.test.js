import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Downloads, FILE, PIECE } from '../src/downloads.js';
import { TemporaryFolder } from '../src/folder.js';
import { Uploads } from '../src/uploads.js';
import { folder } from './helpers.js';

// A journal with files, of which none is confirmed.
const journal = (files, isPending = () => true) => ({
  file: (seq, index) => files[`m${seq}-${index}`],
  isPending,
});

async function* bytes(...parts) {
  yield* parts.map((part) => Buffer.from(part));
}

const stored = (path) => fs.readdirSync(join(path, 'received'));

test('a file is downloaded once and read in pieces', async (t) => {
  const path = folder(t);
  const content = Buffer.alloc(PIECE + 10, 'x');
  let count = 0;
  const open = () => ((count += 1), bytes(content.subarray(0, 7), content.subarray(7)));
  const sha256 = createHash('sha256').update(content).digest('base64');
  const downloads = new Downloads(path, journal({ 'm1-0': { size: 5, sha256 } }), open);
  const [first, again] = await Promise.all(
    [0, 0].map((offset) => downloads.fetch({ ref: 'm1-0', offset })),
  );
  assert.deepEqual([first.size, first.last, again.size], [PIECE + 10, false, PIECE + 10]);
  const last = await downloads.fetch({ ref: 'm1-0', offset: PIECE });
  assert.deepEqual(last, {
    offset: PIECE,
    data: Buffer.alloc(10, 'x').toString('base64'),
    size: PIECE + 10,
    last: true,
  });
  assert.equal(count, 1);
  await assert.rejects(downloads.fetch({ ref: 'm1-0', offset: PIECE + 11 }), { code: 'invalid' });
  for (const ref of ['m2-0', 'm1-1', 'x', '../m1-0', 'm1-0x']) {
    await assert.rejects(downloads.fetch({ ref, offset: 0 }), { code: 'not_found' }, ref);
  }
});

test('an empty file has one piece', async (t) => {
  const downloads = new Downloads(folder(t), journal({ 'm1-0': { size: 0 } }), () => bytes());
  const piece = await downloads.fetch({ ref: 'm1-0', offset: 0 });
  assert.deepEqual(piece, { offset: 0, data: '', size: 0, last: true });
});

test('a file that is too large, damaged or gone leaves nothing', async (t) => {
  const path = folder(t);
  async function* endless() {
    for (;;) yield Buffer.alloc(1000);
  }
  async function* broken() {
    yield Buffer.from('a');
    throw new Error('the connection broke');
  }
  const files = {
    'm1-0': { size: 10_001 },
    'm2-0': { size: 1, open: endless },
    'm3-0': { size: 1, sha256: 'other', open: () => bytes('a') },
    'm4-0': { size: 1, open: broken },
  };
  const downloads = new Downloads(path, journal(files), (file) => file.open(), { most: 10_000 });
  const codes = [];
  for (const ref of Object.keys(files)) {
    await downloads.fetch({ ref, offset: 0 }).catch((error) => codes.push(error.code));
  }
  assert.deepEqual(codes, ['too_large', 'too_large', 'failed', undefined]);
  assert.deepEqual(stored(path), []);
});

test('a slow download goes on after the answer', async (t) => {
  let finish;
  const waiting = new Promise((resolve) => (finish = resolve));
  async function* slow() {
    await waiting;
    yield Buffer.from('done');
  }
  const files = journal({ 'm1-0': { size: 4 } });
  const downloads = new Downloads(folder(t), files, slow, { answerMilliseconds: 10 });
  await assert.rejects(downloads.fetch({ ref: 'm1-0', offset: 0 }), {
    code: 'rate_limited',
    retryAfter: 5,
  });
  finish();
  let piece;
  while (piece === undefined) {
    piece = await downloads.fetch({ ref: 'm1-0', offset: 0 }).catch(({ code }) => {
      assert.equal(code, 'rate_limited');
    });
  }
  assert.equal(Buffer.from(piece.data, 'base64').toString(), 'done');
});

test('files of confirmed messages are removed ten minutes after their last use', async (t) => {
  const path = folder(t);
  let now = 0;
  let isPending = true;
  const files = journal({ 'm1-0': { size: 1 } }, () => isPending);
  const downloads = new Downloads(path, files, () => bytes('a'), { now: () => now });
  await downloads.fetch({ ref: 'm1-0', offset: 0 });
  now = 700_000;
  await downloads.clean();
  assert.equal(stored(path).length, 1);
  isPending = false;
  await downloads.clean();
  assert.deepEqual(stored(path), []);
});

test('a start empties the folder, and names do not come from outside', async (t) => {
  const path = folder(t);
  fs.mkdirSync(join(path, 'uploaded'));
  fs.writeFileSync(join(path, 'uploaded', 'old'), 'x');
  const uploads = new Uploads(path);
  await uploads.append({ ref: 'u1', offset: 0, data: Buffer.from('a') });
  const [name] = fs.readdirSync(join(path, 'uploaded'));
  assert.match(name, /^[0-9a-f]{24}$/);
  assert.equal(fs.statSync(join(path, 'uploaded', name)).mode & 0o077, 0);
});

test('uploads are in order, and stay after their use', async (t) => {
  const uploads = new Uploads(folder(t));
  const append = (ref, offset, data) => uploads.append({ ref, offset, data: Buffer.from(data) });
  assert.equal(await append('u1', 0, 'old'), 3);
  assert.equal(await append('u1', 0, 'he'), 2);
  assert.equal(await append('u1', 2, 'llo'), 5);
  await assert.rejects(append('u1', 4, 'x'), { code: 'invalid' });
  await assert.rejects(append('u2', 4, 'x'), { code: 'invalid' });
  await assert.rejects(append('u1', 5, Buffer.alloc(PIECE + 1)), { code: 'too_large' });
  await assert.rejects(append('u1', FILE, 'x'), { code: 'too_large' });
  for (let round = 0; round < 2; round += 1) {
    assert.equal(await uploads.use('u1', (path) => fs.readFileSync(path, 'utf8')), 'hello');
  }
  assert.throws(() => uploads.use('u3', () => {}), { code: 'not_found' });
});

test('the folder has room for the newest files', async (t) => {
  const temporary = new TemporaryFolder(join(folder(t), 'x'), { limits: { files: 3, bytes: 100 } });
  const add = async (ref, length) =>
    temporary.append(await temporary.create(ref), Buffer.alloc(length));
  for (const ref of ['a', 'b', 'c', 'd']) await add(ref, 10);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((ref) => temporary.get(ref)?.size),
    [undefined, 10, 10, 10],
  );
  await add('e', 85);
  assert.deepEqual(
    ['b', 'c', 'd', 'e'].map((ref) => temporary.get(ref)?.size),
    [undefined, undefined, 10, 85],
  );
  // A file in use is not taken away.
  await temporary.use(temporary.get('e'), async () => {
    await assert.rejects(add('f', 50), { code: 'rate_limited' });
  });
});
