// The process: starts the bridge, says where it listens, and ends with its supervisor.

import fs from 'node:fs';
import { join } from 'node:path';

import { startBridge } from './bridge.js';
import { describe } from './log.js';
import { PROTOCOL } from './server.js';
import { readSettings, SettingsError } from './settings.js';

const { version } = JSON.parse(
  fs.readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
);

const EXIT = { ended: 0, failed: 1, settings: 2 };
const STOP_MILLISECONDS = 5000;

// Runs the bridge until it is told to end. `onInput` reads standard input, which the supervised
// bridge only watches for its end.
export async function run({ log, makeLibrary, onInput, ...options }) {
  process.umask(0o077);
  let settings;
  try {
    settings = readSettings(process.env);
  } catch (error) {
    log.error(error instanceof SettingsError ? error.message : describe(error));
    process.exit(EXIT.settings);
  }
  // The token is not passed on to anything that is started later.
  delete process.env.BRIDGE_TOKEN;
  // Baileys puts files that it encrypts into the system's folder of temporary files.
  const temporary = join(settings.dataFolder, 'temporary');
  process.on('unhandledRejection', (error) =>
    log.warn('a task failed', { error: describe(error) }),
  );
  process.on('uncaughtException', (error) => {
    log.error('the bridge failed', { error: describe(error) });
    process.exit(EXIT.failed);
  });
  let bridge;
  try {
    fs.rmSync(temporary, { recursive: true, force: true });
    fs.mkdirSync(temporary, { recursive: true, mode: 0o700 });
    for (const name of ['TMPDIR', 'TEMP', 'TMP']) process.env[name] = temporary;
    bridge = await startBridge(settings, {
      version,
      library: await makeLibrary(log),
      log,
      ...options,
    });
  } catch (error) {
    log.error('the bridge did not start', { error: error.code ?? describe(error) });
    process.exit(EXIT.failed);
  }

  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    setTimeout(() => process.exit(EXIT.ended), STOP_MILLISECONDS).unref();
    bridge.stop().then(
      () => process.exit(EXIT.ended),
      () => process.exit(EXIT.ended),
    );
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end);
  if (settings.supervised || onInput) {
    if (onInput) onInput(process.stdin, bridge);
    else process.stdin.resume();
    process.stdin.on('error', end).on('end', end).on('close', end);
  }
  process.stdout.on('error', end);
  process.stdout.write(`${JSON.stringify({ listening: bridge.address, protocol: PROTOCOL })}\n`);
}
