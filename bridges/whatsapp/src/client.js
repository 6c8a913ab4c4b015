// One connection of a client: its `auth`, its requests, and the messages that it has to confirm.

import { createHash, timingSafeEqual } from 'node:crypto';

import { parseFrame, readCommand, readFirstVersion, requestIdOf } from './commands.js';
import { invalid } from './failure.js';

export const CLOSE = { late: 4001, refused: 4003, second: 4009, busy: 1013, leaving: 1001 };

const AHEAD = 64;
const REQUESTS = 64;
const BUFFERED = 4 * 1024 * 1024;

const digest = (text) => createHash('sha256').update(text).digest();

// Compares a token in constant time.
export function isToken(value, token) {
  return typeof value === 'string' && timingSafeEqual(digest(value), digest(token));
}

export class Client {
  #socket;
  #server;
  #timer;
  #state = 'new';
  #version;
  #answered = true;
  #missed = 0;
  #last = 0;
  #ahead = new Set();
  #requests = 0;
  #transfers = Promise.resolve();

  constructor(socket, server) {
    this.#socket = socket;
    this.#server = server;
    this.#timer = setTimeout(() => this.close(CLOSE.late), server.limits.authMilliseconds);
    socket.on('message', (data, isBinary) => this.#read(data, isBinary));
    socket.on('pong', () => (this.#answered = true));
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      clearTimeout(this.#timer);
      this.#state = 'closed';
    });
  }

  // 1 or 2, once the client has given its token.
  get version() {
    return this.#state === 'ready' ? this.#version : undefined;
  }

  close(code) {
    this.#state = 'closed';
    clearTimeout(this.#timer);
    this.#socket.close(code);
    // A client that does not answer the closing is cut off.
    setTimeout(() => this.#socket.terminate(), 2000).unref();
  }

  // Sends a ping, or ends a connection that has not answered two of them.
  ping() {
    this.#missed = this.#answered ? 0 : this.#missed + 1;
    if (this.#missed >= 2) {
      this.#socket.terminate();
      return;
    }
    this.#answered = false;
    this.#socket.ping();
  }

  send(frame) {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#socket.send(JSON.stringify(frame), () => this.#resume());
    this.#pauseIfBusy();
  }

  // A client that does not read its answers, or has many requests open, is not read from.
  #pauseIfBusy() {
    if (this.#isBusy() && !this.#socket.isPaused) this.#socket.pause();
  }

  #isBusy() {
    return this.#socket.bufferedAmount > BUFFERED || this.#requests >= REQUESTS;
  }

  #resume() {
    if (this.#socket.isPaused && !this.#isBusy()) this.#socket.resume();
    this.deliver();
  }

  #read(data, isBinary) {
    if (this.#state === 'closed') return;
    let frame;
    try {
      if (isBinary) throw invalid('frames are texts');
      frame = parseFrame(data.toString());
      if (this.#state === 'new') this.#authorize(frame);
      else if (this.#version === 1)
        this.#run(this.#server.requests.answerFirstVersion(readFirstVersion(frame)));
      else this.#command(readCommand(frame));
    } catch (error) {
      if (this.#state === 'new') this.close(CLOSE.refused);
      else this.#refuse(error, requestIdOf(frame));
    }
  }

  #refuse(error, requestId) {
    const frame = this.#server.requests.refuse(error, requestId);
    this.send(this.#version === 1 ? { type: 'error', error: frame.error } : frame);
  }

  #authorize(frame) {
    if (frame.type !== 'auth' || !isToken(frame.token, this.#server.token)) {
      this.close(CLOSE.refused);
      return;
    }
    const version = Number.isInteger(frame.protocol) && frame.protocol >= 2 ? 2 : 1;
    const code = this.#server.admit(version);
    if (code !== undefined) {
      this.close(code);
      return;
    }
    clearTimeout(this.#timer);
    this.#version = version;
    this.#state = 'ready';
    if (version === 1) this.#last = this.#server.firstVersionAfter;
    this.#server.greet(this);
    this.deliver();
  }

  #command(command) {
    if (command.type === 'ack') {
      for (const seq of this.#server.journal.confirm(command.seq)) this.#ahead.delete(seq);
      this.deliver();
    } else if (command.type === 'upload') {
      // Pieces are in order, so they are taken one after the other.
      const done = this.#transfers.then(() => this.#server.requests.answer(command));
      this.#transfers = done;
      this.#run(done);
    } else {
      this.#run(this.#server.requests.answer(command));
    }
  }

  #run(answer) {
    this.#requests += 1;
    this.#pauseIfBusy();
    answer.then((frame) => {
      this.#requests -= 1;
      if (frame !== undefined) this.send(frame);
      this.#resume();
    });
  }

  // Sends messages of the journal, at most 64 unconfirmed ones ahead.
  deliver() {
    if (this.#state !== 'ready') return;
    for (;;) {
      if (this.#ahead.size >= AHEAD || this.#socket.bufferedAmount > BUFFERED) return;
      const [record] = this.#server.journal.after(this.#last, 1);
      if (record === undefined) return;
      this.#last = record.seq;
      this.#pass(record);
    }
  }

  #pass(record) {
    const frame = this.#server.journal.frame(record);
    if (this.#version === 2) {
      this.#ahead.add(record.seq);
      this.send(frame);
      return;
    }
    // A client of version 1 confirms nothing, so the message stays for one of version 2.
    this.send(firstVersion(frame));
    this.#server.firstVersionAfter = Math.max(this.#server.firstVersionAfter, record.seq);
  }
}

// The frame of a message in version 1. Files are not part of it, so a message of a file alone has
// its kind as its text; the Python program looks for the one of a voice message.
export function firstVersion({ id, sender, pn, content, timestamp, isGroup, media }) {
  const kind = media[0]?.kind;
  const text = kind === 'voice' ? '[Voice Message]' : `[${kind}]`;
  return { type: 'message', id, sender, pn, content: content || text, timestamp, isGroup };
}
