import assert from 'node:assert/strict';
import { test } from 'node:test';

import { proto } from '@whiskeysockets/baileys';

import { mediaSource } from '../src/baileys.js';
import { numbered, readMessage } from '../src/messages.js';

const ANN = '4915111111111@s.whatsapp.net';
const LID = '774915111111111@lid';
const GROUP = '120363000000000001@g.us';
const OWN = ['4915000000001@s.whatsapp.net', '120000000000001@lid'];
const OPTIONS = { own: OWN, phoneOf: (lid) => (lid === LID ? ANN : ''), linkedAt: 1000 };

const wire = (message) =>
  proto.Message.decode(proto.Message.encode(proto.Message.fromObject(message)).finish());
const received = (message, key = {}, rest = {}) =>
  readMessage(
    {
      key: { remoteJid: ANN, id: '3A01', fromMe: false, ...key },
      message: wire(message),
      messageTimestamp: 2000,
      ...rest,
    },
    OPTIONS,
  );
const text = (message) => received(message)?.frame.content;
const nested = (message, depth) =>
  depth === 0 ? message : { ephemeralMessage: { message: nested(message, depth - 1) } };

test('a direct message', () => {
  const read = received(
    { conversation: 'hello' },
    { remoteJid: '4915111111111:3@s.whatsapp.net' },
    { pushName: 'Ann\n' },
  );
  assert.deepEqual(read, {
    key: `${ANN}  3A01`,
    frame: {
      id: '3A01',
      sender: ANN,
      pn: '',
      participant: '',
      participantPn: '',
      pushName: 'Ann',
      content: 'hello',
      timestamp: 2000,
      isGroup: false,
      mentionsBot: false,
    },
    files: [],
  });
});

test('persons have a LID, a number, or both', () => {
  const table = [
    [{ remoteJid: LID, remoteJidAlt: ANN }, [LID, ANN, '', '']],
    [{ remoteJid: LID }, [LID, ANN, '', '']],
    [{ remoteJid: '5@lid' }, ['5@lid', '', '', '']],
    [{ remoteJid: '5@lid', remoteJidAlt: '6@lid' }, ['5@lid', '', '', '']],
    [{ remoteJid: '5@hosted.lid' }, ['5@lid', '', '', '']],
    [{ remoteJid: '4915111111111@c.us' }, [ANN, '', '', '']],
    [{ remoteJid: GROUP, participant: LID, participantAlt: ANN }, [GROUP, '', LID, ANN]],
    [{ remoteJid: GROUP, participant: ANN, participantAlt: LID }, [GROUP, '', ANN, '']],
    [{ remoteJid: '99@broadcast', participant: LID, participantAlt: ANN }, [LID, ANN, '', '']],
  ];
  for (const [key, expected] of table) {
    const { sender, pn, participant, participantPn } = received({ conversation: 'x' }, key).frame;
    assert.deepEqual([sender, pn, participant, participantPn], expected, JSON.stringify(key));
  }
});

test('what is no message of a person in a chat is not sent', () => {
  const x = { conversation: 'x' };
  const key = { remoteJid: ANN, id: 'before', fromMe: false };
  const nothing = [
    received(x, { fromMe: true }),
    received(x, { remoteJid: 'status@broadcast', participant: ANN }),
    received(x, { remoteJid: '1@newsletter' }),
    received(x, { remoteJid: GROUP }),
    received(x, { remoteJid: GROUP, participant: OWN[1] }),
    received(x, { remoteJid: '../../x@lid' }),
    received(x, { remoteJid: undefined }),
    received(x, { id: '' }),
    received(x, { id: 'a b' }),
    received(x, {}, { messageTimestamp: 900 }),
    received({}),
    received({ conversation: '' }),
    received({ protocolMessage: { key, type: 'REVOKE' } }),
    received({ protocolMessage: { key, type: 'MESSAGE_EDIT', editedMessage: x } }),
    received({ editedMessage: { message: { protocolMessage: { key, editedMessage: x } } } }),
    received({ reactionMessage: { key, text: 'x' } }),
    received({ pollUpdateMessage: { pollCreationMessageKey: key } }),
    received({ senderKeyDistributionMessage: { groupId: GROUP } }),
    received({ groupStatusMessageV2: { message: x } }),
    received(nested(x, 6)),
    readMessage({ key }, OPTIONS),
    readMessage(null, OPTIONS),
  ];
  assert.deepEqual(
    nothing,
    nothing.map(() => undefined),
  );
  // A clock may be wrong by a minute.
  assert.equal(received(x, {}, { messageTimestamp: 940 })?.frame.content, 'x');
});

