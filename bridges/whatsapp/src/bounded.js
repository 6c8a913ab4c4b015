// A map with a limit: the oldest entry makes room for a new one.

export class BoundedMap {
  #most;
  #entries = new Map();

  constructor(most) {
    this.#most = most;
  }

  get(key) {
    return this.#entries.get(key);
  }

  has(key) {
    return this.#entries.has(key);
  }

  set(key, value) {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size > this.#most) this.#entries.delete(this.#entries.keys().next().value);
  }

  delete(key) {
    return this.#entries.delete(key);
  }

  clear() {
    this.#entries.clear();
  }

  get size() {
    return this.#entries.size;
  }
}
