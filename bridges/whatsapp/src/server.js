// The WebSocket server for clients.

import { createServer } from 'node:http';

import { WebSocketServer } from 'ws';

import { Client, CLOSE } from './client.js';

export const PROTOCOL = 2;

const HEADERS_MILLISECONDS = 5000;
export const LIMITS = {
  frame: 1024 * 1024,
  connections: 16,
  authMilliseconds: 5000,
  pingMilliseconds: 20_000,
};

export class Server {
  #sockets;
  #http;
  #whatsapp;
  #version;
  #clients = new Set();
  #pings;

  constructor({ token, version, journal, requests, whatsapp, limits = {} }) {
    this.token = token;
    this.journal = journal;
    this.requests = requests;
    this.limits = { ...LIMITS, ...limits };
    // The number of the last message that clients of version 1 got, or that was there before.
    this.firstVersionAfter = journal.last;
    this.#version = version;
    this.#whatsapp = whatsapp;
    this.#http = createServer((_, response) => response.writeHead(426).end());
    this.#http.headersTimeout = HEADERS_MILLISECONDS;
    this.#http.maxHeadersCount = 64;
    this.#sockets = new WebSocketServer({
      server: this.#http,
      maxPayload: this.limits.frame,
      perMessageDeflate: false,
      // Pages of a browser have an origin; they have no business here.
      verifyClient: ({ req }) => req.headers.origin === undefined,
    });
    this.#sockets.on('connection', (socket) => this.#accept(socket));
    whatsapp.on('status', (status) => this.#tell({ type: 'status', ...status }));
    whatsapp.on('qr', (qr) => this.#tell({ type: 'qr', qr }));
  }

  // Listens and returns the address.
  listen(host, port) {
    return new Promise((resolve, reject) => {
      this.#sockets.on('error', reject);
      this.#http.listen(port, host, () => {
        const { address, family, port: taken } = this.#http.address();
        resolve(`ws://${family === 'IPv6' ? `[${address}]` : address}:${taken}`);
      });
      this.#pings = setInterval(() => {
        for (const client of this.#clients) client.ping();
      }, this.limits.pingMilliseconds);
    });
  }

  #accept(socket) {
    if (this.#clients.size >= this.limits.connections) {
      socket.on('error', () => {});
      socket.close(CLOSE.busy);
      return;
    }
    const client = new Client(socket, this);
    this.#clients.add(client);
    socket.on('close', () => this.#clients.delete(client));
  }

  get hasSecondVersion() {
    return [...this.#clients].some((client) => client.version === 2);
  }

  // Returns the code with which a client of a version must be closed now, or `undefined`.
  admit(version) {
    return version === 2 && this.hasSecondVersion ? CLOSE.second : undefined;
  }

  // Tells a new client where things stand.
  greet(client) {
    const { status, account } = this.#whatsapp;
    if (client.version === 2) {
      const { status: name } = status;
      const ready = { type: 'ready', protocol: PROTOCOL, version: this.#version, status: name };
      client.send(account === undefined ? ready : { ...ready, account });
    }
    this.#tellOne(client, { type: 'status', ...status });
    const { qr } = this.#whatsapp;
    if (qr !== undefined) client.send({ type: 'qr', qr });
  }

  #tell(frame) {
    for (const client of this.#clients) {
      if (client.version !== undefined) this.#tellOne(client, frame);
    }
  }

  // Version 1 knows two states only.
  #tellOne(client, frame) {
    if (client.version === 2 || frame.type !== 'status') client.send(frame);
    else if (frame.status === 'connected') client.send({ type: 'status', status: 'connected' });
    else if (frame.status === 'disconnected')
      client.send({ type: 'status', status: 'disconnected' });
  }

  // Passes on what the journal has.
  deliver() {
    for (const client of this.#clients) client.deliver();
  }

  async close() {
    clearInterval(this.#pings);
    for (const client of this.#clients) client.close(CLOSE.leaving);
    this.#sockets.close();
    await new Promise((resolve) => {
      this.#http.close(resolve);
      setTimeout(resolve, 1000).unref();
    });
  }
}
