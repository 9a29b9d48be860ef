import type { Dispatcher } from "undici";
import { describe, expect, it } from "vitest";
import { sendRequest } from "./http.ts";

const REQUEST = { path: "/", method: "GET" } as const;
const forever = new AbortController().signal;
const CHUNK = Buffer.alloc(100 << 10, "x");

/** A connection that does what a test says, and the request that was sent on it. */
class Connection implements Dispatcher.DispatchController {
  aborted = false;
  paused = false;
  reason: Error | null = null;
  #handler: Dispatcher.DispatchHandler | undefined;

  readonly pool = {
    dispatch: (_request: unknown, handler: Dispatcher.DispatchHandler): boolean => {
      this.#handler = handler;
      return true;
    },
  };

  begin(): void {
    this.#handler?.onRequestStart?.(this, undefined);
  }
  answer(code: number): void {
    this.#handler?.onResponseStart?.(this, code, { "x-of": "server" });
  }
  give(chunk: Buffer): void {
    this.#handler?.onResponseData?.(this, chunk);
  }
  end(): void {
    this.#handler?.onResponseEnd?.(this, {});
  }

  abort(reason: Error): void {
    this.aborted = true;
    this.#handler?.onResponseError?.(this, reason);
  }
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
  }
}

function answered(connection: Connection): ReturnType<typeof sendRequest> {
  const response = sendRequest(connection.pool, REQUEST, forever);
  connection.begin();
  connection.answer(200);
  return response;
}

describe("a request", () => {
  it("is answered by the first status other than 1xx, and its text is complete although it arrives in parts", async () => {
    const connection = new Connection();
    const sent = sendRequest(connection.pool, REQUEST, forever);
    connection.begin();
    connection.answer(103);
    connection.answer(201);
    const { statusCode, headers, body } = await sent;
    const letter = Buffer.from("é");
    connection.give(letter.subarray(0, 1));
    connection.give(letter.subarray(1));
    connection.end();
    expect([statusCode, headers["x-of"], await body.text()]).toEqual([201, "server", "é"]);
  });

  it("ends immediately on abort while it waits for a connection, and is not sent later", async () => {
    const connection = new Connection();
    const stop = new AbortController();
    const sent = sendRequest(connection.pool, REQUEST, stop.signal);
    stop.abort(new Error("no longer wanted"));
    await expect(sent).rejects.toThrow("no longer wanted");
    connection.begin();
    expect(connection.aborted).toBe(true);
  });

  it("fails if the connection breaks within the body, for current and later readers", async () => {
    for (const isLate of [false, true]) {
      const connection = new Connection();
      const { body } = await answered(connection);
      const read = isLate ? undefined : body.text();
      connection.give(CHUNK);
      connection.abort(new Error("broken"));
      await expect(read ?? body.text()).rejects.toThrow("broken");
    }
  });
});

describe("a streamed answer", () => {
  it("applies backpressure while its reader is slow, and loses nothing", async () => {
    const connection = new Connection();
    const { body } = await answered(connection);
    const chunks = body[Symbol.asyncIterator]();
    const first = chunks.next();
    connection.give(CHUNK);
    expect((await first).value).toHaveLength(CHUNK.length);
    for (let at = 0; at < 3; at += 1) connection.give(CHUNK);
    expect(connection.paused).toBe(true);
    for (let at = 0; at < 3; at += 1) expect((await chunks.next()).done).toBe(false);
    expect(connection.paused).toBe(false);
    connection.end();
    expect((await chunks.next()).done).toBe(true);
  });

  it("is aborted when its reader stops", async () => {
    const connection = new Connection();
    const { body } = await answered(connection);
    connection.give(CHUNK);
    for await (const chunk of body) {
      expect(chunk).toHaveLength(CHUNK.length);
      break;
    }
    expect(connection.aborted).toBe(true);
  });
});
