/** What a machine takes for Node alone: programs cannot cost less, and what they cost is a multiple of it that two machines have in common. */

import { once } from "node:events";
import { start } from "@fairlead/base/exec.ts";
import type { Readable } from "node:stream";
import { cpuOf, pssOf } from "./usage.ts";

export interface BareNode {
  /** Until it runs its first line. Unit: milliseconds. */
  readonly cpuMs: number;
  /** Unit: MiB. */
  readonly pss: number;
}

/** The kernel counts in steps of 10 ms: one start is four of them. */
const STARTS = 5;
const PROGRAM = "process.stdout.write('.'); setTimeout(() => {}, 60_000)";

/** The mean of a few starts, one after another. */
export async function measureBareNode(): Promise<BareNode> {
  let cpuMs = 0;
  let pss = 0;
  for (let at = 0; at < STARTS; at += 1) {
    const child = start(process.execPath, ["-e", PROGRAM], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "exit");
    await once(child.stdout as Readable, "data");
    cpuMs += cpuOf([child.pid ?? 0]) / STARTS;
    pss += pssOf([child.pid ?? 0]) / STARTS;
    child.kill("SIGKILL");
    await ended;
  }
  return { cpuMs, pss };
}
