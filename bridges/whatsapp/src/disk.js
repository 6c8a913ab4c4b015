// Durable writes. A file is either as it was or as it was meant to be, also after a power loss.

import fs from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { randomBytes } from 'node:crypto';

export const TEMPORARY = '.tmp-';

const temporaryName = (path) => `${path}${TEMPORARY}${randomBytes(6).toString('hex')}`;

// Makes a rename in a folder durable. Windows cannot open folders, and needs no such call.
export function syncFolder(folder) {
  if (process.platform === 'win32') return;
  const handle = fs.openSync(folder, 'r');
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

export function makeFolder(folder) {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
}

// Writes all bytes, also if the system takes a part of them only.
export function writeAll(handle, bytes, position = null) {
  let written = 0;
  while (written < bytes.length) {
    const at = position === null ? null : position + written;
    written += fs.writeSync(handle, bytes, written, bytes.length - written, at);
  }
}

// Replaces a file by new content.
export function replaceFile(path, content) {
  const temporary = temporaryName(path);
  try {
    const handle = fs.openSync(temporary, 'wx', 0o600);
    try {
      writeAll(handle, Buffer.from(content));
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
    fs.renameSync(temporary, path);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

// Replaces a file without blocking the process. The caller syncs the folder.
export async function replaceFileLater(path, content) {
  const temporary = temporaryName(path);
  try {
    const handle = await open(temporary, 'wx', 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

// Removes what writes that were interrupted have left in a folder.
export function removeTemporaryFiles(folder) {
  for (const name of fs.readdirSync(folder)) {
    if (/\.tmp-[0-9a-f]{12}$/.test(name)) fs.rmSync(`${folder}/${name}`, { force: true });
  }
}
