import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start } from "@fairlead/base/exec.ts";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import { EXEC_CONTEXT_FILE } from "../container/exec-context.ts";
import { runningProcess } from "../container/process.ts";
import type { ContainerView } from "../container/runtime.ts";
import { serveExec } from "./remote-command.ts";

/** What has terminals of its own, as a container has: those of the machine may be closed to users. */
const CONTAINER =
  "mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && echo ready && exec sleep 1000";

let folder = "";
let holder: ChildProcess;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "remote-command-"));
  const context = { prefix: [], env: ["PATH=/usr/bin:/bin"], workingDir: "/", shimEnv: {} };
  writeFileSync(join(folder, EXEC_CONTEXT_FILE), JSON.stringify(context));
  holder = start("unshare", ["--user", "--map-root-user", "--mount", "sh", "-c", CONTAINER]);
  if (holder.stdout !== null) await once(holder.stdout, "data");
});
afterAll(() => {
  holder.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

async function run(command: readonly string[], tty: boolean): Promise<Status | undefined> {
  const container = { folder, name: "web", process: runningProcess(holder.pid ?? 0) } as ContainerView;
  let status: Status | undefined;
  const channels = {
    stdin: undefined,
    stdout: undefined,
    stderr: undefined,
    onResize: () => {},
    onClose: () => {},
    finish: (it: Status) => {
      status = it;
      return Promise.resolve();
    },
  };
  const wish = { stdin: false, stdout: true, stderr: !tty, tty };
  await serveExec(container, command, { wish, channels });
  return status;
}

/** Major numbers of /dev/ptmx and of the programs' ends (Documentation/admin-guide/devices.txt of Linux). */
const [MULTIPLEXER, PROGRAM_ENDS] = [5, [136, 143]] as const;

function openTerminals(): number {
  const majors = readdirSync("/proc/self/fd").map((it) => {
    try {
      return (fstatSync(Number(it)).rdev >> 8) & 0xf_ff;
    } catch {
      // The descriptor by which the folder was read.
      return 0;
    }
  });
  const [first, last] = PROGRAM_ENDS;
  return majors.filter((it) => it === MULTIPLEXER || (it >= first && it <= last)).length;
}

describe.each([false, true])("a command, with a terminal: %s", (tty) => {
  it("that has a NUL byte is refused as a kubelet refuses what it cannot run, and the argument is named", async () => {
    const why =
      "error executing command in container: command[2] has a NUL byte after 3 characters, and arguments of programs " +
      "cannot contain one: remove it, or pass the data by the standard input";
    expect(await run(["printf", "%s", "abc\0def"], tty)).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      reason: "InternalError",
      message: `Internal error occurred: ${why}`,
      details: { causes: [{ message: why }] },
      code: 500,
    });
  });

  it("that the kernel refuses because it is too long leaves no terminal open", async () => {
    const before = openTerminals();
    // execve(2): arguments and environment together have a quarter of the stack's limit, 2 MiB by default, and 6 MiB at most.
    const refused = await run(["true", "x".repeat(7 * 2 ** 20)], tty);
    expect(refused?.message).toContain("E2BIG");
    await expect.poll(openTerminals).toBe(before);
  });
});
