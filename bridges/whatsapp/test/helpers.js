// Things that several tests need.

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import WebSocket from 'ws';

import { library } from '../src/baileys.js';
import { startBridge } from '../src/bridge.js';
import { silentLog } from '../src/log.js';
import { ACCOUNT, Network } from './network.js';

export const TOKEN = 'a token of the tests';
export const ANN = { number: '4915111111111', lid: '774915111111111', name: 'Ann' };
export const ANN_CHAT = `${ANN.number}@s.whatsapp.net`;

// A folder that is removed after the test.
export function folder(test) {
  const path = fs.mkdtempSync(join(tmpdir(), 'bridge-'));
  test.after(() => fs.rmSync(path, { recursive: true, force: true }));
  return path;
}

export const real = library(silentLog);

// A bridge that is linked to a network in memory.
export async function linkedBridge(
  test,
  { limits = {}, path = folder(test), log = silentLog } = {},
) {
  const settings = {
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    authFolder: join(path, 'auth'),
    dataFolder: join(path, 'data'),
  };
  fs.mkdirSync(settings.authFolder, { recursive: true });
  const creds = { ...real.auth.create(), me: ACCOUNT };
  fs.writeFileSync(
    join(settings.authFolder, 'creds.json'),
    JSON.stringify(creds, real.auth.replacer),
  );
  const network = new Network();
  network.people.push(ANN);
  const bridge = await startBridge(settings, {
    version: '0.1.0',
    library: network.library(real),
    log,
    limits,
    pause: { first: 10, most: 50, stable: 60_000 },
  });
  let isStopped = false;
  const stop = async () => {
    if (!isStopped) await bridge.stop();
    isStopped = true;
  };
  test.after(stop);
  return { bridge: { ...bridge, stop }, network, settings, path };
}

// A client that keeps what it gets.
export class TestClient {
  #waiting = [];
  frames = [];

  constructor(address, options = {}) {
    this.socket = new WebSocket(address, options);
    this.closed = new Promise((resolve) => this.socket.on('close', resolve));
    this.socket.on('error', () => {});
    this.socket.on('message', (data) => {
      this.frames.push(JSON.parse(data));
      this.#settle();
    });
  }

  static async open(bridge, { protocol = 2, token = TOKEN } = {}) {
    const client = new TestClient(bridge.address);
    await client.opened();
    client.send({ type: 'auth', token, protocol });
    return client;
  }

  static async ready(bridge) {
    const client = await TestClient.open(bridge);
    await client.next(({ type }) => type === 'ready');
    await client.next(({ type, status }) => type === 'status' && status === 'connected');
    return client;
  }

  opened() {
    return new Promise((resolve) => this.socket.once('open', resolve));
  }

  send(frame) {
    this.socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  // Takes the next frame that fits; others stay.
  next(fits) {
    return new Promise((resolve) => {
      this.#waiting.push({ fits, resolve });
      this.#settle();
    });
  }

  message() {
    return this.next(({ type }) => type === 'message');
  }

  async request(frame) {
    this.requests = (this.requests ?? 0) + 1;
    const requestId = `r${this.requests}`;
    this.send({ ...frame, requestId });
    return this.next((answer) => answer.requestId === requestId);
  }

  // Returns when everything that was sent before has been handled.
  async fence() {
    await this.request({ type: 'fetch', ref: 'fence', offset: 0 });
  }

  async close() {
    this.socket.close();
    await this.closed;
  }

  #settle() {
    for (const waiting of [...this.#waiting]) {
      const index = this.frames.findIndex(waiting.fits);
      if (index < 0) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.resolve(this.frames.splice(index, 1)[0]);
    }
  }
}

let ids = 0;

export function newId() {
  ids += 1;
  return `3EB0${ids.toString(16).toUpperCase().padStart(18, '0')}`;
}
