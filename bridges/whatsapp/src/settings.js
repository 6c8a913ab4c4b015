// Settings of the bridge, read from its environment.

import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

export const DEFAULT_PORT = 3001;
export const DEFAULT_HOST = '127.0.0.1';

// A setting is missing or wrong. The message names the variable and never its value.
export class SettingsError extends Error {}

function folder(value, fallback, home) {
  if (!value) return join(home, ...fallback);
  if (value === '~' || value.startsWith('~/')) return join(home, value.slice(2));
  return resolve(value);
}

// Returns the settings of an environment. An empty variable counts as a missing one.
export function readSettings(env, home = homedir()) {
  const token = env.BRIDGE_TOKEN ?? '';
  if (!token) throw new SettingsError('BRIDGE_TOKEN is missing');
  const port = env.BRIDGE_PORT ? Number(env.BRIDGE_PORT) : DEFAULT_PORT;
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    throw new SettingsError('BRIDGE_PORT is no port: it must be a number from 0 to 65535');
  }
  return {
    host: env.BRIDGE_HOST || DEFAULT_HOST,
    port,
    token,
    authFolder: folder(env.AUTH_DIR, ['.nanobot', 'whatsapp-auth'], home),
    dataFolder: folder(env.BRIDGE_DIR, ['.nanobot', 'whatsapp-bridge'], home),
    supervised: env.BRIDGE_SUPERVISED === '1',
  };
}
