// Addresses of WhatsApp (JIDs): `user:device@server`.

const CHAT = /^[0-9]{1,32}(-[0-9]{1,32})?@(s\.whatsapp\.net|lid|g\.us)$/;
const PERSON = /^[0-9]{1,32}@(s\.whatsapp\.net|lid)$/;

export const isChat = (jid) => typeof jid === 'string' && CHAT.test(jid);
export const isPerson = (jid) => typeof jid === 'string' && PERSON.test(jid);
export const isGroup = (jid) => jid.endsWith('@g.us');
export const isLid = (jid) => jid.endsWith('@lid');

const SERVERS = { 'c.us': 's.whatsapp.net', hosted: 's.whatsapp.net', 'hosted.lid': 'lid' };

// Returns a JID without its device, or '' if it is none.
export function withoutDevice(jid) {
  if (typeof jid !== 'string' || jid.length > 128) return '';
  const at = jid.indexOf('@');
  if (at < 1) return '';
  const user = jid.slice(0, at).split(/[:_]/, 1)[0];
  const server = jid.slice(at + 1);
  return `${user}@${SERVERS[server] ?? server}`;
}

export const userOf = (jid) => jid.slice(0, jid.indexOf('@'));
