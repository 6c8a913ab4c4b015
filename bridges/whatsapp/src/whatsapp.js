// The connection to WhatsApp: connects, reconnects with growing pauses, links the device by a QR
// code, and passes on messages and acknowledgements.

import { EventEmitter } from 'node:events';

import { BoundedMap } from './bounded.js';
import { readEarly } from './early.js';
import { Failure } from './failure.js';
import { isGroup, isLid, isPerson, userOf, withoutDevice } from './jid.js';
import { describe } from './log.js';

export const CLOSED = {
  loggedOut: 401,
  versionRefused: 405,
  replaced: 440,
  restart: 515,
};

const PAUSE = { first: 1000, most: 60_000, stable: 60_000 };
const QR_MILLISECONDS = 60_000;
const GROUPS = 256;
const GROUP_MILLISECONDS = 5 * 60 * 1000;
const SENT = 512;
const NUMBERS = 1024;

// Events: `status` and `qr` with a frame, `acknowledged` with an id and perhaps an error code,
// `closed`, `message` with a message of WhatsApp, `linked`. The listener of `message` must not
// wait: when it returns, the message is on disk.
export class WhatsApp extends EventEmitter {
  #library;
  #auth;
  #log;
  #pause;
  #connection;
  #version;
  #timer;
  #stableTimer;
  #attempt = 0;
  #stopped = false;
  #status = { status: 'connecting' };
  #qr;
  #groups = new BoundedMap(GROUPS);
  #sent = new BoundedMap(SENT);
  #numbers = new BoundedMap(NUMBERS);

  constructor({ library, auth, log, pause = PAUSE }) {
    super();
    this.#library = library;
    this.#auth = auth;
    this.#log = log;
    this.#pause = pause;
    this.#status = { status: auth.isLinked ? 'connecting' : 'unlinked' };
  }

  // The fields of `ready` and `status`.
  get status() {
    return this.#status.status === 'connected'
      ? { ...this.#status, account: this.account }
      : this.#status;
  }

  get account() {
    const { me } = this.#auth.creds;
    if (!me?.id) return undefined;
    const account = { id: withoutDevice(me.id) };
    if (me.lid) account.lid = withoutDevice(me.lid);
    if (me.name) account.name = me.name;
    return account;
  }

  // The QR code, as long as it is valid.
  get qr() {
    return this.#qr !== undefined && this.#qr.until > Date.now() ? this.#qr.text : undefined;
  }

  // JIDs of the account.
  get own() {
    return [this.account?.id, this.account?.lid].filter(Boolean);
  }

  phoneOf(lid) {
    const user = this.#auth.phoneOf(userOf(lid));
    return user ? `${user}@s.whatsapp.net` : '';
  }

  start() {
    this.#connect();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#stableTimer);
    const connection = this.#connection;
    this.#connection = undefined;
    this.emit('closed');
    Promise.resolve(connection?.end?.(undefined)).catch(() => {});
  }

  #set(status) {
    this.#status = status;
    if (status.status !== 'unlinked') this.#qr = undefined;
    this.emit('status', this.status);
  }

  #connect() {
    if (this.#stopped) return;
    const status = this.#auth.isLinked ? 'connecting' : 'unlinked';
    if (this.#status.status !== status) this.#set({ status });
    let connection;
    try {
      connection = this.#library.makeSocket({
        auth: this.#auth.state(),
        browser: ['nanobot', 'Chrome', '0.1.0'],
        syncFullHistory: false,
        markOnlineOnConnect: false,
        emitOwnEvents: false,
        generateHighQualityLinkPreview: false,
        cachedGroupMetadata: (jid) => this.#group(connection, jid),
        getMessage: async ({ id }) => this.#sent.get(id),
        ...(this.#version ? { version: this.#version } : {}),
      });
    } catch (error) {
      this.#log.error('Baileys did not start', { error: describe(error) });
      this.#closed(undefined);
      return;
    }
    this.#connection = connection;
    this.#listen(connection);
  }

