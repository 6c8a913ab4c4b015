// The journal of received messages: each one is on disk before a client sees it, and stays until
// the client confirms it.
//
// Lines of the file: {"next","lost","seen"} begins a compacted file, {"seq","key","frame","files",
// "lost"} is a message, {"confirmed":[…]} and {"dropped":seq} end it, {"seq","gap"} says that the
// message tells of dropped ones.

import { join } from 'node:path';

import { LineFile } from './lines.js';

export const LIMITS = {
  messages: 10_000,
  bytes: 64 * 1024 * 1024,
  seen: 10_000,
  seenKept: 1_000,
  recent: 1_000,
  recentMilliseconds: 10 * 60 * 1000,
  compactFrom: 1024 * 1024,
};

export class Journal {
  #file;
  #limits;
  #now;
  #records = new Map();
  #recent = new Map();
  #seen = new Set();
  #next = 1;
  #lost = 0;
  #bytes = 0;

  constructor(folder, { limits = {}, now = Date.now } = {}) {
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now;
    const { file, values } = LineFile.open(join(folder, 'journal.jsonl'));
    this.#file = file;
    for (const value of values) this.#replay(value);
  }

  #replay(value) {
    if (value === null || typeof value !== 'object') return;
    if (Number.isSafeInteger(value.next)) {
      this.#next = Math.max(this.#next, value.next);
      this.#lost += Number.isSafeInteger(value.lost) ? value.lost : 0;
      for (const key of Array.isArray(value.seen) ? value.seen : []) this.#saw(key);
    } else if (Array.isArray(value.confirmed)) {
      for (const seq of value.confirmed) this.#remove(seq);
    } else if (value.dropped !== undefined) {
      this.#drop(value.dropped);
    } else if (value.gap !== undefined) {
      this.#mark(value.seq, value.gap);
    } else if (Number.isSafeInteger(value.seq) && value.frame && value.seq >= this.#next) {
      this.#keep(value, Buffer.byteLength(JSON.stringify(value)) + 1);
    }
  }

  #keep(record, bytes) {
    this.#records.set(record.seq, { files: [], lost: 0, ...record, bytes });
    this.#bytes += bytes;
    this.#next = record.seq + 1;
    this.#saw(record.key);
  }

  #saw(key) {
    this.#seen.delete(key);
    this.#seen.add(key);
    if (this.#seen.size > this.#limits.seen) this.#seen.delete(this.#seen.values().next().value);
  }

  #remove(seq) {
    const record = this.#records.get(seq);
    if (record === undefined) return undefined;
    this.#records.delete(seq);
    this.#bytes -= record.bytes;
    return record;
  }

  #drop(seq) {
    const record = this.#remove(seq);
    if (record !== undefined) this.#lost += 1 + record.lost;
  }

  #mark(seq, gap) {
    const record = this.#records.get(seq);
    if (record === undefined || !Number.isSafeInteger(gap)) return;
    record.lost += gap;
    this.#lost = Math.max(0, this.#lost - gap);
  }

  // `true` if a message with this key was added before.
  has(key) {
    return this.#seen.has(key);
  }

  // Adds a message and returns its record. `build` makes its frame and its files, given its number.
  // When this returns, the message is on disk. Beyond the limits the oldest messages are dropped.
  add(key, build) {
    const seq = this.#next;
    const { frame, files = [] } = build(seq);
    const line = { seq, key, frame, files };
    // Should the append fail, the number stays unused.
    this.#next = seq + 1;
    const bytes = this.#file.append(line);
    this.#keep(line, bytes);
    const { messages, bytes: most } = this.#limits;
    while (this.#records.size > 1 && (this.#records.size > messages || this.#bytes > most)) {
      const oldest = this.#records.keys().next().value;
      this.#note({ dropped: oldest });
      this.#drop(oldest);
    }
    this.#compactIfLarge();
    return this.#records.get(seq);
  }

  // Removes messages that a client has confirmed, and returns their numbers. Unknown numbers are
  // ignored: the client repeats a confirmation whose connection broke.
  confirm(seqs) {
    const known = [...new Set(seqs)].filter((seq) => this.#records.has(seq));
    if (known.length === 0) return known;
    // If this line is lost in a crash, messages are repeated, and the client knows their ids.
    this.#note({ confirmed: known });
    for (const seq of known) {
      const { files } = this.#remove(seq);
      if (files.length === 0) continue;
      this.#recent.set(seq, { files, until: this.#now() + this.#limits.recentMilliseconds });
    }
    while (this.#recent.size > this.#limits.recent) {
      this.#recent.delete(this.#recent.keys().next().value);
    }
    this.#compactIfLarge();
    return known;
  }

  // Messages after a number, in their order, at most `count`.
  after(seq, count) {
    const records = [];
    for (const record of this.#records.values()) {
      if (records.length === count) break;
      if (record.seq > seq) records.push(record);
    }
    return records;
  }

  // The frame of a message for a client. The first one after dropped messages says how many.
  frame(record) {
    if (this.#lost > 0 && this.#records.has(record.seq)) {
      const gap = this.#lost;
      this.#note({ seq: record.seq, gap });
      this.#mark(record.seq, gap);
    }
    const frame = { type: 'message', seq: record.seq, ...record.frame };
    return record.lost > 0 ? { ...frame, lost: record.lost } : frame;
  }

  // The description of a file of a message that is not confirmed, or was so a short time ago.
  file(seq, index) {
    const recent = this.#recent.get(seq);
    if (recent !== undefined && recent.until <= this.#now()) this.#recent.delete(seq);
    return (this.#records.get(seq) ?? this.#recent.get(seq))?.files[index];
  }

  // `true` if a message waits for its confirmation.
  isPending(seq) {
    return this.#records.has(seq);
  }

  // The number of the newest message, or 0.
  get last() {
    return this.#next - 1;
  }

  get length() {
    return this.#records.size;
  }

  #compactIfLarge() {
    const { size } = this.#file;
    if (size < this.#limits.compactFrom || size < 2 * this.#bytes) return;
    const seen = [...this.#seen].slice(-this.#limits.seenKept);
    // The numbers of kept messages are below `next`, so it follows them.
    const head = { next: this.#records.keys().next().value ?? this.#next, lost: this.#lost, seen };
    const records = [...this.#records.values()].map(({ bytes, ...record }) => record);
    try {
      this.#file.replace([head, ...records, { next: this.#next }]);
    } catch {
      // The disk may be full: the file stays as it is, and the next change tries again.
    }
  }

  // Appends a line that the journal can do without: if it is missing, messages are repeated.
  #note(value) {
    try {
      this.#file.append(value, { durable: false });
    } catch {
      // The message itself is on disk.
    }
  }

  close() {
    this.#file.close();
  }
}
