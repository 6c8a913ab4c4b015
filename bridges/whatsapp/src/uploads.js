// Files that a client has uploaded for sending, piece by piece.

import { join } from 'node:path';

import { FILE, PIECE } from './downloads.js';
import { Failure, invalid } from './failure.js';
import { TemporaryFolder } from './folder.js';

export class Uploads {
  #folder;

  constructor(folder, options = {}) {
    this.#folder = new TemporaryFolder(join(folder, 'uploaded'), options);
  }

  // Appends a piece and returns the size of the file so far. Offset 0 begins it anew.
  async append({ ref, offset, data }) {
    if (data.length > PIECE) throw new Failure('too_large', 'a piece has at most 512 KiB');
    if (offset + data.length > FILE) throw new Failure('too_large', 'a file has at most 100 MiB');
    let file = this.#folder.get(ref);
    if (offset === 0) {
      if (file?.users > 0) throw invalid('the file is being sent');
      file = await this.#folder.create(ref);
    }
    if (file === undefined) throw invalid('the first piece begins at 0');
    if (file.size !== offset) throw invalid(`the next piece begins at ${file.size}`);
    await this.#folder.append(file, data);
    return file.size;
  }

  // Runs a task with the path of an uploaded file. The file stays: a send may have to be repeated.
  use(ref, task) {
    const file = this.#folder.get(ref);
    if (file === undefined) throw new Failure('not_found', 'there is no such upload');
    return this.#folder.use(file, task);
  }

  clean() {
    return this.#folder.removeIdle();
  }
}
