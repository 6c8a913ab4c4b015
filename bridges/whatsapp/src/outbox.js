// Sends messages. The outcome of a send is the acknowledgement of WhatsApp's server: Baileys' own
// promise resolves when the message is written to the connection, and Baileys tells only of
// acknowledgements with an error.

import { randomBytes } from 'node:crypto';

import { AuthStoreError } from './auth.js';
import { Failure, refusal, within } from './failure.js';

const ANSWER_MILLISECONDS = 55_000;
const ACKNOWLEDGE_MILLISECONDS = 45_000;
// A send that has not ended by then is forgotten, and its id may be sent again.
const SEND_MILLISECONDS = 5 * 60 * 1000;
const AT_ONCE = 64;

const CONNECTION_CLOSED = 428;
const TIMED_OUT = 408;

const unknown = (text) => new Failure('unknown_outcome', text);

// Maps an error of Baileys, given before the message was acknowledged, to ours.
function mapped(error) {
  if (error instanceof Failure) return error;
  const cause = error?.cause ?? error;
  if (error instanceof AuthStoreError || cause instanceof AuthStoreError) {
    return unknown('a key could not be written');
  }
  const status = error?.output?.statusCode;
  if (status === CONNECTION_CLOSED) {
    return new Failure(
      'not_connected',
      'the connection to WhatsApp broke before the message was sent',
    );
  }
  if (status === TIMED_OUT) return new Failure('not_connected', 'WhatsApp did not answer in time');
  if (Number.isInteger(error?.data) && error.data >= 400) return refusal(error.data);
  return new Failure('failed', 'the message could not be made or sent');
}

export const newMessageId = () => `3EB0${randomBytes(9).toString('hex').toUpperCase()}`;

export class Outbox {
  #sent;
  #whatsapp;
  #uploads;
  #log;
  #acknowledgeMilliseconds;
  #running = new Map();
  #waiting = new Map();
  #chats = new Map();

  constructor({
    sent,
    whatsapp,
    uploads,
    log,
    acknowledgeMilliseconds = ACKNOWLEDGE_MILLISECONDS,
  }) {
    this.#sent = sent;
    this.#whatsapp = whatsapp;
    this.#uploads = uploads;
    this.#log = log;
    this.#acknowledgeMilliseconds = acknowledgeMilliseconds;
    whatsapp.on('acknowledged', (id, error) => {
      this.#waiting.get(id)?.(error ? refusal(error) : undefined);
    });
    whatsapp.on('closed', () => {
      for (const done of [...this.#waiting.values()])
        done(unknown('the connection to WhatsApp broke'));
    });
  }

  // Sends a message once: an id that was sent is not sent again.
  async send(command) {
    if (this.#sent.has(command.id)) return { id: command.id, repeated: true };
    const content = (deliver) =>
      command.media === undefined
        ? deliver({ text: command.text, linkPreview: null })
        : this.#uploads.use(command.media.ref, (path) => deliver(mediaContent(command, path)));
    await this.#once(command.id, command.to, content, { quote: command.quote, keep: true });
    return { id: command.id, repeated: false };
  }

  // Adds or removes a reaction.
  async react({ to, id, participant, fromBot, emoji }) {
    if (fromBot && !this.#sent.has(id))
      throw new Failure('not_found', 'the bridge has sent no such message');
    const own = newMessageId();
    const key = { remoteJid: to, id, fromMe: fromBot, participant: participant || undefined };
    await this.#once(own, to, (deliver) => deliver({ react: { text: emoji, key } }), {});
    return { id: own, repeated: false };
  }

  #once(id, to, content, options) {
    let task = this.#running.get(id);
    if (task === undefined) {
      this.#whatsapp.checkConnected();
      if (this.#running.size >= AT_ONCE) {
        throw new Failure('rate_limited', 'too many messages at once', { retryAfter: 1 });
      }
      const late = () => unknown('the message was not sent in time');
      task = within(SEND_MILLISECONDS, this.#deliver(id, to, content, options), late).finally(() =>
        this.#running.delete(id),
      );
      task.catch(() => {});
      this.#running.set(id, task);
    }
    return within(ANSWER_MILLISECONDS, task, () => unknown('the message was not sent in time'));
  }

  async #deliver(id, to, content, { quote, keep = false }) {
    const acknowledged = this.#acknowledgement(id);
    try {
      await this.#inOrder(to, () =>
        content(async (body) => {
          // The connection broke while the message waited for its turn.
          if (acknowledged.isDone()) return;
          await this.#whatsapp.checkNumber(to);
          // The acknowledgement, or the end of the connection, may come first.
          const handed = this.#whatsapp.sendMessage(to, body, { id, quote });
          const error = await Promise.race([handed, acknowledged.done]).then(
            () => undefined,
            (reason) => reason,
          );
          handed.catch(() => {});
          // An error after the acknowledgement does not undo the message.
          if (error !== undefined && !acknowledged.isDone()) throw error;
        }),
      );
      await within(this.#acknowledgeMilliseconds, acknowledged.done, () =>
        unknown('WhatsApp has not acknowledged the message'),
      );
    } catch (error) {
      const failure = mapped(error);
      if (failure !== error)
        this.#log.warn('a message was not sent', { error: error?.name, code: failure.code });
      throw failure;
    } finally {
      this.#waiting.delete(id);
    }
    if (keep) this.#record(id);
  }

  #record(id) {
    try {
      this.#sent.add(id);
    } catch (error) {
      // The message was sent. Only a repetition after a restart would not be recognised.
      this.#log.error('the id of a sent message was not kept', { error: error.code });
    }
  }

  #acknowledgement(id) {
    let isDone = false;
    const done = new Promise((resolve, reject) => {
      this.#waiting.set(id, (failure) => {
        isDone = true;
        if (failure === undefined) resolve();
        else reject(failure);
      });
    });
    done.catch(() => {});
    return { done, isDone: () => isDone };
  }

  // Messages of a chat leave in the order in which they were requested.
  #inOrder(to, task) {
    const before = this.#chats.get(to) ?? Promise.resolve();
    const done = before.then(task);
    const after = done
      .catch(() => {})
      .then(() => {
        if (this.#chats.get(to) === after) this.#chats.delete(to);
      });
    this.#chats.set(to, after);
    return done;
  }
}

// The content that Baileys makes a message from. `null` for the preview keeps it from starting
// programs that make one.
function mediaContent({ text, media: { kind, mime, name } }, path) {
  const file = { url: path };
  const caption = text || undefined;
  const mimetype = mime || undefined;
  switch (kind) {
    case 'image':
      return { image: file, caption, mimetype, jpegThumbnail: null };
    case 'video':
      return { video: file, caption, mimetype, jpegThumbnail: null };
    case 'audio':
      return { audio: file, mimetype };
    case 'voice':
      return { audio: file, mimetype: mime || 'audio/ogg; codecs=opus', ptt: true };
    case 'sticker':
      return { sticker: file, mimetype: mime || 'image/webp' };
    default:
      return {
        document: file,
        caption,
        mimetype: mime || 'application/octet-stream',
        fileName: name || 'file',
      };
  }
}
