import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdir, readdir, rm, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { delay } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { start } from "@fairlead/base/exec.ts";
import { deleteDevice, runIpLines } from "#iproute/driver.ts";
import { LinkReader } from "#iproute/link-reader.ts";
import { moveLink, setLink } from "#iproute/lines.ts";
import type { Link } from "#iproute/parse.ts";
import { deviceWord } from "#iproute/words.ts";
import { type CommandLine, inNetns } from "#netns/netns.ts";
import type { WireguardDriver } from "./driver.ts";
import type { WireguardOptions } from "./options.ts";
import { checkAnswer, GET_REQUEST, parseAnswer, setRequest } from "./uapi.ts";
import { exchange, watchProcess } from "./uapi-socket.ts";

/** Longest time from the start of a process until its device is in place. Generous: a busy machine must not fail. Unit: milliseconds. */
const START_TIMEOUT_MS = 30_000;

/** Interval at which a starting process is looked at. Unit: milliseconds. */
const LOOK_MS = 10;

/**
 * How long what looks like an error has to last: another agent may be making the device at the same time, and its process is
 * seen before its socket. Unit: milliseconds.
 */
const PATIENCE_MS = 500;

/** Size at which a log is emptied. wireguard-go logs packets that cannot be sent. Unit: bytes. */
const MAX_LOG = 1024 * 1024;

/**
 * wireguard-go has its sockets in /var/run/wireguard. In a mount namespace of the process, that is the folder in which the
 * script starts. Changes of mounts on the machine still arrive there (slave), so that it keeps no file system busy.
 * A process can leave its cgroup only from a cgroup namespace that has both (linux: cgroup-v2, "nsdelegate").
 */
const SCRIPT = `[ -z "$2" ] || nsenter --cgroup=/proc/1/ns/cgroup -- sh -c "echo $$ >'$2/cgroup.procs'"
mount -t tmpfs -o mode=755,size=64k tmpfs /var/run &&
mkdir /var/run/wireguard &&
mount --no-canonicalize --bind . /var/run/wireguard &&
LOG_LEVEL=error WG_PROCESS_FOREGROUND=1 exec wireguard-go "$1"`;

/** Devices of wireguard-go: each is served by a process that outlives this one. */
export function createUserspaceDriver(options: WireguardOptions): WireguardDriver {
  const { folder, netns, birthNetns, clock } = options;
  const [inPlace, atBirth] = [new LinkReader(netns), new LinkReader(birthNetns)];
  const find = (name: string, file: string | undefined, signal: AbortSignal): Promise<Link | undefined> =>
    (file === netns ? inPlace : atBirth).link(name, signal);
  const ask = (name: string, request: string, signal: AbortSignal): Promise<string | undefined> =>
    exchange(folder, deviceWord(name), request, signal);
  const look = async (name: string, signal: AbortSignal): Promise<Pick<Situation, "isServed" | "device">> => {
    const isServed = (await ask(name, GET_REQUEST, signal)) !== undefined;
    if ((await find(name, netns, signal)) !== undefined) return { isServed, device: "in place" };
    const isBorn = (await find(name, birthNetns, signal)) !== undefined;
    return { isServed, device: isBorn ? "born" : "absent" };
  };
  const move = async (name: string, mtu: number, signal: AbortSignal): Promise<void> => {
    const from = { signal, ...defined({ netns: birthNetns }) };
    try {
      await runIpLines([setLink(name, { mtu }), moveLink(name, netns)], from);
    } catch (error) {
      // Another agent may have moved it in the meantime, or that of a process which ends because another one serves the device.
      const isMoved = (await find(name, netns, signal)) !== undefined;
      if (!isMoved && (await find(name, birthNetns, signal)) !== undefined) throw error;
    }
  };

  const watches = new Map<string, Disposable>();
  const watch = async (name: string): Promise<void> => {
    const { onLost } = options;
    if (onLost === undefined || watches.has(name)) return;
    const begun: Disposable = { [Symbol.dispose]() {} };
    watches.set(name, begun);
    const watched = await watchProcess(folder, name, () => {
      watches.delete(name);
      onLost(name);
    });
    // It may have been removed in the meantime.
    if (watches.get(name) !== begun) watched?.[Symbol.dispose]();
    else if (watched === undefined) watches.delete(name);
    else watches.set(name, watched);
  };

  return {
    kind: "wireguard-go",
    async list() {
      const files = await readdir(folder).catch(() => []);
      return files.filter((it) => it.endsWith(".sock")).map((it) => it.slice(0, -".sock".length));
    },
    async read(name, signal) {
      await emptyLargeLog(logOf(folder, name));
      const [answer, link] = await Promise.all([ask(name, GET_REQUEST, signal), find(name, netns, signal)]);
      if (answer === undefined || link === undefined) return undefined;
      checkAnswer(name, answer);
      await watch(name);
      return { name, mtu: link.mtu, isUp: link.isUp, ...parseAnswer(answer) };
    },
    async create(name, mtu, signal) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      if (options.cgroup !== undefined) await makeCgroup(options.cgroup);
      let process: Started | undefined;
      const take = async (step: Step, isLasting: boolean): Promise<void> => {
        if (step === "start") process = startProcess(name, options);
        if (step === "move") await move(name, mtu, signal);
        // Without its socket the process ends.
        if (step === "end" && isLasting) await rm(socketOf(folder, name), { force: true });
        if (step === "report" && isLasting) throw startError(name, folder);
        if (step === "refuse" && isLasting) throw foreignError(name, options);
      };
      const deadlineMs = clock.monotonic() + START_TIMEOUT_MS;
      let before: { readonly step: Step; readonly sinceMs: number } | undefined;
      for (let nowMs = clock.monotonic(); nowMs < deadlineMs; nowMs = clock.monotonic()) {
        const step = nextStep({ process: process?.state(), ...(await look(name, signal)) });
        if (step === "done") return;
        if (before?.step !== step) before = { step, sinceMs: nowMs };
        await take(step, nowMs - before.sinceMs >= PATIENCE_MS);
        await delay(clock, LOOK_MS, signal);
      }
      throw new FleetError(
        "TIMED_OUT",
        `wireguard-go has not made the device ${name} in ${START_TIMEOUT_MS} ms`,
      );
    },
    async setUp(name, mtu, signal) {
      // No link-local address, as on the kernel's WireGuard: it would send router solicitations and group reports.
      const lines = [setLink(name, { addressGeneration: "none" }), setLink(name, { up: true, mtu })];
      await runIpLines(lines, { netns, signal });
    },
    async change(name, change, signal) {
      checkAnswer(name, (await ask(name, setRequest(change), signal)) ?? "");
    },
    async remove(name, signal) {
      watches.get(name)?.[Symbol.dispose]();
      watches.delete(name);
      const link = await find(name, netns, signal);
      // Without its device the process ends, even one that hangs. A device of another kind is not its device.
      if (link?.kind === "tun") await deleteDevice(name, { netns, signal });
      for (const file of [socketOf(folder, name), logOf(folder, name)]) await rm(file, { force: true });
    },
    [Symbol.dispose]() {
      for (const it of watches.values()) it[Symbol.dispose]();
      watches.clear();
    },
  };
}