  #listen(connection) {
    const current = (handle) => (value) => {
      if (this.#connection === connection) handle(value);
    };
    const { ev, ws } = connection;
    ev.on(
      'creds.update',
      current(() => this.#saveCreds()),
    );
    ev.on(
      'connection.update',
      current((update) => this.#update(update)),
    );
    ev.on(
      'messages.upsert',
      current(({ messages }) => this.#received(messages)),
    );
    const forget = ({ id }) => this.#groups.delete(id);
    ev.on('groups.update', (groups) => groups.forEach(forget));
    ev.on('group-participants.update', forget);
    ws.on('CB:ack,class:message', ({ attrs }) => this.emit('acknowledged', attrs.id, attrs.error));
    const early = readEarly(connection, {
      decode: (stanza) => this.#library.decode(stanza, this.#auth.creds.me),
      onMessage: (message) => this.emit('message', message),
    });
    if (!early)
      this.#log.warn('messages are kept after their receipt: this Baileys does not note them');
  }

  #saveCreds() {
    try {
      this.#auth.saveCreds();
    } catch (error) {
      this.#log.error('credentials were not written', { error: error.code });
    }
  }

  #received(messages) {
    for (const message of messages) {
      try {
        this.emit('message', message);
      } catch (error) {
        this.#log.error('a message was not kept', { error: error.code ?? error.name });
      }
    }
  }

  #update({ connection, qr, isNewLogin, lastDisconnect }) {
    if (isNewLogin) this.emit('linked');
    if (qr) {
      this.#qr = { text: qr, until: Date.now() + QR_MILLISECONDS };
      if (this.#status.status !== 'unlinked') this.#set({ status: 'unlinked' });
      this.emit('qr', qr);
    }
    if (connection === 'open') {
      this.#stableTimer = setTimeout(() => (this.#attempt = 0), this.#pause.stable);
      this.#stableTimer.unref?.();
      this.#set({ status: 'connected' });
    }
    if (connection === 'close') this.#closed(lastDisconnect?.error);
  }

  #closed(error) {
    this.#connection = undefined;
    clearTimeout(this.#stableTimer);
    this.#groups.clear();
    this.emit('closed');
    if (this.#stopped) return;
    const code = error?.output?.statusCode;
    this.#log.info('the connection to WhatsApp ended', { code: code ?? 0 });
    if (code === CLOSED.replaced) {
      this.#set({ status: 'disconnected', reason: 'replaced', retry: false });
      return;
    }
    if (code === CLOSED.loggedOut) {
      this.#auth.clear();
      this.#sent.clear();
      this.#numbers.clear();
      this.#set({ status: 'unlinked', reason: 'logged_out', retry: true });
    } else {
      this.#set({ status: 'disconnected', reason: reasonOf(code), retry: true });
    }
    if (code === CLOSED.versionRefused) this.#renewVersion();
    this.#reconnect(code === CLOSED.restart || code === CLOSED.loggedOut);
  }

  // A restart that repeats itself is slowed down, too.
  #reconnect(atOnce) {
    const { first, most } = this.#pause;
    const pause = Math.min(most, first * 2 ** this.#attempt) * (0.5 + Math.random() / 2);
    const milliseconds = atOnce && this.#attempt < 3 ? 0 : pause;
    this.#attempt = Math.min(this.#attempt + 1, 16);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), milliseconds);
  }

  #renewVersion() {
    this.#library.latestVersion().then(
      (version) => {
        if (version) this.#version = version;
      },
      () => this.#log.warn('the version of WhatsApp Web is unknown'),
    );
  }

  async #group(connection, jid) {
    const known = this.#groups.get(jid);
    if (known !== undefined && known.until > Date.now()) return known.group;
    const group = await connection.groupMetadata(jid);
    this.#groups.set(jid, { group, until: Date.now() + GROUP_MILLISECONDS });
    return group;
  }

  // Throws the error of a request that needs the connection if there is none.
  checkConnected() {
    if (!this.#auth.isLinked)
      throw new Failure('unlinked', 'no device is linked: scan the QR code');
    if (this.#status.status !== 'connected') {
      throw new Failure('not_connected', 'there is no connection to WhatsApp', { retryAfter: 5 });
    }
    return this.#connection;
  }

  // Throws if a phone number is not at WhatsApp, which would accept a message to it silently.
  async checkNumber(jid) {
    const connection = this.checkConnected();
    if (isGroup(jid) || isLid(jid) || !isPerson(jid) || this.#numbers.has(jid)) return;
    const found = await connection.onWhatsApp(jid).catch(() => undefined);
    if (found === undefined) return;
    if (!found.some(({ exists }) => exists)) {
      throw new Failure('not_found', 'this number is not at WhatsApp');
    }
    this.#numbers.set(jid, true);
  }

  // Notes that a number has written, so that it has not to be looked up.
  knows(jid) {
    this.#numbers.set(jid, true);
  }

  // Hands a message to the connection. It is sent when `acknowledged` comes.
  async sendMessage(to, body, { id, quote }) {
    const connection = this.checkConnected();
    const quoted = quote && {
      key: {
        remoteJid: to,
        id: quote.id,
        participant: quote.participant || undefined,
        fromMe: false,
      },
      message: { conversation: quote.content },
    };
    const message = await connection.sendMessage(to, body, { messageId: id, quoted });
    if (message?.message) this.#sent.set(id, message.message);
  }

  async typing({ to, active }) {
    await this.checkConnected().sendPresenceUpdate(active ? 'composing' : 'paused', to);
  }

  async read({ to, id, participant }) {
    const key = { remoteJid: to, id, participant: participant || undefined, fromMe: false };
    await this.checkConnected().readMessages([key]);
  }

  async openMedia(file) {
    return this.#library.openMedia(this.checkConnected(), file);
  }
}

function reasonOf(code) {
  switch (code) {
    case CLOSED.restart:
      return 'restart';
    case CLOSED.versionRefused:
      return 'WhatsApp refuses this version of the bridge (405)';
    case 403:
      return 'WhatsApp refuses this account (403)';
    case 408:
      return 'WhatsApp did not answer, or the QR code was not scanned (408)';
    default:
      return code ? `the connection broke (${code})` : 'the connection broke';
  }
}
