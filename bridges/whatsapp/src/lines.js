// A file of JSON lines that is appended to and compacted at times. A line that was torn by a crash
// is cut off when the file is opened; a damaged line is skipped, and the file is kept as a copy.

import fs from 'node:fs';

import { replaceFile, syncFolder, writeAll } from './disk.js';
import { dirname } from 'node:path';

export class LineFile {
  #path;
  #handle;
  #size;

  // Opens or creates a file and returns it with the values of its lines.
  static open(path) {
    const file = new LineFile(path);
    const values = file.#read();
    return { file, values };
  }

  constructor(path) {
    this.#path = path;
  }

  get size() {
    return this.#size;
  }

  #read() {
    const isNew = !fs.existsSync(this.#path);
    this.#handle = fs.openSync(this.#path, isNew ? 'w+' : 'r+', 0o600);
    if (isNew) syncFolder(dirname(this.#path));
    const bytes = fs.readFileSync(this.#path);
    const values = [];
    let damaged = false;
    let begin = 0;
    for (;;) {
      const end = bytes.indexOf(10, begin);
      if (end < 0) break;
      try {
        values.push(JSON.parse(bytes.subarray(begin, end).toString()));
      } catch {
        damaged = true;
      }
      begin = end + 1;
    }
    if (damaged) fs.copyFileSync(this.#path, `${this.#path}.damaged`);
    if (begin < bytes.length) fs.ftruncateSync(this.#handle, begin);
    this.#size = begin;
    return values;
  }

  // Appends a value and returns the length of its line. With `durable` it is on disk afterwards. If
  // that fails, the file is as it was.
  append(value, { durable = true } = {}) {
    const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
    try {
      writeAll(this.#handle, bytes, this.#size);
      if (durable) fs.fdatasyncSync(this.#handle);
    } catch (error) {
      try {
        fs.ftruncateSync(this.#handle, this.#size);
      } catch {
        // The next append overwrites the rest.
      }
      throw error;
    }
    this.#size += bytes.length;
    return bytes.length;
  }

  // Replaces all lines.
  replace(values) {
    const content = values.map((value) => `${JSON.stringify(value)}\n`).join('');
    replaceFile(this.#path, content);
    fs.closeSync(this.#handle);
    this.#handle = fs.openSync(this.#path, 'r+');
    this.#size = Buffer.byteLength(content);
  }

  close() {
    fs.closeSync(this.#handle);
  }
}
