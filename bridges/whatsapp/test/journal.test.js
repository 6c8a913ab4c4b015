import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Journal } from '../src/journal.js';
import { folder } from './helpers.js';

const build =
  (content, files = []) =>
  () => ({ frame: { content }, files });
const contents = (journal) => journal.after(0, 1000).map(({ frame }) => frame.content);
const seqs = (journal) => journal.after(0, 1000).map(({ seq }) => seq);

test('messages stay until they are confirmed, also after a restart', (t) => {
  const path = folder(t);
  const journal = new Journal(path);
  for (const name of ['a', 'b', 'c']) journal.add(name, build(name));
  assert.deepEqual(journal.confirm([2, 2, 99]), [2]);
  assert.deepEqual(contents(journal), ['a', 'c']);
  const again = new Journal(path);
  assert.deepEqual(contents(again), ['a', 'c']);
  assert.deepEqual(again.frame(again.after(0, 1)[0]), { type: 'message', seq: 1, content: 'a' });
  assert.equal(again.has('b'), true);
  assert.equal(again.has('d'), false);
});

test('a number is not used again, even if nothing is left', (t) => {
  const path = folder(t);
  const journal = new Journal(path, { limits: { compactFrom: 1 } });
  journal.add('a', build('a'));
  journal.add('b', build('b'));
  journal.confirm([1, 2]);
  const again = new Journal(path, { limits: { compactFrom: 1 } });
  assert.equal(again.add('c', build('c')).seq, 3);
  again.confirm([3]);
  assert.equal(new Journal(path).add('d', build('d')).seq, 4);
});

test('a torn line is cut off at every length', (t) => {
  const path = folder(t);
  const file = join(path, 'journal.jsonl');
  const journal = new Journal(path);
  journal.add('a', build('a'));
  const whole = fs.statSync(file).size;
  journal.add('b', build('bé'));
  const bytes = fs.readFileSync(file);
  for (let length = whole; length < bytes.length; length += 1) {
    fs.writeFileSync(file, bytes.subarray(0, length));
    const torn = new Journal(path);
    assert.deepEqual(contents(torn), ['a'], `${length} bytes`);
    torn.add('c', build('c'));
    assert.deepEqual(contents(new Journal(path)), ['a', 'c'], `${length} bytes`);
  }
});

test('a damaged line does not harm its neighbours, and is kept', (t) => {
  const path = folder(t);
  const file = join(path, 'journal.jsonl');
  const journal = new Journal(path);
  for (const name of ['a', 'b', 'c']) journal.add(name, build(name));
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  lines[1] = `\u0000${lines[1].slice(1)}`;
  fs.writeFileSync(file, lines.join('\n'));
  const again = new Journal(path);
  assert.deepEqual(contents(again), ['a', 'c']);
  assert.equal(again.add('d', build('d')).seq, 4);
  assert.equal(fs.readFileSync(`${file}.damaged`, 'utf8'), lines.join('\n'));
});

test('beyond the limits the oldest messages are dropped, and the next frame tells', (t) => {
  const path = folder(t);
  const limits = { messages: 3 };
  const journal = new Journal(path, { limits });
  for (const name of ['a', 'b', 'c', 'd', 'e']) journal.add(name, build(name));
  assert.deepEqual(seqs(journal), [3, 4, 5]);
  const again = new Journal(path, { limits });
  const [third, fourth] = again.after(0, 2);
  assert.equal(again.frame(third).lost, 2);
  assert.equal(again.frame(fourth).lost, undefined);
  // A repeated frame says it again, and a dropped one passes it on.
  assert.equal(new Journal(path, { limits }).frame(third).lost, 2);
  again.add('f', build('f'));
  assert.equal(again.frame(again.after(0, 1)[0]).lost, 3);
});

test('the bytes are limited, too', (t) => {
  const journal = new Journal(folder(t), { limits: { bytes: 1000 } });
  for (let number = 0; number < 10; number += 1) journal.add(`${number}`, build('x'.repeat(250)));
  assert.deepEqual(seqs(journal), [8, 9, 10]);
});

test('the file does not grow with confirmed messages', (t) => {
  const path = folder(t);
  const journal = new Journal(path, { limits: { compactFrom: 4096, seenKept: 5 } });
  const kept = journal.add('kept', build('kept'));
  for (let number = 0; number < 200; number += 1) {
    const { seq } = journal.add(`key ${number}`, build('x'.repeat(100)));
    journal.confirm([seq]);
  }
  assert.ok(fs.statSync(join(path, 'journal.jsonl')).size < 8192);
  const again = new Journal(path);
  assert.deepEqual(seqs(again), [kept.seq]);
  assert.equal(again.has('key 199'), true);
  assert.equal(again.add('next', build('next')).seq, 202);
});

test('files of a confirmed message are known for ten minutes', (t) => {
  let now = 0;
  const journal = new Journal(folder(t), { now: () => now });
  journal.add('a', build('a', [{ kind: 'image' }]));
  assert.deepEqual(journal.file(1, 0), { kind: 'image' });
  assert.equal(journal.file(1, 1), undefined);
  journal.confirm([1]);
  now = 599_999;
  assert.deepEqual(journal.file(1, 0), { kind: 'image' });
  now = 600_000;
  assert.equal(journal.file(1, 0), undefined);
});

test('if the disk refuses a message, nothing of it stays, nor is its number used', (t) => {
  const path = folder(t);
  const journal = new Journal(path);
  journal.add('a', build('a'));
  const refuse = t.mock.method(fs, 'fdatasyncSync', () => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
  });
  assert.throws(() => journal.add('b', build('b')), { code: 'ENOSPC' });
  assert.equal(journal.has('b'), false);
  refuse.mock.restore();
  assert.equal(journal.add('b', build('b')).seq, 3);
  assert.deepEqual(contents(new Journal(path)), ['a', 'b']);
});
