/** The time at which a change in one cluster reaches another: observed in the kernel and in DNS, not reported by our programs. */

import { Resolver } from "node:dns/promises";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { start } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";

/** A watched event. Resolves with the time on `clock.monotonic()` at which it was first seen. Unit: milliseconds. */
export interface Sighting extends Disposable {
  readonly seen: Promise<number>;
}

/** Watches the nftables events of a namespace for an address that is added to any map. */
export async function watchKernelMap(
  netns: string,
  isAwaited: (line: string) => boolean,
  clock: Clock,
): Promise<Sighting> {
  const line = inNetns(netns, "nft", ["monitor", "new", "elements"]);
  const child = start(line.command, line.args, { stdio: ["ignore", "pipe", "ignore"] });
  const seen = new Promise<number>((resolve) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      if (isAwaited(chunk.toString("utf8"))) resolve(clock.monotonic());
    });
  });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", () => resolve());
    child.once("error", reject);
  });
  return { seen, [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

/** Time between two queries, which bounds the error of the measured latency. Unit: milliseconds. */
const ASK_EVERY_MS = 1;

/** Asks a DNS server for the addresses of `name` until they satisfy `isAwaited`. */
export function watchDns(
  server: string,
  name: string,
  isAwaited: (addresses: readonly string[]) => boolean,
  clock: Clock,
): Sighting {
  const resolver = new Resolver({ timeout: 500, tries: 1 });
  resolver.setServers([server]);
  const stop = new AbortController();
  const look = async (): Promise<number> => {
    for (;;) {
      // A name that does not exist yet is expected here.
      const addresses = await resolver.resolve4(name).catch(() => []);
      if (isAwaited(addresses)) return clock.monotonic();
      await delay(clock, ASK_EVERY_MS, stop.signal);
    }
  };
  const seen = look();
  seen.catch(() => {});
  return { seen, [Symbol.dispose]: () => stop.abort() };
}
