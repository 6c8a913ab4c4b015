// The keys of the linked device, one file each, in the format of Baileys' own helper, which the
// Python program used: its folder goes on to work without a new QR code. Other than the helper,
// this store replaces files and never writes into them, so a crash leaves no half key.

import fs from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import {
  makeFolder,
  removeTemporaryFiles,
  replaceFile,
  replaceFileLater,
  syncFolder,
} from './disk.js';

const CONCURRENT = 16;
const NAME_LENGTH = 200;
// The kinds of keys; no other file of the folder is ever deleted.
const TYPES = [
  'pre-key',
  'session',
  'sender-key',
  'sender-key-memory',
  'app-state-sync-key',
  'app-state-sync-version',
  'lid-mapping',
  'device-list',
  'tctoken',
  'identity-key',
];
const OURS = new RegExp(`^(creds|(${TYPES.join('|')})-.+)\\.json$`);

// A write of a key failed. The message was not handled, or may have been sent.
export class AuthStoreError extends Error {}

const fileName = (name) => `${name.replace(/[/\\]/g, '__').replace(/:/g, '-')}.json`;

export class AuthStore {
  #folder;
  #codec;
  #queue = Promise.resolve();
  #generation = 0;

  // `codec` has the formats of Baileys: `create`, `replacer`, `reviver`, `restore`.
  constructor(folder, codec, log) {
    this.#folder = folder;
    this.#codec = codec;
    makeFolder(folder);
    removeTemporaryFiles(folder);
    this.creds = this.#readCreds(log);
  }

  #readCreds(log) {
    const path = join(this.#folder, 'creds.json');
    let text;
    try {
      text = fs.readFileSync(path, 'utf8');
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
      return this.#codec.create();
    }
    const creds = this.#parse(text);
    if (creds !== null && typeof creds === 'object' && creds.noiseKey) return creds;
    log.error(
      'the file of credentials is damaged and was put aside: the device has to be linked again',
    );
    fs.renameSync(path, `${path}.damaged`);
    this.#removeKeys();
    return this.#codec.create();
  }

  #parse(text) {
    try {
      return JSON.parse(text, this.#codec.reviver);
    } catch {
      return null;
    }
  }

  #removeKeys() {
    for (const name of fs.readdirSync(this.#folder)) {
      if (OURS.test(name)) fs.rmSync(join(this.#folder, name), { force: true });
    }
    syncFolder(this.#folder);
  }

  // `true` if a device is linked.
  get isLinked() {
    return Boolean(this.creds.me?.id);
  }

  saveCreds() {
    replaceFile(join(this.#folder, 'creds.json'), JSON.stringify(this.creds, this.#codec.replacer));
  }

  // Deletes all keys after the person removed the device. Writes of the old device are ignored.
  clear() {
    this.#generation += 1;
    this.#removeKeys();
    this.creds = this.#codec.create();
  }

  // The phone number's user of a LID's user, as Baileys stored it, or ''.
  phoneOf(user) {
    if (!/^[0-9]{1,32}$/.test(user)) return '';
    try {
      const text = fs.readFileSync(join(this.#folder, `lid-mapping-${user}_reverse.json`), 'utf8');
      const phone = JSON.parse(text);
      return typeof phone === 'string' && /^[0-9]{1,32}$/.test(phone) ? phone : '';
    } catch {
      return '';
    }
  }

  // The store of one connection, as Baileys wants it.
  state() {
    const generation = this.#generation;
    const keys = {
      get: (type, ids) => this.#get(type, ids),
      set: (data) => {
        if (generation !== this.#generation) return Promise.resolve();
        // Writes are in order: a later value of a key must not be overtaken by an earlier one.
        const done = this.#queue.then(() => this.#set(generation, data));
        this.#queue = done.catch(() => {});
        return done;
      },
    };
    return { creds: this.creds, keys };
  }

  async #get(type, ids) {
    // Writes that have begun are visible afterwards.
    await this.#queue;
    const values = {};
    for (const id of ids) {
      const name = fileName(`${type}-${id}`);
      if (name.length > NAME_LENGTH || name.includes('\0')) continue;
      let value = null;
      try {
        value = this.#parse(await readFile(join(this.#folder, name), 'utf8'));
      } catch (error) {
        if (error.code !== 'ENOENT')
          throw new AuthStoreError('a key cannot be read', { cause: error });
      }
      values[id] = value === null ? value : this.#codec.restore(type, value);
    }
    return values;
  }

  async #set(generation, data) {
    const tasks = [];
    for (const [type, values] of Object.entries(data)) {
      for (const [id, value] of Object.entries(values ?? {})) {
        const name = fileName(`${type}-${id}`);
        if (name.length > NAME_LENGTH || name.includes('\0')) continue;
        tasks.push({ path: join(this.#folder, name), value });
      }
    }
    try {
      for (let begin = 0; begin < tasks.length; begin += CONCURRENT) {
        if (generation !== this.#generation) return;
        await Promise.all(tasks.slice(begin, begin + CONCURRENT).map((task) => this.#write(task)));
      }
      syncFolder(this.#folder);
    } catch (error) {
      throw new AuthStoreError('a key cannot be written', { cause: error });
    }
  }

  #write({ path, value }) {
    if (value === null || value === undefined) return rm(path, { force: true });
    return replaceFileLater(path, JSON.stringify(value, this.#codec.replacer));
  }
}
