// Files of received messages, downloaded when a client asks for them, and read in pieces.

import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { Failure, invalid, within } from './failure.js';
import { TemporaryFolder } from './folder.js';

export const PIECE = 512 * 1024;
export const FILE = 100 * 1024 * 1024;
const AT_ONCE = 4;
const ANSWER_MILLISECONDS = 50_000;
// A download that has not ended by then is given up.
const DOWNLOAD_MILLISECONDS = 10 * 60 * 1000;

const tooLarge = () => new Failure('too_large', 'the file is larger than 100 MiB');

export class Downloads {
  #folder;
  #journal;
  #open;
  #answerMilliseconds;
  #most;
  #running = new Map();

  // `open` returns the decrypted bytes of a file, as an asynchronous iterable.
  constructor(
    folder,
    journal,
    open,
    { answerMilliseconds = ANSWER_MILLISECONDS, most = FILE, ...options } = {},
  ) {
    this.#folder = new TemporaryFolder(join(folder, 'received'), options);
    this.#journal = journal;
    this.#open = open;
    this.#answerMilliseconds = answerMilliseconds;
    this.#most = most;
  }

  #describe(ref) {
    const [, seq, index] = /^m([0-9]{1,15})-([0-9]{1,3})$/.exec(ref) ?? [];
    const described =
      seq === undefined ? undefined : this.#journal.file(Number(seq), Number(index));
    if (described === undefined) throw new Failure('not_found', 'there is no such file');
    return described;
  }

  // Returns the piece of a file that begins at an offset.
  async fetch({ ref, offset }) {
    const described = this.#describe(ref);
    const file = this.#folder.get(ref);
    const isComplete = file !== undefined && !this.#running.has(ref);
    const whole = isComplete ? file : await this.#answer(ref, described);
    if (offset > whole.size) throw invalid('the offset is after the end of the file');
    return this.#folder.use(whole, async () => {
      const bytes = await this.#folder.read(whole, offset, PIECE);
      const last = offset + bytes.length >= whole.size;
      return { offset, data: bytes.toString('base64'), size: whole.size, last };
    });
  }

  // A large file may take longer than an answer may: the client asks again, and the download goes
  // on.
  #answer(ref, described) {
    let task = this.#running.get(ref);
    if (task === undefined) {
      if (described.size > this.#most) throw tooLarge();
      if (this.#running.size >= AT_ONCE) {
        throw new Failure('rate_limited', 'too many downloads at once', { retryAfter: 5 });
      }
      const job = { stream: undefined, late: undefined };
      task = within(DOWNLOAD_MILLISECONDS, this.#download(ref, described, job), () => {
        job.late = new Failure('failed', 'the download took too long');
        job.stream?.destroy?.();
        return job.late;
      }).finally(() => this.#running.delete(ref));
      task.catch(() => {});
      this.#running.set(ref, task);
    }
    return within(
      this.#answerMilliseconds,
      task,
      () => new Failure('rate_limited', 'the download goes on', { retryAfter: 5 }),
    );
  }

  async #download(ref, described, job) {
    const file = await this.#folder.create(ref);
    try {
      await this.#folder.use(file, async () => {
        const sum = createHash('sha256');
        job.stream = await this.#open(described);
        for await (const bytes of job.stream) {
          if (job.late !== undefined) throw job.late;
          if (file.size + bytes.length > this.#most) throw tooLarge();
          sum.update(bytes);
          await this.#folder.append(file, bytes);
        }
        if (described.sha256 && sum.digest('base64') !== described.sha256) {
          throw new Failure('failed', 'the file is damaged');
        }
      });
      return file;
    } catch (error) {
      await this.#folder.remove(ref);
      throw error;
    }
  }

  // Removes files of confirmed messages ten minutes after their last use.
  clean() {
    return this.#folder.removeIdle((ref) =>
      this.#journal.isPending(Number(/^m([0-9]+)-/.exec(ref)?.[1])),
    );
  }
}
