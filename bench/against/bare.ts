/** The cost of Node alone on a machine: programs cannot cost less, and their cost as a multiple of it can be compared between machines. */

import { once } from "node:events";
import { start } from "@fairlead/base/exec.ts";
import type { Readable } from "node:stream";
import { pssOf } from "./usage.ts";

export interface BareNode {
  /** Until it runs its first line. Unit: milliseconds. */
  readonly cpuMs: number;
  /** Unit: MiB. */
  readonly pss: number;
}

const STARTS = 5;
/** Says what it has used itself: the kernel shows others steps of 10 ms, of which a start is only some four. */
const PROGRAM =
  "const { user, system } = process.cpuUsage(); process.stdout.write(String(user + system)); setTimeout(() => {}, 60_000)";

/** The mean of a few starts, one after another. */
export async function measureBareNode(): Promise<BareNode> {
  let cpuMs = 0;
  let pss = 0;
  for (let at = 0; at < STARTS; at += 1) {
    const child = start(process.execPath, ["-e", PROGRAM], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "exit");
    const [microseconds] = (await once(child.stdout as Readable, "data")) as [Buffer];
    cpuMs += Number(microseconds) / 1000 / STARTS;
    pss += pssOf([child.pid ?? 0]) / STARTS;
    child.kill("SIGKILL");
    await ended;
  }
  return { cpuMs, pss };
}
