import { tooManyRequests } from "../status.ts";

/**
 * As many requests that write may be under way at once; each holds its body, 3 MiB at most. More are told to come
 * again, as `--max-mutating-requests-inflight` does; clients do by themselves.
 */
const MAX_WRITES = 1000;
const WRITING = new Set(["POST", "PUT", "PATCH", "DELETE"]);

/** Counts the writes that are under way. */
export class WriteLimit {
  #writes = 0;

  /**
   * Held until the request is answered. Streams and reads are not counted.
   *
   * @throws {StatusError} 429 when there are too many.
   */
  enter(method: string): Disposable {
    if (!WRITING.has(method)) return { [Symbol.dispose]() {} };
    if (this.#writes >= MAX_WRITES) throw tooManyRequests("too many requests, please try again later", 1);
    this.#writes += 1;
    return {
      [Symbol.dispose]: () => {
        this.#writes -= 1;
      },
    };
  }
}
