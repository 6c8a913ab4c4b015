// Reads messages before Baileys confirms them to WhatsApp.
//
// Baileys 7 sends its receipt first and the event afterwards, during a catch-up up to half a minute
// later. A crash in between would lose a message that WhatsApp regards as delivered. But Baileys
// notes each decrypted message for retries right before the receipt, and this module takes it from
// there, with the sender's data from the stanza. If a future version of Baileys does not note
// messages, they come by the event only.

import { BoundedMap } from './bounded.js';

const STANZAS = 1024;
const TWICE = Symbol('two stanzas with one name');

// Calls `onMessage` with each message of a connection as soon as it is decrypted. It works without
// waiting: when it returns, the message is on disk. If it throws, Baileys sends no receipt.
export function readEarly(connection, { decode, onMessage }) {
  const notes = connection.messageRetryManager;
  if (typeof notes?.addRecentMessage !== 'function') return false;
  const stanzas = new BoundedMap(STANZAS);
  const name = (from, id) => `${from} ${id}`;

  connection.ws.prependListener('CB:message', (stanza) => {
    const key = name(stanza.attrs?.from, stanza.attrs?.id);
    // Two persons of a group can choose one id. The event knows whose message it is.
    stanzas.set(key, stanzas.has(key) ? TWICE : stanza);
  });

  const note = notes.addRecentMessage.bind(notes);
  notes.addRecentMessage = (to, id, message) => {
    note(to, id, message);
    const stanza = stanzas.get(name(to, id));
    if (stanza === undefined || stanza === TWICE) return;
    stanzas.delete(name(to, id));
    onMessage({ ...decode(stanza), message });
  };
  return true;
}
