// Answers the requests of a client.

import { Failure } from './failure.js';
import { newMessageId } from './outbox.js';
import { describe } from './log.js';

export class Requests {
  #outbox;
  #whatsapp;
  #downloads;
  #uploads;
  #log;

  constructor({ outbox, whatsapp, downloads, uploads, log }) {
    this.#outbox = outbox;
    this.#whatsapp = whatsapp;
    this.#downloads = downloads;
    this.#uploads = uploads;
    this.#log = log;
  }

  // Returns the frame that answers a command, or `undefined` if it has no answer.
  async answer(command) {
    const { requestId, to } = command;
    try {
      switch (command.type) {
        case 'send': {
          const { id, repeated } = await this.#outbox.send(command);
          return { type: 'sent', requestId, to, id, repeated };
        }
        case 'react': {
          const { id, repeated } = await this.#outbox.react(command);
          return { type: 'sent', requestId, to, id, repeated };
        }
        case 'fetch':
          return { type: 'chunk', requestId, ...(await this.#downloads.fetch(command)) };
        case 'upload': {
          const size = await this.#uploads.append(command);
          return { type: 'uploaded', requestId, ref: command.ref, size };
        }
        case 'typing':
          await this.#whatsapp.typing(command);
          return undefined;
        case 'read':
          await this.#whatsapp.read(command);
          return undefined;
        default:
          return undefined;
      }
    } catch (error) {
      // Notes have no answer, and nobody waits for them.
      return requestId === undefined ? undefined : this.refuse(error, requestId);
    }
  }

  // Sends a text for a client of version 1, which knows neither ids nor codes.
  async answerFirstVersion({ to, text }) {
    try {
      await this.#outbox.send({ id: newMessageId(), to, text });
      return { type: 'sent', to };
    } catch (error) {
      return { type: 'error', error: this.refuse(error).error };
    }
  }

  // The `error` frame of an error.
  refuse(error, requestId) {
    const isKnown = error instanceof Failure;
    if (!isKnown) this.#log.error('a request failed', { error: error?.code ?? describe(error) });
    const frame = {
      type: 'error',
      code: isKnown ? error.code : 'failed',
      error: isKnown ? error.message : 'the bridge has a problem; its log says more',
    };
    if (requestId !== undefined) frame.requestId = requestId;
    if (isKnown && error.retryAfter !== undefined) frame.retryAfter = error.retryAfter;
    return frame;
  }
}
