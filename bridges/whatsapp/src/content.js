// The content of a WhatsApp message: its text, its files, its context.

const TEXT_LENGTH = 65_536;
const LINE_LENGTH = 200;
const CONTACTS = 20;
const WRAPPERS = 6;

// Wrappers around the content proper. Edits and status updates are wrapped, too; they are not sent.
const UNWRAPPED = [
  'ephemeralMessage',
  'viewOnceMessage',
  'viewOnceMessageV2',
  'viewOnceMessageV2Extension',
  'documentWithCaptionMessage',
  'associatedChildMessage',
  'lottieStickerMessage',
  'groupMentionedMessage',
  'botInvokeMessage',
  'deviceSentMessage',
];

// Contents that are no messages of a person, or that change an earlier one.
const IGNORED = new Set([
  'editedMessage',
  'groupStatusMessage',
  'groupStatusMessageV2',
  'groupStatusMentionMessage',
  'statusMentionMessage',
  'protocolMessage',
  'reactionMessage',
  'encReactionMessage',
  'encCommentMessage',
  'encEventResponseMessage',
  'secretEncryptedMessage',
  'keepInChatMessage',
  'pinInChatMessage',
  'pollUpdateMessage',
  'pollResultSnapshotMessage',
  'albumMessage',
  'placeholderMessage',
  'senderKeyDistributionMessage',
  'fastRatchetKeySenderKeyDistributionMessage',
  'messageHistoryBundle',
  'messageHistoryNotice',
  'stickerSyncRmrMessage',
  'callLogMesssage',
]);

// Contents with a file: the kind in our protocol, and the one that WhatsApp derives its keys from.
const MEDIA = {
  imageMessage: { kind: 'image', type: 'image' },
  videoMessage: { kind: 'video', type: 'video' },
  ptvMessage: { kind: 'video', type: 'video' },
  audioMessage: { kind: 'audio', type: 'audio' },
  documentMessage: { kind: 'document', type: 'document' },
  stickerMessage: { kind: 'sticker', type: 'sticker' },
};

const TEXTS = {
  extendedTextMessage: (content) => content.text,
  buttonsResponseMessage: (content) => content.selectedDisplayText,
  templateButtonReplyMessage: (content) => content.selectedDisplayText,
  listResponseMessage: (content) => content.title,
  interactiveResponseMessage: (content) => content.body?.text,
};

const poll = (content) => inBrackets('Poll', content.name);
const location = (content) => {
  const places = [content.degreesLatitude, content.degreesLongitude].map(Number);
  return inBrackets('Location', places.every(Number.isFinite) ? places.join(', ') : '');
};

// Contents that become a line in brackets.
const DESCRIBED = {
  locationMessage: location,
  liveLocationMessage: location,
  contactMessage: (content) => inBrackets('Contact', content.displayName),
  contactsArrayMessage: (content) =>
    (content.contacts ?? [])
      .slice(0, CONTACTS)
      .map((contact) => inBrackets('Contact', contact.displayName))
      .join('\n'),
  pollCreationMessage: poll,
  pollCreationMessageV2: poll,
  pollCreationMessageV3: poll,
  pollCreationMessageV5: poll,
  eventMessage: (content) => inBrackets('Event', content.name),
  groupInviteMessage: (content) => inBrackets('Group invitation', content.groupName),
  productMessage: (content) => inBrackets('Product', content.product?.title),
  orderMessage: (content) => inBrackets('Order', content.orderTitle),
};

// Returns a text without control characters other than tabs and line ends, cut to a length.
export function cleanText(value, length = TEXT_LENGTH) {
  if (typeof value !== 'string') return '';
  const text = value.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');
  return text.length <= length
    ? text
    : (text.slice(0, length).toWellFormed?.() ?? text.slice(0, length));
}

// Returns a text of one line.
export function cleanLine(value, length = LINE_LENGTH) {
  return cleanText(typeof value === 'string' ? value.replace(/\s+/g, ' ').trim() : '', length);
}

function inBrackets(name, value) {
  const text = cleanLine(value).replace(/[[\]]/g, '');
  return text ? `[${name}: ${text}]` : `[${name}]`;
}

// Removes wrappers; returns `undefined` if there are too many.
function unwrap(message) {
  for (let depth = 0; depth < WRAPPERS; depth += 1) {
    const wrapper = UNWRAPPED.find((name) => message?.[name]?.message);
    if (wrapper === undefined) return message ?? undefined;
    message = message[wrapper].message;
  }
  return undefined;
}

function kindOf(message) {
  const names = Object.keys(message).filter(
    (name) => message[name] !== null && message[name] !== undefined,
  );
  if (names.includes('conversation') && message.conversation !== '') return 'conversation';
  if (names.some((name) => IGNORED.has(name) && name !== 'senderKeyDistributionMessage'))
    return undefined;
  return names.find((name) => /Message(V\d)?$/.test(name) && !IGNORED.has(name));
}

function file(kind, content) {
  const bytes = (value) => (value?.length ? Buffer.from(value).toString('base64') : '');
  const { kind: name, type } = MEDIA[kind];
  const size = Number(content.fileLength?.toNumber?.() ?? content.fileLength ?? 0);
  return {
    content: kind,
    type,
    kind: kind === 'audioMessage' && content.ptt ? 'voice' : name,
    mime: cleanLine(content.mimetype, 128),
    name: cleanLine(content.fileName),
    size: Number.isSafeInteger(size) && size >= 0 ? size : 0,
    url: cleanLine(content.url, 2048),
    directPath: cleanLine(content.directPath, 2048),
    mediaKey: bytes(content.mediaKey),
    sha256: bytes(content.fileSha256),
    encryptedSha256: bytes(content.fileEncSha256),
  };
}

// Returns what a message says: `{text, files, context}`, or `undefined` if it is no message of a
// person, such as an edit or a reaction.
export function readContent(wrapped) {
  const message = unwrap(wrapped);
  const kind = message && kindOf(message);
  if (kind === undefined) return undefined;
  const content = message[kind];
  if (kind === 'conversation') return { text: cleanText(content), files: [], context: undefined };
  const context = content.contextInfo ?? undefined;
  if (kind in MEDIA)
    return { text: cleanText(content.caption), files: [file(kind, content)], context };
  if (kind in TEXTS) return { text: cleanText(TEXTS[kind](content) ?? ''), files: [], context };
  const text =
    DESCRIBED[kind]?.(content) ?? inBrackets('Unsupported', kind.replace(/Message(V\d)?$/, ''));
  return { text, files: [], context };
}
