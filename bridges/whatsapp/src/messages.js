// Makes a frame of our protocol from a message of WhatsApp.

import { cleanLine, cleanText, readContent } from './content.js';
import { isChat, isGroup, isLid, isPerson, userOf, withoutDevice } from './jid.js';

const QUOTE_LENGTH = 4096;
const MENTIONS = 1024;
const ID = /^[\x21-\x7e]{1,128}$/;
// Clocks of the server and of this machine may differ a little.
const CLOCK_SKEW_SECONDS = 60;

function seconds(value) {
  const number = Number(value?.toNumber?.() ?? value ?? 0);
  return Number.isSafeInteger(number) && number >= 0 ? number : 0;
}

// Resolves the persons of a message: each has a LID, a phone number, or both.
function persons(key, phoneOf) {
  const remote = withoutDevice(key.remoteJid);
  const phone = (jid, other) => {
    if (!isLid(jid)) return '';
    const known = withoutDevice(other) || phoneOf(jid);
    return isPerson(known) && !isLid(known) ? known : '';
  };
  const participant = withoutDevice(key.participant);
  if (isGroup(remote)) {
    if (!isPerson(participant)) return undefined;
    const participantPn = phone(participant, key.participantAlt);
    return { sender: remote, pn: '', participant, participantPn };
  }
  // A broadcast list reaches a person in the direct chat with its owner.
  const isList = remote.endsWith('@broadcast') && remote !== 'status@broadcast';
  const sender = isList ? participant : remote;
  if (!isPerson(sender)) return undefined;
  const alternative = isList ? key.participantAlt : key.remoteJidAlt;
  return { sender, pn: phone(sender, alternative), participant: '', participantPn: '' };
}

const isOneOf = (jid, own) => {
  const user = withoutDevice(jid);
  return user !== '' && own.some((known) => userOf(known) === userOf(user));
};

function quoted(context, own) {
  const id = context?.stanzaId;
  if (typeof id !== 'string' || !ID.test(id)) return undefined;
  const participant = withoutDevice(context.participant);
  const content = readContent(context.quotedMessage);
  return {
    id,
    participant: isPerson(participant) ? participant : '',
    fromBot: isOneOf(participant, own),
    content: cleanText(content?.text ?? '', QUOTE_LENGTH),
  };
}

// Returns `{key, frame, files}` of a message, or `undefined` if it is not for a client. `own` is
// the list of the account's JIDs, `phoneOf` finds the phone number of a LID, `linkedAt` is the time
// since which the device is linked.
export function readMessage(message, { own = [], phoneOf = () => '', linkedAt = 0 } = {}) {
  const key = message?.key;
  if (!key || key.fromMe || typeof key.id !== 'string' || !ID.test(key.id)) return undefined;
  const who = persons(key, phoneOf);
  if (who === undefined || !isChat(who.sender)) return undefined;
  if (isOneOf(who.participant || who.sender, own)) return undefined;
  const timestamp = seconds(message.messageTimestamp);
  if (timestamp + CLOCK_SKEW_SECONDS < linkedAt) return undefined;
  const content = readContent(message.message);
  if (content === undefined || (content.text === '' && content.files.length === 0))
    return undefined;
  const mentioned = content.context?.mentionedJid;
  const mentions = Array.isArray(mentioned) ? mentioned.slice(0, MENTIONS) : [];
  const frame = {
    id: key.id,
    ...who,
    pushName: cleanLine(message.pushName),
    content: content.text,
    timestamp,
    isGroup: isGroup(who.sender),
    mentionsBot: mentions.some((jid) => isOneOf(jid, own)),
  };
  const quote = quoted(content.context, own);
  if (quote !== undefined) frame.quoted = quote;
  return {
    key: `${who.sender} ${who.participant} ${key.id}`,
    frame,
    files: content.files.map((file) => ({ ...file, message: messageKey(key) })),
  };
}

// WhatsApp needs the key of a message for asking its sender to upload a file again.
function messageKey({ remoteJid, participant, id }) {
  return { remoteJid, participant: participant || undefined, id, fromMe: false };
}

// Adds the files of a message to its frame, under references that contain its number.
export function numbered(seq, frame, files) {
  const media = files.map(({ kind, mime, name, size }, index) => ({
    ref: `m${seq}-${index}`,
    kind,
    mime,
    name,
    size,
  }));
  return { frame: { ...frame, media }, files };
}
