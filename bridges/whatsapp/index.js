// The WhatsApp bridge: see PROTOCOL.md and README.md.

import { closeConsole, stderrLog } from './src/log.js';
import { run } from './src/process.js';

closeConsole();
await run({
  log: stderrLog(),
  makeLibrary: async (log) => (await import('./src/baileys.js')).library(log),
});
