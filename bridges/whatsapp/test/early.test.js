// The parts of the bridge that rely on the inner order of Baileys, with the real library: it does
// not reach a server, so stanzas are put into its connection by hand.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';

import makeWASocket, {
  encodeWAMessage,
  makeCacheableSignalKeyStore,
  proto,
} from '@whiskeysockets/baileys';
import { WebSocketServer } from 'ws';

import { AuthStore } from '../src/auth.js';
import { readEarly } from '../src/early.js';
import { silentLog } from '../src/log.js';
import { readMessage } from '../src/messages.js';
import { ACCOUNT } from './network.js';
import { folder, real } from './helpers.js';

const quiet = {
  level: 'silent',
  child: () => quiet,
  trace() {},
  debug() {},
  info() {},
  warn() {},
  error() {},
};

// Signal sessions are not needed: what arrives is taken as decrypted.
const signal = () => ({
  decryptMessage: async ({ ciphertext }) => ciphertext,
  decryptGroupMessage: async ({ msg }) => msg,
  validateSession: async () => ({ exists: true }),
  migrateSession: async () => {},
  lidMapping: {
    getLIDForPN: async () => null,
    getPNForLID: async () => null,
    storeLIDPNMappings: async () => {},
  },
});

// A real connection of Baileys to a server that does not answer, and `sent`, which is called at
// each frame that the connection sends.
async function connection(t, sent) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const greeted = new Promise((resolve) => {
    server.on('connection', (client) => client.once('message', resolve));
  });
  const auth = new AuthStore(folder(t), real.auth, silentLog);
  auth.creds.me = ACCOUNT;
  const { creds, keys } = auth.state();
  const socket = makeWASocket({
    auth: { creds, keys: makeCacheableSignalKeyStore(keys, quiet) },
    logger: quiet,
    waWebSocketUrl: `ws://127.0.0.1:${server.address().port}`,
    makeSignalRepository: signal,
  });
  t.after(() => {
    // A wrong answer ends the wait for one, and with it the connection.
    for (const client of server.clients) client.send(Buffer.from([0, 0, 1, 0]));
    server.close();
  });
  // Baileys greets the server at once.
  await greeted;
  const { send } = socket.ws.socket;
  socket.ws.socket.send = function sending(...parts) {
    sent();
    return send.apply(this, parts);
  };
  return socket;
}

const stanza = (attrs, text) => ({
  tag: 'message',
  attrs: { t: '2000', type: 'text', ...attrs },
  content: [
    {
      tag: 'enc',
      attrs: { v: '2', type: 'msg' },
      content: encodeWAMessage(proto.Message.fromObject({ conversation: text })),
    },
  ],
});

const decode = (node) => real.decode(node, ACCOUNT);

const ATTRIBUTES = { id: '3A01', from: '5:2@lid', sender_pn: '6@s.whatsapp.net', notify: 'Ann' };

test('a message is read before its receipt is sent', async (t) => {
  const order = [];
  const socket = await connection(t, () => order.push('sent'));
  const onMessage = (message) => order.push(readMessage(message).frame);
  assert.equal(readEarly(socket, { decode, onMessage }), true);
  const upsert = new Promise((resolve) => socket.ev.on('messages.upsert', resolve));
  socket.ws.emit('CB:message', stanza(ATTRIBUTES, 'hello'));
  const { messages } = await upsert;
  assert.deepEqual(order.slice(0, 2), [
    {
      id: '3A01',
      sender: '5@lid',
      pn: '6@s.whatsapp.net',
      participant: '',
      participantPn: '',
      pushName: 'Ann',
      content: 'hello',
      timestamp: 2000,
      isGroup: false,
      mentionsBot: false,
    },
    'sent',
  ]);
  // The event has the same message under the same key, so it is kept once.
  const early = readMessage({
    ...decode(stanza(ATTRIBUTES, 'hello')),
    message: messages[0].message,
  });
  assert.deepEqual(readMessage(messages[0]), early);
});

test('if a message cannot be kept, Baileys does not go on with it', async (t) => {
  const order = [];
  let answered;
  const answer = new Promise((resolve) => (answered = resolve));
  const socket = await connection(t, () => answered(order.push('sent')));
  const onMessage = () => {
    order.push('refused');
    throw new Error('the disk is full');
  };
  readEarly(socket, { decode, onMessage });
  socket.ev.on('messages.upsert', () => order.push('event'));
  socket.ws.emit('CB:message', stanza(ATTRIBUTES, 'hello'));
  await answer;
  assert.deepEqual(order, ['refused', 'sent']);
});

test('two stanzas with one id are left to the event', () => {
  const listeners = [];
  const seen = [];
  const notes = { addRecentMessage: () => {} };
  const ws = { prependListener: (_, listener) => listeners.push(listener) };
  readEarly(
    { ws, messageRetryManager: notes },
    { decode: ({ attrs }) => attrs, onMessage: (message) => seen.push(message) },
  );
  const arrive = (participant) => listeners[0]({ attrs: { id: 'a', from: 'g', participant } });
  arrive('one');
  arrive('two');
  notes.addRecentMessage('g', 'a', {});
  assert.deepEqual(seen, []);
  listeners[0]({ attrs: { id: 'b', from: 'g', participant: 'one' } });
  notes.addRecentMessage('g', 'b', 'text');
  // Messages of our own are noted, too, and have no stanza.
  notes.addRecentMessage('g', 'b', 'text');
  notes.addRecentMessage('g', 'own', 'text');
  assert.deepEqual(seen, [{ id: 'b', from: 'g', participant: 'one', message: 'text' }]);
});

test('without notes there is only the event', () => {
  assert.equal(readEarly({ ws: {}, messageRetryManager: null }, {}), false);
});
