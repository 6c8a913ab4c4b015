// WhatsApp in memory: people, groups, what they see, and the connection of the bridge.

import { randomBytes } from 'node:crypto';

import { decodeMessageNode, proto } from '@whiskeysockets/baileys';

import { FakeSocket } from './socket.js';

export const ACCOUNT = {
  id: '4915000000001:7@s.whatsapp.net',
  lid: '120000000000001:7@lid',
  name: 'nanobot',
};
const ACCOUNT_LID = '120000000000001@lid';
const MEDIA = {
  voice: 'audioMessage',
  image: 'imageMessage',
  video: 'videoMessage',
  audio: 'audioMessage',
};

const seconds = () => Math.floor(Date.now() / 1000);
const newId = () => `3A${randomBytes(9).toString('hex').toUpperCase()}`;
// Messages come as protobufs, of which only set fields are visible.
const wire = (message) =>
  proto.Message.decode(proto.Message.encode(proto.Message.fromObject(message)).finish());

export class Network {
  people = [];
  groups = new Map();
  messages = [];
  reactions = {};
  read = [];
  // The numbers that the bridge has looked up.
  lookups = [];
  connections = 0;
  options;
  typing = new Set();
  #files = new Map();
  #known = new Map();
  #fault = {};
  #waiting = [];
  #socket;
  #mode = 'online';
  #waitsForPhone;

  // The part of the bridge's library that reaches WhatsApp.
  library(real) {
    return {
      auth: real.auth,
      decode: (stanza, me) => decodeMessageNode(stanza, me?.id ?? '', me?.lid ?? '').fullMessage,
      latestVersion: async () => undefined,
      openMedia: async (_, file) => this.#open(file),
      makeSocket: (options) => {
        this.options = options;
        const socket = new FakeSocket(this, options);
        socket.begin();
        return socket;
      },
    };
  }

