import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { start } from "@fairlead/base/exec.ts";
import { isRunning, parseStat, runningProcess } from "./process.ts";

describe("a line of /proc/PID/stat", () => {
  it("is read whatever the process is called", () => {
    const rest = `S 1 ${Array.from({ length: 17 }, (_, at) => at).join(" ")} 4711 0`;
    for (const name of ["sh", "a) b (c", ") S 1"])
      expect(parseStat(`42 (${name}) ${rest}`)).toEqual({ pid: 42, startTicks: 4711 });
    expect(parseStat("nonsense")).toBeUndefined();
  });
});

function childrenOf(pid: number): readonly number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .split(" ")
    .flatMap((it) => (it === "" ? [] : [Number(it)]));
}

async function firstChildOf(pid = 0): Promise<number> {
  await expect.poll(() => childrenOf(pid).length).toBe(1);
  return childrenOf(pid)[0] ?? 0;
}

describe("a process", () => {
  it("runs until it is killed", async () => {
    const child = start("sleep", ["1000"]);
    const identity = runningProcess(child.pid ?? 0);
    expect(identity !== undefined && isRunning(identity)).toBe(true);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(identity !== undefined && isRunning(identity)).toBe(false);
  });

  it("that is the first of a PID namespace has ended when it is killed, though another one there is not waited for", async () => {
    const outer = start("unshare", ["--user", "--map-root-user", "--pid", "--fork", "sleep", "1000"]);
    const first = runningProcess(await firstChildOf(outer.pid));
    const { pid } = first ?? { pid: 0 };
    expect(pid).toBeGreaterThan(0);
    // Its child is in the namespace, and it never waits for it.
    const script = "sleep 1000 & exec sleep 1000";
    const careless = start("nsenter", [
      "--user",
      "--preserve-credentials",
      "--pid",
      "--no-fork",
      "--target",
      `${pid}`,
      "sh",
      "-c",
      script,
    ]);
    const inside = await firstChildOf(careless.pid);
    expect(first !== undefined && isRunning(first)).toBe(true);
    process.kill(pid, "SIGKILL");
    await expect.poll(() => first !== undefined && isRunning(first)).toBe(false);
    // Still there: the kernel keeps it until the other one is waited for.
    expect(readFileSync(`/proc/${pid}/stat`, "utf8")).toContain("(sleep)");
    await expect.poll(() => runningProcess(inside)).toBeUndefined();
    for (const it of [careless, outer]) {
      const ended = it.exitCode === null && it.signalCode === null ? once(it, "exit") : undefined;
      it.kill("SIGKILL");
      await ended;
    }
  });
});
