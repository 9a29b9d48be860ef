import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";

/** Unix socket without a file (unix(7), abstract): of one network namespace, and gone with its process, however that ends. */
const SOCKET = "\0fairlead-node";
const RETRY_MS = 1000;

export interface OnlyAgentOptions {
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Waits until no other agent runs in this network namespace, which is the node's. Two would exchange the same rules and devices
 * in turn, and each would take the answers of relays from the other.
 *
 * @returns What keeps others waiting until it is disposed.
 * @throws {FleetError} `ABORTED`.
 */
export async function untilOnlyAgent(
  { clock, log }: OnlyAgentOptions,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  for (let tries = 0; ; tries += 1) {
    signal.throwIfAborted();
    try {
      return closing(await listen());
    } catch (error) {
      if (tries === 0)
        log.warn("another agent runs on this node; this one waits until it ends", {
          error: messageOf(error),
        });
    }
    await delay(clock, RETRY_MS, signal);
  }
}

async function listen(): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  const listening = once(server, "listening");
  server.listen(SOCKET);
  await listening;
  return server.unref();
}

function closing(server: Server): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}
