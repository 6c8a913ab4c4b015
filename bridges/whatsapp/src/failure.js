// A request that was not fulfilled: the code and the text of the `error` frame.

export class Failure extends Error {
  constructor(code, text, { retryAfter } = {}) {
    super(text);
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

export const invalid = (text) => new Failure('invalid', text);

// Runs a task with a time limit; the task itself goes on.
export function within(milliseconds, task, late) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(late()), milliseconds);
  });
  return Promise.race([task, limit]).finally(() => clearTimeout(timer));
}

// Maps codes of WhatsApp's server, which it gives in answers and acknowledgements, to ours.
export function refusal(code) {
  switch (Number(code)) {
    case 401:
    case 403:
      return new Failure('forbidden', 'WhatsApp refuses this: not a member, or blocked');
    case 404:
    case 410:
      return new Failure('not_found', 'WhatsApp does not know this chat');
    case 413:
      return new Failure('too_large', 'WhatsApp refuses this: it is too large');
    case 429:
      return new Failure('rate_limited', 'WhatsApp asks to slow down', { retryAfter: 60 });
    case 463:
      return new Failure(
        'forbidden',
        'WhatsApp does not let this account begin new chats at present',
      );
    default:
      return new Failure('failed', `WhatsApp refuses this (code ${Number(code) || 'unknown'})`);
  }
}
