// The parts of Baileys that the bridge uses. Nothing else imports the library, so tests can put
// something else in its place.

import makeWASocket, {
  BufferJSON,
  decodeMessageNode,
  downloadContentFromMessage,
  fetchLatestWaWebVersion,
  initAuthCreds,
  proto,
} from '@whiskeysockets/baileys';

import { Failure, within } from './failure.js';

const VERSION_MILLISECONDS = 10_000;
const HTTP_GONE = [404, 410];

// Baileys logs keys and texts as objects. Only its constant messages are passed on.
function quietLogger(log) {
  const pass = (level) => (first, text) => {
    if (typeof text === 'string') log[level](`Baileys: ${text.slice(0, 120)}`);
  };
  const logger = {
    level: 'silent',
    child: () => logger,
    trace() {},
    debug() {},
    info() {},
    warn: pass('warn'),
    error: pass('warn'),
  };
  return logger;
}

// A sender chooses the address of a file. Only WhatsApp's own hosts are asked.
export function mediaSource({ url, directPath }) {
  const base = 'https://mmg.whatsapp.net';
  for (const candidate of [directPath.startsWith('/') ? base + directPath : '', url]) {
    try {
      const { protocol, hostname, port, username } = new URL(candidate);
      const isOurs = hostname === 'whatsapp.net' || hostname.endsWith('.whatsapp.net');
      if (protocol === 'https:' && isOurs && port === '' && username === '') return candidate;
    } catch {
      // The next one.
    }
  }
  throw new Failure('not_found', 'the file has no address at WhatsApp');
}

async function openMedia(file, askAgain) {
  const download = (source) => {
    const mediaKey = Buffer.from(source.mediaKey, 'base64');
    return downloadContentFromMessage({ mediaKey, url: mediaSource(source) }, source.type);
  };
  try {
    return await download(file);
  } catch (error) {
    if (error instanceof Failure) throw error;
    if (!HTTP_GONE.includes(error?.output?.statusCode)) {
      throw new Failure('failed', 'the download failed', { cause: error });
    }
  }
  // The sender's device may upload the file again.
  try {
    const { directPath } = await askAgain();
    return await download({ ...file, url: '', directPath });
  } catch {
    throw new Failure('not_found', 'WhatsApp does not have the file any more');
  }
}

// The part of a message that Baileys needs for asking its sender to upload a file again.
function mediaMessage(file) {
  const bytes = (text) => Buffer.from(text, 'base64');
  const content = { url: file.url, directPath: file.directPath, mediaKey: bytes(file.mediaKey) };
  return { key: file.message, message: proto.Message.fromObject({ [file.content]: content }) };
}

export function library(log) {
  return {
    makeSocket: (options) => makeWASocket({ ...options, logger: quietLogger(log) }),

    // The sender's data of a stanza, in the form of a message without content.
    decode: (stanza, me) => decodeMessageNode(stanza, me?.id ?? '', me?.lid ?? '').fullMessage,

    openMedia(connection, file) {
      return openMedia(file, async () => {
        const message = await connection.updateMediaMessage(mediaMessage(file));
        return { directPath: message.message[file.content].directPath ?? '' };
      });
    },

    // The version of WhatsApp Web, asked for only if WhatsApp refuses the built-in one.
    async latestVersion() {
      const task = fetchLatestWaWebVersion({});
      const { version, isLatest } = await within(
        VERSION_MILLISECONDS,
        task,
        () => new Error('no answer'),
      );
      return isLatest ? version : undefined;
    },

    auth: {
      create: initAuthCreds,
      replacer: BufferJSON.replacer,
      reviver: BufferJSON.reviver,
      restore: (type, value) =>
        type === 'app-state-sync-key' ? proto.Message.AppStateSyncKeyData.fromObject(value) : value,
    },
  };
}