interface Situation {
  /** The process that this call started. Absent before. */
  readonly process: "runs" | "ended" | undefined;
  readonly isServed: boolean;
  readonly device: "in place" | "born" | "absent";
}

type Step = "done" | "move" | "end" | "start" | "wait" | "report" | "refuse";

/** What brings a device nearer to its place. Pure. */
export function nextStep({ process, isServed, device }: Situation): Step {
  // If neither namespace has a device that is served, its namespace has been deleted.
  if (isServed) return device === "in place" ? "done" : device === "born" ? "move" : "end";
  if (process === "runs") return "wait";
  if (process === "ended") return "report";
  return device === "absent" ? "start" : "refuse";
}

interface Started {
  state(): "runs" | "ended";
}

/** What starts wireguard-go, in the folder of its sockets. */
export function wireguardGo(
  name: string,
  { birthNetns, cgroup }: Pick<WireguardOptions, "birthNetns" | "cgroup">,
): CommandLine {
  const args = [
    "--mount",
    "--propagation",
    "slave",
    "--",
    "sh",
    "-c",
    SCRIPT,
    "wireguard-go",
    deviceWord(name),
    cgroup ?? "",
  ];
  return birthNetns === undefined ? { command: "unshare", args } : inNetns(birthNetns, "unshare", args);
}

function startProcess(name: string, options: WireguardOptions): Started {
  const { folder } = options;
  const line = wireguardGo(name, options);
  const log = openSync(logOf(folder, name), "a", 0o600);
  // The environment is inherited: it is how the owner of all processes of a lab finds them.
  const child = start(line.command, line.args, { detached: true, cwd: folder, stdio: ["ignore", log, log] });
  closeSync(log);
  child.unref();
  let failed = false;
  child.once("error", () => {
    failed = true;
  });
  return {
    state: () => (failed || child.exitCode !== null || child.signalCode !== null ? "ended" : "runs"),
  };
}

/** Not with its parents: file systems without folders of users would keep `mkdir` busy for ever. */
async function makeCgroup(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (!(Error.isError(error) && "code" in error && error.code === "EEXIST")) throw error;
  }
}

function startError(name: string, folder: string): FleetError {
  const log = logOf(folder, name);
  const said = readFileSync(log, "utf8").trim().split("\n").slice(-4).join("\n");
  // inotify_init(2) reports its limit so.
  const advice = said.includes("too many open files")
    ? "; if this user has no inotify instance left, raise the limit: sysctl -w fs.inotify.max_user_instances=8192"
    : "";
  return new FleetError(
    "WIREGUARD_FAILED",
    `cannot start wireguard-go for the device ${name}; the end of ${log}:\n${said}${advice}`,
    {
      retriable: true,
    },
  );
}

function foreignError(name: string, options: WireguardOptions): FleetError {
  const where = [options.netns, options.birthNetns ?? "that of this process"].join(" or ");
  return new FleetError(
    "WIREGUARD_FAILED",
    `cannot make the WireGuard device ${name}: a network namespace, ${where}, has another device of that name; delete it: ip link delete dev ${name}`,
    // That of a process that has just been killed is about to go.
    { retriable: true },
  );
}

async function emptyLargeLog(file: string): Promise<void> {
  const size = await stat(file).then(
    (it) => it.size,
    () => 0,
  );
  if (size > MAX_LOG) await truncate(file);
}

function socketOf(folder: string, name: string): string {
  return join(folder, `${name}.sock`);
}

function logOf(folder: string, name: string): string {
  return join(folder, `${name}.log`);
}
