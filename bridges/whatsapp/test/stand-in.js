// The bridge with a stand-in for WhatsApp: everything is real but the connection of Baileys. It is
// driven by JSON lines on standard input, which scripts/check_whatsapp_bridge.py describes.

import fs from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { startBridge } from '../src/bridge.js';
import { library } from '../src/baileys.js';
import { closeConsole, stderrLog } from '../src/log.js';
import { PROTOCOL } from '../src/server.js';
import { readSettings } from '../src/settings.js';
import { ACCOUNT, Network } from './network.js';

const CLOSED = { loggedOut: 401, lost: 428, replaced: 440 };

closeConsole();
process.umask(0o077);
const log = stderrLog();
const settings = readSettings(process.env);
const real = library(log);
const network = new Network();
const options = {
  version: '0.1.0',
  library: network.library(real),
  log,
  limits: { outbox: { acknowledgeMilliseconds: 300 } },
  pause: { first: 20, most: 100, stable: 60_000 },
};

// The device is linked, since a short time ago.
function prepare() {
  fs.mkdirSync(settings.authFolder, { recursive: true });
  fs.mkdirSync(settings.dataFolder, { recursive: true });
  const creds = { ...real.auth.create(), me: ACCOUNT };
  fs.writeFileSync(
    join(settings.authFolder, 'creds.json'),
    JSON.stringify(creds, real.auth.replacer),
  );
  const linkedAt = Math.floor(Date.now() / 1000) - 1;
  fs.writeFileSync(join(settings.dataFolder, 'link.json'), JSON.stringify({ linkedAt }));
}

let bridge;

const ORDERS = {
  person: ({ number, lid, name }) => void network.people.push({ number, lid, name }),
  group: ({ id, member }) => void network.groups.set(id, member),
  says: (order) => ({ id: network.says(order) }),
  noise: (order) => network.noise(order),
  refuses: ({ code }) => network.failNext({ refusal: code }),
  loses: () => network.failNext({ isLost: true }),
  offline: () => network.disconnect(CLOSED.lost),
  online: () => network.setOnline(),
  replace: () => network.disconnect(CLOSED.replaced),
  unlink: () => network.disconnect(CLOSED.loggedOut, 'online'),
  link: () => network.link(),
  restart: async () => {
    await bridge.stop();
    network.setOnline();
    bridge = await startBridge(settings, options);
    return where();
  },
  seen: () => network.seen,
};

const where = () => ({ listening: bridge.address, protocol: PROTOCOL });
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

prepare();
bridge = await startBridge(settings, options);
say(where());
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  say((await ORDERS[order.phone](order)) ?? {});
}
await bridge.stop();
process.exit(0);
