import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { SentIds } from '../src/sent.js';
import { folder } from './helpers.js';

test('ids are kept over a restart', (t) => {
  const path = folder(t);
  const sent = new SentIds(path);
  sent.add('3EB01');
  sent.add('3EB02');
  sent.add('3EB01');
  fs.appendFileSync(join(path, 'sent.jsonl'), '"3EB0');
  const again = new SentIds(path);
  assert.deepEqual(
    ['3EB01', '3EB02', '3EB03'].map((id) => again.has(id)),
    [true, true, false],
  );
  assert.equal(again.size, 2);
});

test('only the newest ids are kept, in memory and on disk', (t) => {
  const path = folder(t);
  const sent = new SentIds(path, { kept: 10 });
  for (let number = 0; number < 100; number += 1) sent.add(`id ${number}`);
  assert.deepEqual([sent.size, sent.has('id 89'), sent.has('id 90')], [10, false, true]);
  assert.ok(fs.readFileSync(join(path, 'sent.jsonl'), 'utf8').split('\n').length <= 22);
  assert.equal(new SentIds(path, { kept: 10 }).has('id 99'), true);
});
