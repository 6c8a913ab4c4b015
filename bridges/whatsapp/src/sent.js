// Ids of messages that WhatsApp's server has, kept on disk: a message is not sent twice.

import { join } from 'node:path';

import { LineFile } from './lines.js';

export const KEPT = 10_000;

export class SentIds {
  #file;
  #kept;
  #lines;
  #ids = new Set();

  constructor(folder, { kept = KEPT } = {}) {
    this.#kept = kept;
    const { file, values } = LineFile.open(join(folder, 'sent.jsonl'));
    this.#file = file;
    this.#lines = values.length;
    for (const id of values) if (typeof id === 'string') this.#remember(id);
  }

  #remember(id) {
    this.#ids.delete(id);
    this.#ids.add(id);
    if (this.#ids.size > this.#kept) this.#ids.delete(this.#ids.values().next().value);
  }

  has(id) {
    return this.#ids.has(id);
  }

  // Adds an id. When this returns, it is on disk.
  add(id) {
    if (this.#ids.has(id)) return;
    this.#file.append(id);
    this.#lines += 1;
    this.#remember(id);
    if (this.#lines > 2 * this.#kept) {
      this.#file.replace([...this.#ids]);
      this.#lines = this.#ids.size;
    }
  }

  get size() {
    return this.#ids.size;
  }

  close() {
    this.#file.close();
  }
}
