// A folder of temporary files with generated names and a limit for their total size. It is emptied
// at the start. Files that were not used for a long time are removed, and the least recently used
// ones when room is needed.

import fs from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';

import { makeFolder } from './disk.js';
import { Failure } from './failure.js';

export const LIMITS = {
  files: 64,
  bytes: 512 * 1024 * 1024,
  idleMilliseconds: 10 * 60 * 1000,
};

export class TemporaryFolder {
  #path;
  #limits;
  #now;
  // By reference, the least recently used one first.
  #files = new Map();
  #bytes = 0;

  constructor(path, { limits = {}, now = Date.now } = {}) {
    this.#path = path;
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now;
    fs.rmSync(path, { recursive: true, force: true });
    makeFolder(path);
  }

  get(ref) {
    const file = this.#files.get(ref);
    if (file === undefined) return undefined;
    this.#files.delete(ref);
    this.#files.set(ref, file);
    file.used = this.#now();
    return file;
  }

  async create(ref) {
    await this.remove(ref);
    await this.#makeRoom(0, ref);
    const path = join(this.#path, randomBytes(12).toString('hex'));
    const handle = await open(path, 'wx', 0o600);
    await handle.close();
    const file = { ref, path, size: 0, used: this.#now(), users: 0 };
    this.#files.set(ref, file);
    return file;
  }

  async append(file, bytes) {
    await this.#makeRoom(bytes.length, file.ref);
    const handle = await open(file.path, 'a');
    try {
      await handle.writeFile(bytes);
    } finally {
      await handle.close();
    }
    file.size += bytes.length;
    this.#bytes += bytes.length;
    file.used = this.#now();
  }

  async read(file, offset, length) {
    const handle = await open(file.path, 'r');
    try {
      const bytes = Buffer.alloc(Math.max(0, Math.min(length, file.size - offset)));
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, offset);
      return bytes.subarray(0, bytesRead);
    } finally {
      await handle.close();
    }
  }

  // Keeps a file in place while a task uses it.
  async use(file, task) {
    file.users += 1;
    try {
      return await task(file.path);
    } finally {
      file.users -= 1;
      file.used = this.#now();
    }
  }

  async remove(ref) {
    const file = this.#files.get(ref);
    if (file === undefined) return;
    this.#files.delete(ref);
    this.#bytes -= file.size;
    await rm(file.path, { force: true });
  }

  // Removes files that were not used for ten minutes, unless `keeps` says otherwise.
  async removeIdle(keeps = () => false) {
    const oldest = this.#now() - this.#limits.idleMilliseconds;
    for (const file of [...this.#files.values()]) {
      if (file.users === 0 && file.used <= oldest && !keeps(file.ref)) await this.remove(file.ref);
    }
  }

  async #makeRoom(bytes, except) {
    const isFull = () =>
      this.#bytes + bytes > this.#limits.bytes ||
      this.#files.size >= this.#limits.files + (this.#files.has(except) ? 1 : 0);
    for (const file of [...this.#files.values()]) {
      if (!isFull()) return;
      if (file.ref !== except && file.users === 0) await this.remove(file.ref);
    }
    if (isFull()) throw new Failure('rate_limited', 'too many files at once', { retryAfter: 10 });
  }
}
