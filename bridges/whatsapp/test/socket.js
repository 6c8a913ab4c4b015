// A connection in the place of Baileys': it has the parts that the bridge uses, and behaves as
// Baileys 7 does, including the order of its events.

import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';

const REFUSALS = { rate_limited: '429', forbidden: '403', not_found: '404' };
const KINDS = ['image', 'video', 'audio', 'document', 'sticker'];

export const closed = (statusCode) =>
  Object.assign(new Error('closed'), { output: { statusCode }, isBoom: true });

const answered = (code) => Object.assign(new Error('refused'), { data: code });

export class FakeSocket {
  #network;
  #options;
  ev = new EventEmitter();
  ws = new EventEmitter();
  messageRetryManager = { addRecentMessage() {} };

  constructor(network, options) {
    this.#network = network;
    this.#options = options;
  }

  // Baileys begins after its caller has had time for adding listeners.
  begin() {
    setImmediate(() => this.#network.begin(this, this.#options.auth.creds));
  }

  update(update) {
    this.ev.emit('connection.update', update);
  }

  setCreds(update) {
    Object.assign(this.#options.auth.creds, update);
    this.ev.emit('creds.update', update);
  }

  close(statusCode) {
    this.update({ connection: 'close', lastDisconnect: { error: closed(statusCode) } });
  }

  // A message arrives: its stanza, its content, and at last the event.
  receive(stanza, message, event) {
    this.ws.emit('CB:message', stanza);
    this.messageRetryManager.addRecentMessage(stanza.attrs.from, stanza.attrs.id, message);
    this.event({ ...event, message });
  }

  event(message, type = 'notify') {
    this.ev.emit('messages.upsert', { messages: [message], type });
  }

  async groupMetadata(jid) {
    const isMember = this.#network.groups.get(jid);
    if (isMember === undefined) throw answered(404);
    if (!isMember) throw answered(403);
    return { id: jid, participants: [] };
  }

  async onWhatsApp(jid) {
    this.#network.lookups.push(jid);
    const exists = this.#network.people.some((person) => `${person.number}@s.whatsapp.net` === jid);
    return exists ? [{ jid, exists }] : [];
  }

  async sendMessage(to, content, { messageId, quoted }) {
    if (to.endsWith('@g.us')) await this.#options.cachedGroupMetadata(to);
    const message = { conversation: content.text ?? '' };
    setImmediate(() => this.#arrive(to, content, messageId, quoted));
    return { key: { id: messageId, remoteJid: to, fromMe: true }, message };
  }

  #arrive(to, content, id, quoted) {
    const { refusal, isLost } = this.#network.takeFault();
    if (refusal) {
      this.#acknowledge(id, REFUSALS[refusal]);
      return;
    }
    if (content.react) this.#network.react(content.react);
    else
      this.#network.show({ id, chat: to, quote: quoted?.key.id ?? null, ...sentContent(content) });
    if (!isLost) this.#acknowledge(id);
  }

  #acknowledge(id, error) {
    const attrs = { class: 'message', id, ...(error ? { error } : {}) };
    this.ws.emit('CB:ack,class:message', { tag: 'ack', attrs });
  }

  async sendPresenceUpdate(kind, chat) {
    this.#network.setTyping(chat, kind === 'composing');
  }

  async readMessages(keys) {
    for (const { id } of keys) this.#network.read.push(id);
  }

  async end() {}
}

function sentContent(content) {
  const kind = KINDS.find((name) => name in content);
  if (kind === undefined) return { text: content.text, file: null };
  const data = readFileSync(content[kind].url).toString('base64');
  const file = {
    kind: content.ptt ? 'voice' : kind,
    mime: content.mimetype ?? '',
    name: content.fileName ?? '',
    data,
  };
  return { text: content.caption ?? '', file };
}
