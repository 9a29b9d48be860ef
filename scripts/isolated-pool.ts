/**
 * Runs each file of tests in its own network, mount, process and IPC namespaces, so that labs can be up side by side
 * without meeting, and whatever a file leaves behind is gone with it.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PoolOptions, PoolRunnerInitializer, PoolWorker } from "vitest/node";

/** Dies with the process that started it, and takes everything inside along. */
const UNSHARE = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", "--pid", "--ipc"];
const ISOLATED = [...UNSHARE, "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "--"];

/** Folders that each worker has for itself, empty but for what it runs from. */
const EMPTY = ["/run", "/tmp"];

/**
 * The shell stays as process 1, which reaps what programs leave. Folders are put together below /sys, which is mounted last: there
 * they cover nothing that is still needed. 203.0.113.0/24 is for documentation (RFC 5737). Without link-local addresses nothing of
 * the links changes later, when their check for duplicates ends.
 */
const INSIDE = `set -e
here=$(pwd -P)
mount -t tmpfs tmpfs /sys
mkdir /sys/run /sys/tmp
mount -t tmpfs -o mode=755 tmpfs /sys/run
mount -t tmpfs -o mode=1777 tmpfs /sys/tmp
while [ "$1" != -- ]; do
  (umask 022; mkdir -p "/sys$1")
  mount --rbind "$1" "/sys$1"
  shift
done
shift
# Without a note of it: libmount would write that into /run.
mount --no-mtab --move /sys/run /run
mount --no-mtab --move /sys/tmp /tmp
umount /sys
mount -t sysfs sysfs /sys
# What was covered is not there by its path any more.
cd "$here"
ip link set lo up
ip link add ext0 type veth peer name ext1
ip address add 203.0.113.2/24 dev ext0
ip link set ext0 addrgenmode none
ip link set ext1 addrgenmode none
ip link set ext0 up
ip link set ext1 up
ip route add default via 203.0.113.1
set +e
"$@"
exit $?`;

/** What the tests run from: the checkout, its packages where those are a link, and the Node that runs now. */
function ownFolders(): readonly string[] {
  const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
  return [root, join(root, "node_modules"), dirname(process.execPath)].map((it) => realpathSync(it));
}

/** Those below an empty folder, without what is in another of them. */
function coveredFolders(folders: readonly string[]): readonly string[] {
  const isBelow = (path: string, folder: string): boolean => path.startsWith(`${folder}/`);
  const covered = folders.filter((path) => EMPTY.some((it) => isBelow(path, it)));
  return [...new Set(covered.filter((path) => !covered.some((it) => isBelow(path, it))))];
}

/** @param needed - Folders that the command finds as they are, although they may be in an empty one. */
export function isolated(
  command: readonly string[],
  needed: readonly string[] = ownFolders(),
): readonly [string, string[]] {
  const inside = ["sh", "-c", INSIDE, "sh", ...coveredFolders(needed), "--", ...command];
  const [program = "", ...args] = [...ISOLATED, ...inside];
  return [program, args];
}

/** Whether this machine allows it: for root, and in containers that may make namespaces. */
export const canIsolate =
  process.getuid?.() === 0 && spawnSync(...isolated(["true"]), { stdio: "ignore" }).status === 0;

export const isolatedPool: PoolRunnerInitializer = {
  name: "isolated",
  createPoolWorker: (options) => new IsolatedWorker(options),
};

/** As the pool `forks` of vitest, but for where its process runs. */
class IsolatedWorker implements PoolWorker {
  readonly name = "isolated";
  readonly #options: PoolOptions;
  #child: ChildProcess | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get #process(): ChildProcess {
    if (this.#child === undefined) throw new Error("the worker is not started");
    return this.#child;
  }

  on(event: string, callback: (...args: unknown[]) => void): void {
    this.#process.on(event, callback);
  }

  off(event: string, callback: (...args: unknown[]) => void): void {
    this.#process.off(event, callback);
  }

  send(message: Parameters<PoolWorker["send"]>[0]): void {
    this.#process.send(message);
  }

  deserialize(data: unknown): unknown {
    return data;
  }

  async start(): Promise<void> {
    const { execArgv, distPath, env } = this.#options;
    const [command, args] = isolated([process.execPath, ...execArgv, join(distPath, "workers/forks.js")]);
    const child = spawn(command, args, {
      // Elsewhere temporary files would not be the worker's own.
      env: { ...env, TMPDIR: "/tmp" },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      serialization: "advanced",
    });
    this.#child = child;
    await once(child, "spawn");
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}