  async *#open({ directPath }) {
    const bytes = this.#files.get(directPath);
    for (let begin = 0; begin < bytes.length; begin += 65_536)
      yield bytes.subarray(begin, begin + 65_536);
  }

  begin(socket, creds) {
    this.#socket = socket;
    this.connections += 1;
    if (this.#mode !== 'online') {
      socket.close(408);
      return;
    }
    if (!creds.me) {
      this.#waitsForPhone = socket;
      socket.update({ qr: `2@${randomBytes(12).toString('base64')},key,key,secret` });
      return;
    }
    socket.update({ connection: 'open' });
    for (const message of this.#waiting.splice(0)) this.#deliver(message, 'append');
  }

  link() {
    const socket = this.#waitsForPhone;
    socket.setCreds({ me: ACCOUNT });
    socket.update({ isNewLogin: true });
    socket.close(515);
  }

  setOnline() {
    this.#mode = 'online';
  }

  disconnect(statusCode, mode = 'offline') {
    this.#mode = mode;
    this.#socket.close(statusCode);
  }

  changeGroup(id) {
    this.#socket.ev.emit('group-participants.update', { id, participants: [], action: 'remove' });
  }

  failNext(fault) {
    this.#fault = fault;
  }

  takeFault() {
    const fault = this.#fault;
    this.#fault = {};
    return fault;
  }

  show(message) {
    this.setTyping(message.chat, false);
    if (this.messages.some(({ id }) => id === message.id)) return;
    this.messages.push(message);
    this.#known.set(message.id, {
      participant: ACCOUNT_LID,
      message: { conversation: message.text },
    });
  }

  react({ text, key }) {
    if (text) this.reactions[key.id] = text;
    else delete this.reactions[key.id];
  }

  setTyping(chat, isActive) {
    if (isActive) this.typing.add(chat);
    else this.typing.delete(chat);
  }

  person(number) {
    return this.people.find((person) => person.number === number);
  }

  // A person writes; returns the id.
  says(order) {
    const person = this.person(order.from);
    const message = this.#content(order);
    const sent = { id: newId(), person, order, message, time: seconds() };
    this.#known.set(sent.id, { participant: `${person.lid}@lid`, message, sent });
    if (this.#mode === 'online') this.#deliver(sent, 'notify');
    else this.#waiting.push(sent);
    return sent.id;
  }

  // WhatsApp sends a message again.
  repeat(id) {
    const { sent } = this.#known.get(id);
    this.#deliver(sent, 'notify');
    this.#deliver(sent, 'append');
  }

  #content({ text = '', mention, quote, file, special }) {
    const quoted = this.#known.get(quote);
    const context = {
      ...(mention ? { mentionedJid: [ACCOUNT_LID] } : {}),
      ...(quoted
        ? { stanzaId: quote, participant: quoted.participant, quotedMessage: quoted.message }
        : {}),
    };
    if (special?.location) {
      const [degreesLatitude, degreesLongitude] = special.location;
      return wire({ locationMessage: { degreesLatitude, degreesLongitude } });
    }
    if (special?.contact)
      return wire({ contactMessage: { displayName: special.contact, vcard: 'x' } });
    if (special?.poll) return wire({ pollCreationMessageV3: { name: special.poll } });
    if (file) return wire(this.#fileContent(file, text));
    const content = mention ? `@${ACCOUNT_LID.split('@')[0]} ${text}` : text;
    if (!mention && !quoted) return wire({ conversation: content });
    // A chat with messages that disappear wraps all of them.
    return wire({
      ephemeralMessage: {
        message: { extendedTextMessage: { text: content, contextInfo: context } },
      },
    });
  }

  #fileContent({ kind, mime, name, data }, caption) {
    const bytes = Buffer.from(data, 'base64');
    const directPath = `/v/${newId()}`;
    this.#files.set(directPath, bytes);
    const content = {
      mimetype: mime,
      directPath,
      fileLength: bytes.length,
      mediaKey: randomBytes(32),
    };
    if (caption) content.caption = caption;
    if (kind === 'document') {
      const document = { documentMessage: { ...content, fileName: name } };
      return caption ? { documentWithCaptionMessage: { message: document } } : document;
    }
    return { [MEDIA[kind]]: { ...content, ...(kind === 'voice' ? { ptt: true } : {}) } };
  }

  #deliver({ id, person, order, message, time }, type) {
    const number = `${person.number}@s.whatsapp.net`;
    const lid = `${person.lid}@lid`;
    const attrs = { id, t: String(time), notify: person.name };
    if (order.chat)
      Object.assign(attrs, {
        from: order.chat,
        participant: lid,
        participant_pn: number,
        addressing_mode: 'lid',
      });
    else if (order.byLid)
      Object.assign(attrs, { from: lid, sender_pn: number, addressing_mode: 'lid' });
    else Object.assign(attrs, { from: number });
    const stanza = { tag: 'message', attrs };
    const event = decodeMessageNode(stanza, ACCOUNT.id, ACCOUNT.lid).fullMessage;
    if (type === 'append') this.#socket.event({ ...event, message }, type);
    else this.#socket.receive(stanza, message, event);
  }

  // Events that are no new messages of people.
  noise({ from }) {
    const chat = `${this.person(from).number}@s.whatsapp.net`;
    const key = { remoteJid: chat, id: 'earlier', fromMe: false };
    const noises = [
      [
        {
          protocolMessage: { key, type: 'MESSAGE_EDIT', editedMessage: { conversation: 'edited' } },
        },
      ],
      [
        {
          editedMessage: {
            message: { protocolMessage: { key, editedMessage: { conversation: 'edited' } } },
          },
        },
      ],
      [{ protocolMessage: { key, type: 'REVOKE' } }],
      [{ reactionMessage: { key, text: 'x' } }],
      [{ conversation: 'a status' }, { remoteJid: 'status@broadcast', participant: chat }],
      [{ conversation: 'by the phone' }, { fromMe: true }],
      [{ conversation: 'old' }, {}, seconds() - 3600],
    ];
    for (const [message, other = {}, messageTimestamp = seconds()] of noises) {
      const event = {
        key: { remoteJid: chat, id: newId(), fromMe: false, ...other },
        messageTimestamp,
      };
      this.#socket.event({ ...event, message: wire(message) });
    }
    this.#socket.event({
      key: { remoteJid: chat, id: newId(), fromMe: false },
      messageStubType: 2,
    });
  }

  get seen() {
    const { messages, reactions, read } = this;
    return { messages, reactions, read, typing: [...this.typing] };
  }
}
