// Frames of a client: parsed and checked. What passes has the types and the lengths that the rest
// of the bridge relies on.

import { Failure, invalid } from './failure.js';
import { isChat, isPerson } from './jid.js';

const TEXT = 65_536;
const QUOTE = 4096;
const CONFIRMED = 1024;
const KINDS = new Set(['image', 'video', 'audio', 'voice', 'document', 'sticker']);
const SENT_ID = /^3EB0[0-9A-F]{16,28}$/;
const ID = /^[\x21-\x7e]{1,128}$/;
const REF = /^[A-Za-z0-9_-]{1,64}$/;
const MIME = /^[\x20-\x7e]{1,255}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

const isText = (value, length) =>
  typeof value === 'string' && (value.length <= length || [...value].length <= length);

function checkText(value, name) {
  check(typeof value === 'string', `\`${name}\` must be a text`);
  if (!isText(value, TEXT))
    throw new Failure('too_large', `\`${name}\` has more than 65,536 characters`);
}

function check(condition, text) {
  if (!condition) throw invalid(text);
}

const isOffset = (value) => Number.isSafeInteger(value) && value >= 0;
const isRequest = (value) => isText(value, 128) && value !== '';
const isAbsent = (value) => value === undefined || value === null;

function requestId(frame) {
  check(isRequest(frame.requestId), '`requestId` must be a text');
  return frame.requestId;
}

function chat(value) {
  check(isChat(value), '`to` is no chat');
  return value;
}

function participant(value) {
  if (isAbsent(value) || value === '') return '';
  check(isPerson(value), '`participant` is no person');
  return value;
}

function messageId(value) {
  check(typeof value === 'string' && ID.test(value), '`id` is no id of a message');
  return value;
}

function quote(value) {
  if (isAbsent(value)) return undefined;
  check(typeof value === 'object', '`quote` must be an object');
  const content = value.content ?? '';
  checkText(content, 'content');
  return {
    id: messageId(value.id),
    participant: participant(value.participant),
    content: content.slice(0, QUOTE),
  };
}

function media(value) {
  if (isAbsent(value)) return undefined;
  check(typeof value === 'object', '`media` must be an object');
  check(typeof value.ref === 'string' && REF.test(value.ref), '`ref` is no reference');
  check(KINDS.has(value.kind), '`kind` is no kind of a file');
  const { mime = '', name = '' } = value;
  check(
    mime === '' || (typeof mime === 'string' && MIME.test(mime)),
    '`mime` is no type of a file',
  );
  check(isText(name, 255), '`name` is no name of a file');
  return {
    ref: value.ref,
    kind: value.kind,
    mime,
    name: name.replace(/[\u0000-\u001f\u007f/\\]/g, '_'),
  };
}

const COMMANDS = {
  ack({ seq }) {
    check(
      Array.isArray(seq) && seq.length <= CONFIRMED,
      '`seq` must be a list of at most 1024 numbers',
    );
    check(seq.every(isOffset), '`seq` must have numbers');
    return { seq };
  },

  fetch(frame) {
    check(typeof frame.ref === 'string' && REF.test(frame.ref), '`ref` is no reference');
    check(isOffset(frame.offset), '`offset` is no number');
    return { requestId: requestId(frame), ref: frame.ref, offset: frame.offset };
  },

  upload(frame) {
    check(typeof frame.ref === 'string' && REF.test(frame.ref), '`ref` is no reference');
    check(isOffset(frame.offset), '`offset` is no number');
    check(typeof frame.data === 'string' && BASE64.test(frame.data), '`data` is no base64');
    const data = Buffer.from(frame.data, 'base64');
    return { requestId: requestId(frame), ref: frame.ref, offset: frame.offset, data };
  },

  send(frame) {
    check(
      typeof frame.id === 'string' && SENT_ID.test(frame.id),
      '`id` has not the form of a new id',
    );
    const text = frame.text ?? '';
    checkText(text, 'text');
    const file = media(frame.media);
    check(text !== '' || file !== undefined, 'there is nothing to send');
    const to = chat(frame.to);
    return {
      requestId: requestId(frame),
      id: frame.id,
      to,
      text,
      quote: quote(frame.quote),
      media: file,
    };
  },

  typing(frame) {
    check(typeof frame.active === 'boolean', '`active` must be true or false');
    return { to: chat(frame.to), active: frame.active };
  },

  read(frame) {
    return {
      to: chat(frame.to),
      id: messageId(frame.id),
      participant: participant(frame.participant),
    };
  },

  react(frame) {
    check(isText(frame.emoji, 32), '`emoji` must be a short text');
    check(
      isAbsent(frame.fromBot) || typeof frame.fromBot === 'boolean',
      '`fromBot` must be true or false',
    );
    return {
      requestId: requestId(frame),
      to: chat(frame.to),
      id: messageId(frame.id),
      participant: participant(frame.participant),
      fromBot: frame.fromBot ?? false,
      emoji: frame.emoji,
    };
  },
};

// Parses the text of a frame to an object, or throws.
export function parseFrame(text) {
  let frame;
  try {
    frame = JSON.parse(text);
  } catch {
    throw invalid('the frame is no JSON');
  }
  check(
    frame !== null && typeof frame === 'object' && !Array.isArray(frame),
    'the frame is no object',
  );
  check(typeof frame.type === 'string', '`type` must be a text');
  return frame;
}

// The request id of a frame that may be wrong otherwise.
export const requestIdOf = (frame) => (isRequest(frame?.requestId) ? frame.requestId : undefined);

// Returns the checked command of a frame of version 2, or throws.
export function readCommand(frame) {
  check(Object.hasOwn(COMMANDS, frame.type), 'there is no such type');
  return { type: frame.type, ...COMMANDS[frame.type](frame) };
}

// Returns the checked command of a frame of version 1: it can only send texts.
export function readFirstVersion(frame) {
  check(frame.type === 'send', 'there is no such type in version 1');
  checkText(frame.text, 'text');
  check(frame.text !== '', 'there is nothing to send');
  return { type: 'send', to: chat(frame.to), text: frame.text };
}
