// Puts the parts of the bridge together.

import fs from 'node:fs';
import { join } from 'node:path';

import { AuthStore } from './auth.js';
import { makeFolder, removeTemporaryFiles, replaceFile } from './disk.js';
import { Downloads } from './downloads.js';
import { Journal } from './journal.js';
import { numbered, readMessage } from './messages.js';
import { Outbox } from './outbox.js';
import { Requests } from './requests.js';
import { SentIds } from './sent.js';
import { Server } from './server.js';
import { Uploads } from './uploads.js';
import { WhatsApp } from './whatsapp.js';

const CLEAN_MILLISECONDS = 60_000;

// The time since which the device is linked, in seconds. A device that the Python program linked
// has none: everything that WhatsApp has kept for it is new.
class LinkTime {
  #path;

  constructor(folder) {
    this.#path = join(folder, 'link.json');
    this.seconds = 0;
    try {
      const { linkedAt } = JSON.parse(fs.readFileSync(this.#path, 'utf8'));
      if (Number.isSafeInteger(linkedAt)) this.seconds = linkedAt;
    } catch {
      // There is none.
    }
  }

  begin() {
    this.seconds = Math.floor(Date.now() / 1000);
    replaceFile(this.#path, JSON.stringify({ linkedAt: this.seconds }));
  }
}

// Starts the bridge and returns `{address, stop}`. `library` is Baileys, or something in its place.
export async function startBridge(settings, { version, library, log, limits, pause }) {
  const { authFolder, dataFolder } = settings;
  makeFolder(dataFolder);
  removeTemporaryFiles(dataFolder);
  const auth = new AuthStore(authFolder, library.auth, log);
  const journal = new Journal(dataFolder, { limits: limits?.journal });
  const sent = new SentIds(dataFolder);
  const link = new LinkTime(dataFolder);
  const files = join(dataFolder, 'files');
  const whatsapp = new WhatsApp({ library, auth, log, pause });
  const downloads = new Downloads(files, journal, (file) => whatsapp.openMedia(file));
  const uploads = new Uploads(files);
  const outbox = new Outbox({ sent, whatsapp, uploads, log, ...limits?.outbox });
  const requests = new Requests({ outbox, whatsapp, downloads, uploads, log });
  const server = new Server({
    ...settings,
    version,
    journal,
    requests,
    whatsapp,
    limits: limits?.server,
  });

  whatsapp.on('linked', () => link.begin());
  whatsapp.on('message', (message) => {
    const read = readMessage(message, {
      own: whatsapp.own,
      phoneOf: (lid) => whatsapp.phoneOf(lid),
      linkedAt: link.seconds,
    });
    if (read === undefined || journal.has(read.key)) return;
    journal.add(read.key, (seq) => numbered(seq, read.frame, read.files));
    for (const jid of [read.frame.sender, read.frame.pn]) if (jid) whatsapp.knows(jid);
    // The receipt goes out first.
    setImmediate(() => server.deliver());
  });

  const address = await server.listen(settings.host, settings.port);
  const cleaning = setInterval(() => {
    Promise.all([downloads.clean(), uploads.clean()]).catch(() =>
      log.warn('files were not removed'),
    );
  }, CLEAN_MILLISECONDS);
  whatsapp.start();
  return {
    address,
    async stop() {
      clearInterval(cleaning);
      whatsapp.stop();
      await server.close();
      journal.close();
      sent.close();
    },
  };
}
