import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readSettings, SettingsError } from '../src/settings.js';

test('settings have defaults', () => {
  assert.deepEqual(
    readSettings({ BRIDGE_TOKEN: 'x', BRIDGE_PORT: '', BRIDGE_HOST: '' }, '/home/ann'),
    {
      host: '127.0.0.1',
      port: 3001,
      token: 'x',
      authFolder: '/home/ann/.nanobot/whatsapp-auth',
      dataFolder: '/home/ann/.nanobot/whatsapp-bridge',
      supervised: false,
    },
  );
});

test('settings are read', () => {
  const env = {
    BRIDGE_TOKEN: 'x',
    BRIDGE_PORT: '0',
    BRIDGE_HOST: '::1',
    AUTH_DIR: '~/keys',
    BRIDGE_DIR: '/data',
    BRIDGE_SUPERVISED: '1',
  };
  assert.deepEqual(readSettings(env, '/home/ann'), {
    host: '::1',
    port: 0,
    token: 'x',
    authFolder: '/home/ann/keys',
    dataFolder: '/data',
    supervised: true,
  });
});

test('wrong settings are named without their value', () => {
  assert.throws(() => readSettings({}), SettingsError);
  for (const port of ['-1', '65536', '1.5', 'secret']) {
    assert.throws(
      () => readSettings({ BRIDGE_TOKEN: 'x', BRIDGE_PORT: port }),
      (error) => {
        return (
          error instanceof SettingsError &&
          /BRIDGE_PORT/.test(error.message) &&
          !error.message.includes('secret')
        );
      },
    );
  }
});
