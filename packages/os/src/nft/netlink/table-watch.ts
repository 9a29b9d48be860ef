import { closeSync } from "node:fs";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { start } from "@fairlead/base/exec.ts";
import { type LibC, type LoadLibC, loadLibC } from "#libc/libc.ts";
import { openReports } from "./socket.ts";
import { TableReports } from "./table-reports.ts";

export interface TableWatchOptions {
  /** File of the network namespace. Default: that of this process. */
  readonly netns?: string;
  /** Names of the tables, of any family. */
  readonly tables: readonly string[];
  /** One of them was deleted, by this program or by another one, or may have been. */
  readonly onDeleted: () => void;
  /** Loads the C library. Default: by the foreign function interface, if it is installed. */
  readonly loadLibC?: LoadLibC;
  readonly deps: Pick<RuntimeDeps, "clock" | "rng" | "log">;
}

/** How soon it begins again after it ended: what was missed takes a comparison of all. */
const RETRY = { initialMs: 1000, maxMs: 60_000, factor: 2, jitter: 0.2 };
/** After so long the next end is a first one. Unit: milliseconds. */
const STEADY_MS = 60_000;

/**
 * Notices tables of nftables that are deleted, as the kernel reports. Node cannot wait for a netlink socket, so `cat` does: it has the socket as
 * its input, and a pipe as its output. `nft monitor` would keep a copy of all elements. Without the foreign function interface nothing is seen.
 */
export class TableWatch implements AsyncDisposable {
  readonly #options: TableWatchOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(options: TableWatchOptions) {
    this.#options = options;
    this.#running = this.#run(this.#stop.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { deps, onDeleted } = this.#options;
    const { clock, rng, log } = deps;
    const libc = await (this.#options.loadLibC ?? loadLibC)();
    if (libc === undefined) return;
    for (let failures = 0; !signal.aborted; failures++) {
      const beganMs = clock.monotonic();
      try {
        await this.#follow(libc, signal);
      } catch (error) {
        log.warn("cannot watch the tables of nftables", { error: messageOf(error) });
      }
      if (signal.aborted) return;
      if (clock.monotonic() - beganMs >= STEADY_MS) failures = 0;
      log.info("the watch of nftables has ended, and begins again");
      await delay(clock, backoffMs(RETRY, failures, rng), signal).catch(() => {});
      // In the meantime nothing was seen.
      if (!signal.aborted) onDeleted();
    }
  }

  /** Until the reports end. */
  async #follow(libc: LibC, signal: AbortSignal): Promise<void> {
    const { netns, tables, onDeleted } = this.#options;
    const socket = openReports(libc, netns);
    const child = start("cat", [], { stdio: [socket, "pipe", "ignore"] });
    closeSync(socket);
    const ended = new Promise<void>((resolve) => {
      child.once("close", () => resolve());
      child.once("error", () => resolve());
    });
    const end = (): void => void child.kill("SIGKILL");
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const reports = new TableReports();
    child.stdout?.on("data", (chunk: Buffer) => {
      const deleted = reports.take(chunk);
      if (deleted === undefined) end();
      else if (deleted.some((it) => tables.includes(it))) onDeleted();
    });
    await ended;
    signal.removeEventListener("abort", end);
  }
}