test('texts and lines in brackets', () => {
  const table = [
    [{ extendedTextMessage: { text: 'a text' } }, 'a text'],
    [{ conversation: 'a\u0000b\u001b[31m\tc\n' }, 'ab[31m\tc\n'],
    [nested({ conversation: 'inside' }, 5), 'inside'],
    [{ viewOnceMessageV2: { message: { extendedTextMessage: { text: 'once' } } } }, 'once'],
    [{ conversation: 'and a key', senderKeyDistributionMessage: { groupId: GROUP } }, 'and a key'],
    [
      { locationMessage: { degreesLatitude: 52.5, degreesLongitude: 13.4 } },
      '[Location: 52.5, 13.4]',
    ],
    [{ locationMessage: {} }, '[Location: 0, 0]'],
    [{ contactMessage: { displayName: 'Ann]\n[x' } }, '[Contact: Ann x]'],
    [
      { contactsArrayMessage: { contacts: [{ displayName: 'Ann' }, { displayName: 'Ben' }] } },
      '[Contact: Ann]\n[Contact: Ben]',
    ],
    [{ pollCreationMessageV3: { name: 'lunch?' } }, '[Poll: lunch?]'],
    [{ eventMessage: { name: 'party' } }, '[Event: party]'],
    [{ groupInviteMessage: { groupName: 'friends' } }, '[Group invitation: friends]'],
    [{ invoiceMessage: { note: 'pay' } }, '[Unsupported: invoice]'],
  ];
  for (const [message, expected] of table) assert.equal(text(message), expected);
});

test('texts are bounded', () => {
  const long = received(
    { conversation: 'x'.repeat(70_000) },
    {},
    { pushName: 'n'.repeat(1000) },
  ).frame;
  assert.deepEqual([long.content.length, long.pushName.length], [65_536, 200]);
  const pair = text({ conversation: `${'x'.repeat(65_535)}😀` });
  assert.equal(pair.isWellFormed?.() ?? true, true);
});

test('mentions and quotes', () => {
  const group = { remoteJid: GROUP, participant: LID };
  const withContext = (contextInfo) =>
    received({ extendedTextMessage: { text: 'x', contextInfo } }, group).frame;
  for (const [mentionedJid, expected] of [
    [[OWN[0]], true],
    [[OWN[1]], true],
    [['4915000000001:7@s.whatsapp.net'], true],
    [[ANN, 'x', ''], false],
    [[], false],
  ]) {
    assert.equal(withContext({ mentionedJid }).mentionsBot, expected, mentionedJid.join());
  }
  const quotedMessage = { imageMessage: { caption: 'earlier' } };
  assert.deepEqual(withContext({ stanzaId: '3EB1', participant: OWN[1], quotedMessage }).quoted, {
    id: '3EB1',
    participant: OWN[1],
    fromBot: true,
    content: 'earlier',
  });
  assert.deepEqual(withContext({ stanzaId: '3EB2', participant: ANN }).quoted, {
    id: '3EB2',
    participant: ANN,
    fromBot: false,
    content: '',
  });
  assert.equal(withContext({ stanzaId: 'x y', participant: ANN }).quoted, undefined);
});

test('files', () => {
  const mediaKey = Buffer.alloc(32, 1);
  const file = { mimetype: 'a/b', fileLength: 12345, directPath: '/v/x', mediaKey };
  const table = [
    [{ imageMessage: { ...file, caption: 'look' } }, 'image', '', 'look'],
    [{ videoMessage: file }, 'video', '', ''],
    [{ ptvMessage: file }, 'video', '', ''],
    [{ audioMessage: file }, 'audio', '', ''],
    [{ audioMessage: { ...file, ptt: true } }, 'voice', '', ''],
    [{ stickerMessage: file }, 'sticker', '', ''],
    [
      {
        documentWithCaptionMessage: {
          message: { documentMessage: { ...file, fileName: 'a.pdf', caption: 'read' } },
        },
      },
      'document',
      'a.pdf',
      'read',
    ],
  ];
  for (const [message, kind, name, caption] of table) {
    const { frame, files } = received(message);
    const complete = numbered(17, frame, files).frame;
    assert.equal(complete.content, caption);
    assert.deepEqual(complete.media, [{ ref: 'm17-0', kind, mime: 'a/b', name, size: 12345 }]);
    assert.equal(files[0].mediaKey, mediaKey.toString('base64'));
    assert.deepEqual(files[0].message, {
      remoteJid: ANN,
      participant: undefined,
      id: '3A01',
      fromMe: false,
    });
  }
  const huge = received({ imageMessage: { fileLength: '18446744073709551615' } });
  assert.equal(huge.files[0].size, 0);
});

test('files are downloaded from WhatsApp only', () => {
  const own = 'https://mmg.whatsapp.net/v/x?y=1';
  assert.equal(mediaSource({ url: '', directPath: '/v/x?y=1' }), own);
  assert.equal(mediaSource({ url: own, directPath: '' }), own);
  assert.equal(
    mediaSource({ url: 'https://evil.example/x', directPath: '/v/x' }),
    'https://mmg.whatsapp.net/v/x',
  );
  for (const [url, directPath] of [
    ['https://evil.example/x', ''],
    ['https://evilwhatsapp.net/x', ''],
    ['http://mmg.whatsapp.net/x', ''],
    ['https://a@mmg.whatsapp.net/x', ''],
    ['https://mmg.whatsapp.net:8443/x', ''],
    ['', '@evil.example/x'],
    ['', '.evil.example/x'],
    ['', ''],
  ]) {
    assert.throws(
      () => mediaSource({ url, directPath }),
      { code: 'not_found' },
      `${url} ${directPath}`,
    );
  }
});
