import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { TestServer } from "../../packages/apiserver/test/support.ts";

/** How long requests keep the thread of a server from all others. */

export interface Target {
  readonly port: number;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly type?: string;
  readonly accept?: string;
  readonly body?: string | Uint8Array;
}

export interface Handled {
  readonly code: number;
  /** Of the turns of the event loop until the answer. Unit: milliseconds of CPU. */
  readonly longestMs: number;
}

/** A client in another thread, for a server in this one. */
export class OtherThread implements AsyncDisposable {
  readonly #worker: Worker;

  constructor({ server }: TestServer) {
    const target: Target = { port: server.port, ca: server.ca, ...server.admin };
    this.#worker = new Worker(new URL("client.worker.ts", import.meta.url), { workerData: target });
  }

  async send(sent: Sent): Promise<Handled> {
    using turns = new TurnMeter();
    const answer = once(this.#worker, "message");
    this.#worker.postMessage(sent);
    const [code] = (await answer) as [number];
    return { code, longestMs: turns.longestMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }
}

class TurnMeter implements Disposable {
  longestMs = 0;
  #before = process.threadCpuUsage();
  #next = setImmediate(() => this.#turn());

  #turn(): void {
    const { user, system } = process.threadCpuUsage(this.#before);
    this.longestMs = Math.max(this.longestMs, (user + system) / 1000);
    this.#before = process.threadCpuUsage();
    this.#next = setImmediate(() => this.#turn());
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#next);
  }
}
