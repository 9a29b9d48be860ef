/**
 * The lab of an unprivileged user runs in a user namespace, in which that user is root. A waiting process holds it, and
 * every lab command continues inside it.
 */

import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import {
  endProcesses,
  findLabProcesses,
  LAB_VARIABLE,
  signalProcess,
  startTicksOf,
} from "@fairlead/lab/processes.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { lockLab, makeStateRoot } from "@fairlead/lab/state.ts";
import { ownCommand } from "@fairlead/base/program/self.ts";
import { stateRoot } from "./context.ts";

/** Of the files of the holder: its record and the lock under which it is started. */
const HOLDER = ".user-namespace";
const HOLDER_FILE = `${HOLDER}.json`;
/** How long a holder that was left behind may take to end. Unit: milliseconds. It is killed, so the kernel alone decides. */
const END_TIMEOUT_MS = 5000;

/** Holds the namespaces until it is ended; loopback is up, so that what listens there answers. */
const HOLDER_SCRIPT = "ip link set dev lo up && echo ready && exec sleep infinity";

interface Holder {
  readonly pid: number;
  readonly startTicks: number;
}

/** Whether this command was started again inside the user namespace. */
export function isInUserNamespace(): boolean {
  return process.env["FAIRLEAD_USERNS"] !== undefined;
}

/** Changes to the folder in which the command was called, if it exists inside. */
const HERE = 'cd -- "$1" 2>/dev/null; shift; exec "$@"';

/**
 * For unprivileged users: runs the same command inside the user namespace, and returns true when it has ended.
 * For root, inside, and without such a namespace, returns false: the caller continues, or finds no lab.
 *
 * @param otherwise - What to do without such a namespace. Default: nothing.
 */
export async function inOwnNamespace(otherwise?: "start it"): Promise<boolean> {
  const uid = process.getuid?.() ?? 0;
  if (uid === 0 || isInUserNamespace()) return false;
  const root = stateRoot();
  const holder = findHolder(root) ?? (otherwise === undefined ? undefined : await startHolder(root));
  if (holder === undefined) return false;
  const child = start(
    "nsenter",
    [
      `--target=${holder.pid}`,
      "--user",
      "--mount",
      "--net",
      "--preserve-credentials",
      "--",
      "/bin/sh",
      "-c",
      HERE,
      "sh",
      process.cwd(),
      ...ownCommand(),
      ...process.argv.slice(2),
    ],
    { stdio: "inherit", env: { ...environment(), FAIRLEAD_USERNS: String(uid), FAIRLEAD_STATE: root } },
  );
  const ignore = (): void => {};
  process.on("SIGINT", ignore); // The terminal sends it to the child too, which decides.
  process.exitCode = await new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
  process.off("SIGINT", ignore);
  return true;
}

/** Ends the holder once no lab is left; called inside. */
export function leaveUserNamespace(root: string): void {
  if (!isInUserNamespace() || !existsSync(root)) return;
  if (readdirSync(root).some((it) => !it.startsWith(`${HOLDER}.`))) return;
  const holder = findHolder(root);
  rmSync(root, { recursive: true, force: true });
  if (holder !== undefined) signalProcess(holder.pid, "SIGTERM");
}

function findHolder(root: string): Holder | undefined {
  try {
    const holder = JSON.parse(readFileSync(join(root, HOLDER_FILE), "utf8")) as Holder;
    return startTicksOf(holder.pid) === holder.startTicks ? holder : undefined;
  } catch {
    return undefined;
  }
}

async function startHolder(root: string): Promise<Holder> {
  makeStateRoot(root, 0o700);
  // It waits for some seconds at most.
  const forever = new AbortController().signal;
  using _lock = await lockLab(root, HOLDER, { clock: systemClock, signal: forever });
  // Another command may have started it in the meantime; one that was killed may have started it without a record.
  const found = findHolder(root);
  if (found !== undefined) return found;
  await endProcesses(findLabProcesses(root), 0, systemClock, AbortSignal.timeout(END_TIMEOUT_MS));
  const flags = ["--user", "--map-root-user", "--mount", "--net"];
  const probe = await exec("unshare", [...flags, "true"], { allowFailure: true });
  if (probe.exitCode !== 0) {
    throw new FleetError(
      "LAB_UNSUPPORTED",
      `a lab without root requires user namespaces, which are not available (${probe.stderr.trim()}); run it as root`,
    );
  }
  const child = start("unshare", [...flags, "--", "sh", "-c", HOLDER_SCRIPT], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...environment(), [LAB_VARIABLE]: root },
  });
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) =>
      reject(new FleetError("LAB_UNSUPPORTED", `the user namespace did not come up (code ${code})`)),
    );
    child.stdout?.once("data", () => resolve());
  });
  child.stdout?.destroy();
  child.unref();
  const pid = child.pid ?? 0;
  const startTicks = startTicksOf(pid);
  if (startTicks === undefined) {
    await endProcesses([pid], 0, systemClock, AbortSignal.timeout(END_TIMEOUT_MS));
    throw new FleetError("LAB_UNSUPPORTED", "the process that holds the user namespace exited");
  }
  const holder = { pid, startTicks };
  replaceFileSync(join(root, HOLDER_FILE), JSON.stringify(holder));
  return holder;
}

function environment(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).filter((it): it is [string, string] => it[1] !== undefined),
  );
}
