import type { Dispatcher, Pool } from "undici";

/** One request over a pool of connections, without the streams of Node that undici's own `request` makes of each response. */

export interface HttpResponse {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: HttpBody;
}

export interface HttpBody extends AsyncIterable<Uint8Array> {
  /** All of it. Rejects where the connection breaks before its end. */
  text(): Promise<string>;
}

/** So much may wait for a reader before the sender has to wait. Unit: bytes. */
const MOST_WAITING = 256 << 10;

/**
 * Resolves when the head of the response is there; its body is read by the caller. Ends with `signal`, also while the
 * request waits for a connection.
 */
export function sendRequest(
  pool: Pick<Pool, "dispatch">,
  request: Dispatcher.DispatchOptions,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const response = new PendingResponse(signal);
  pool.dispatch(request, response);
  return response.head;
}

class PendingResponse implements Dispatcher.DispatchHandler, HttpBody {
  readonly #signal: AbortSignal;
  readonly #head = Promise.withResolvers<HttpResponse>();
  #controller: Dispatcher.DispatchController | undefined;
  #chunks: Buffer[] = [];
  #waitingBytes = 0;
  #isStream = false;
  #end: { readonly error: Error | undefined } | undefined;
  #wake: (() => void) | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
  }

  get head(): Promise<HttpResponse> {
    return this.#head.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal.aborted) controller.abort(reasonOf(this.#signal));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: HttpResponse["headers"],
  ): void {
    // Those below 200 announce a response (RFC 9110, section 15.2).
    if (statusCode >= 200) this.#head.resolve({ statusCode, headers, body: this });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#waitingBytes += chunk.length;
    if (!this.#isStream) return;
    if (this.#waitingBytes > MOST_WAITING) controller.pause();
    this.#wake?.();
  }

  onResponseEnd(): void {
    this.#finish(undefined);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#finish(error);
  }

  async text(): Promise<string> {
    if (this.#end === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#end?.error !== undefined) throw this.#end.error;
    const [first = NOTHING, ...others] = this.#take();
    return (others.length === 0 ? first : Buffer.concat([first, ...others])).toString("utf8");
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    this.#isStream = true;
    try {
      for (;;) {
        yield* this.#take();
        if (this.#chunks.length > 0) continue;
        if (this.#end?.error !== undefined) throw this.#end.error;
        if (this.#end !== undefined) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      if (this.#end === undefined) this.#controller?.abort(new Error("the reader has gone"));
    }
  }

  #take(): Buffer[] {
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#waitingBytes = 0;
    if (this.#controller?.paused === true) this.#controller.resume();
    return chunks;
  }

  #finish(error: Error | undefined): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#end ??= { error };
    if (error !== undefined) this.#head.reject(error);
    this.#wake?.();
  }

  readonly #onAbort = (): void => {
    // undici reports the abort only once the request has a connection, which may take 10 s.
    this.#finish(reasonOf(this.#signal));
    this.#controller?.abort(reasonOf(this.#signal));
  };
}

const NOTHING = Buffer.alloc(0);

function reasonOf({ reason }: AbortSignal): Error {
  return Error.isError(reason) ? reason : new Error("the request was aborted", { cause: reason });
}
