import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { exec, start } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";

/** A datagram as it arrived. */
export interface Arrival {
  /** Local port. */
  readonly at: number;
  readonly address: string;
  readonly port: number;
  readonly payload: Buffer;
}

export interface UdpPeer extends AsyncDisposable {
  /** @param times - One each millisecond. Default: 1. */
  send(
    from: number,
    to: { readonly host: string; readonly port: number; readonly times?: number },
    payload: Uint8Array,
  ): void;
  /** Everything that has arrived, oldest first. */
  readonly arrivals: readonly Arrival[];
  /** The first datagram, of those that have not been returned yet, that `accept` accepts. */
  next(accept?: (arrival: Arrival) => boolean): Promise<Arrival>;
}

/** Longest that a datagram may take: it is lost then. Unit: milliseconds. */
const LOST_MS = 5000;

/** Starts `udp-peer.ts` with sockets on `ports` in a namespace. */
export async function startUdpPeer(netns: string, ports: readonly number[]): Promise<UdpPeer> {
  const script = fileURLToPath(new URL("udp-peer.ts", import.meta.url));
  const { command, args } = inNetns(netns, process.execPath, [script, ...ports.map(String)]);
  const child = start(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const arrivals: Arrival[] = [];
  const unseen: Arrival[] = [];
  const waiting = new Set<() => void>();
  const ready = Promise.withResolvers<void>();
  createInterface({ input: child.stdout! }).on("line", (line) => {
    const { payload, ...rest } = JSON.parse(line) as { payload?: string };
    if (payload === undefined) {
      ready.resolve();
      return;
    }
    const arrival = { ...rest, payload: Buffer.from(payload, "base64") } as Arrival;
    arrivals.push(arrival);
    unseen.push(arrival);
    for (const wake of waiting) wake();
  });
  await ready.promise;
  return {
    arrivals,
    send(from, { times = 1, ...to }, payload) {
      const line = { from, ...to, payload: Buffer.from(payload).toString("base64"), times };
      child.stdin!.write(`${JSON.stringify(line)}\n`);
    },
    next(accept = () => true) {
      return new Promise((resolve, reject) => {
        const look = (): void => {
          const at = unseen.findIndex(accept);
          if (at < 0) return;
          waiting.delete(look);
          clearTimeout(timer);
          const [found] = unseen.splice(at, 1);
          if (found !== undefined) resolve(found);
        };
        const timer = setTimeout(() => {
          waiting.delete(look);
          reject(new Error(`no such datagram within ${LOST_MS} ms`));
        }, LOST_MS);
        waiting.add(look);
        look();
      });
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Runs lines of `ip -batch` in a namespace. */
export async function ipBatch(netns: string, lines: readonly string[]): Promise<void> {
  const { command, args } = inNetns(netns, "ip", ["-batch", "-"]);
  await exec(command, args, { input: `${lines.join("\n")}\n`, timeoutMs: 10_000 });
}
