import { defined } from "@fairlead/base/defined.ts";
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { Socket } from "node:net";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import {
  containerFolder,
  type ContainerRecord,
  readRecord,
  readShimReport,
  type ShimReport,
} from "./folder.ts";
import { watchLogTimes } from "./log-times.ts";
import { isRunning, type ProcessIdentity, signalProcess } from "./process.ts";
import { type ContainerSpec, prepareFolder } from "./prepare.ts";
import { openTerminal } from "./pty.ts";
import { type MachineFiles, readMachineFiles } from "./machine-files.ts";
import { installShim } from "./shim.ts";
import { terminationMessage } from "./termination.ts";

export interface ContainerExit {
  readonly code: number;
  readonly reason: "Completed" | "Error" | "StartError" | "ContainerStatusUnknown";
  readonly message?: string;
  /** Unit: milliseconds since the Unix epoch. */
  readonly atMs: number;
}

/** A container as it is now. */
export interface ContainerView extends ContainerRecord {
  readonly folder: string;
  /** Undefined when the program could not be started. */
  readonly process: ProcessIdentity | undefined;
  /** Unit: milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  readonly exit: ContainerExit | undefined;
}

export interface RuntimeOptions {
  /** Folder of the node. */
  readonly dataDir: string;
  /** Environment of the shim; the lab recognizes its own processes by it. */
  readonly shimEnv: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly onExit: (container: ContainerView) => void;
}

/** The search path of the shim itself. */
export const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Runs containers, and finds those again that an earlier kubelet started. */
export class ContainerRuntime implements Disposable {
  readonly #options: RuntimeOptions;
  readonly #containers = new Map<string, ContainerView>();
  readonly #watches = new Map<string, Socket>();
  readonly #logTimes = new Map<string, Disposable>();
  readonly #ends = new Map<string, PromiseWithResolvers<number>>();
  readonly #stage: string;
  readonly #hold: string;
  readonly #machine: MachineFiles;
  readonly pods: string;

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.pods = join(options.dataDir, "pods");
    this.#stage = join(options.dataDir, "stage");
    mkdirSync(this.pods, { recursive: true, mode: 0o700 });
    mkdirSync(this.#stage, { recursive: true, mode: 0o700 });
    this.#hold = installShim(join(options.dataDir, "shim")).hold;
    this.#machine = readMachineFiles();
    const isSameBoot = this.#noteBoot();
    for (const folder of this.#folders()) {
      // Ids and start times count from the machine's start: after another one they name other processes.
      if (!isSameBoot) this.#markLost(folder);
      this.#adopt(folder);
    }
  }

  [Symbol.dispose](): void {
    for (const watch of this.#watches.values()) watch.destroy();
    this.#watches.clear();
    for (const times of this.#logTimes.values()) times[Symbol.dispose]();
    this.#logTimes.clear();
  }

  /** Resolves with the exit code once the container has ended. */
  endOf(container: ContainerView): Promise<number> {
    const { exit } = this.#containers.get(container.folder) ?? container;
    if (exit !== undefined) return Promise.resolve(exit.code);
    const end = this.#ends.get(container.folder) ?? Promise.withResolvers<number>();
    this.#ends.set(container.folder, end);
    return end.promise;
  }

  /** Containers of a pod, each with all its runs that are still known. */
  *ofPod(podUid: string): Iterable<ContainerView> {
    for (const container of this.#containers.values()) if (container.podUid === podUid) yield container;
  }

  /** The newest run of a container, or the one before it. */
  latest(podUid: string, name: string, back = 0): ContainerView | undefined {
    const runs = [...this.ofPod(podUid)].filter((it) => it.name === name);
    return runs.toSorted((a, b) => b.attempt - a.attempt)[back];
  }

  /**
   * Starts a container and resolves when its program was started. Where that fails, the container has ended with the
   * reason `StartError` and exit code 128, as upstream reports it.
   */
  async run(spec: ContainerSpec): Promise<ContainerView> {
    const folder = containerFolder(this.pods, spec);
    rmSync(folder, { recursive: true, force: true });
    const terminal = spec.tty ? await openTerminal("/dev/pts", "/dev/ptmx") : undefined;
    const { shimEnv } = this.#options;
    const hidden = [dirname(this.pods)];
    prepareFolder(folder, spec, { ...this.#machine, hidden, shimEnv, terminal: terminal?.path });
    if (spec.stdin) await exec("mkfifo", ["-m", "600", join(folder, "stdin")]);
    const ends: readonly (number | "ignore")[] = terminal ? [terminal.master, terminal.slave] : [];
    const holder = start("/bin/sh", [this.#hold, folder, this.#stage, ...holdArguments(spec)], {
      detached: true,
      cwd: "/",
      env: { PATH: SYSTEM_PATH, ...shimEnv },
      stdio: ["ignore", "ignore", "ignore", "pipe", "ignore", "ignore", ...ends],
    });
    if (terminal !== undefined) for (const fd of [terminal.master, terminal.slave]) closeSync(fd);
    const ended = new Promise<void>((resolve) => {
      holder.once("exit", () => resolve());
      holder.once("error", () => resolve());
    });
    const reported = await readUntilStarted(holder.stdio[3] as Readable);
    if (!reported.endsWith(STARTED)) {
      await ended;
      replaceFileSync(
        join(folder, "start-error"),
        reported.trim() || "the container ended while it was being set up",
      );
    }
    const view = this.#load(folder);
    if (view === undefined)
      throw new FleetError("EXEC_FAILED", `the folder ${folder} of the container was removed`);
    holder.unref();
    void ended.then(() => this.#settle(folder));
    return view;
  }

  /** Sends a signal to process 1 of the container; SIGKILL ends all its processes. */
  signal(container: ContainerView, signal: NodeJS.Signals): void {
    if (container.exit === undefined && container.process !== undefined)
      signalProcess(container.process, signal);
  }

  /** Forgets a container that has ended, with its log. */
  remove(container: ContainerView): void {
    if (this.#containers.get(container.folder)?.exit === undefined) return;
    this.#containers.delete(container.folder);
    rmSync(container.folder, { recursive: true, force: true });
  }

  *#folders(): Iterable<string> {
    for (const uid of readdirSync(this.pods)) {
      const containers = join(this.pods, uid, "containers");
      if (!existsSync(containers)) continue;
      for (const name of readdirSync(containers))
        for (const attempt of readdirSync(join(containers, name))) yield join(containers, name, attempt);
    }
  }

  #noteBoot(): boolean {
    const file = join(this.#options.dataDir, "boot");
    const now = readFileSync("/proc/sys/kernel/random/boot_id", "utf8");
    const before = existsSync(file) ? readFileSync(file, "utf8") : now;
    replaceFileSync(file, now);
    return before === now;
  }

  #markLost(folder: string): void {
    const { exit, process } = readShimReport(folder);
    if (exit === undefined && process !== undefined) replaceFileSync(join(folder, "exit"), UNKNOWN_EXIT);
    rmSync(join(folder, "holder"), { force: true });
  }

  /** Takes over what an earlier kubelet started, or finds out how it ended. */
  #adopt(folder: string): void {
    const { holder } = readShimReport(folder);
    const view = this.#load(folder);
    if (view === undefined) {
      // The container never reached its program, and its start was never reported.
      if (holder !== undefined) signalProcess(holder, "SIGKILL");
      rmSync(folder, { recursive: true, force: true });
      return;
    }
    if (view.exit !== undefined) return;
    if (holder !== undefined && existsSync(join(folder, "alive"))) this.#watchHolder(folder);
    if (holder === undefined || !isRunning(holder)) this.#settle(folder, { quietly: true });
  }

  /** What the folder says; undefined when it does not hold a container that got as far as its program. */
  #load(folder: string): ContainerView | undefined {
    const record = readRecord(folder);
    const report = readShimReport(folder);
    const { startError: message, process, startedAtMs } = report;
    if (record === undefined) return undefined;
    let view: ContainerView;
    if (message !== undefined) {
      const exit = { code: 128, reason: "StartError", message: message.text, atMs: message.atMs } as const;
      view = { ...record, folder, process: undefined, startedAtMs: message.atMs, exit };
    } else if (process !== undefined && startedAtMs !== undefined) {
      view = { ...record, folder, process, startedAtMs, exit: exitOf(report, folder, record) };
    } else return undefined;
    this.#containers.set(folder, view);
    const times = watchLogTimes(folder, this.#options.clock);
    if (view.exit === undefined) this.#logTimes.set(folder, times);
    // One that ended before it was looked at has written, too.
    else times[Symbol.dispose]();
    return view;
  }

  /** Notices the end of a holder that is not this process's child: it holds the only writing end of a pipe. */
  #watchHolder(folder: string): void {
    const fd = openSync(join(folder, "alive"), constants.O_RDONLY | constants.O_NONBLOCK);
    const watch = new Socket({ fd, readable: true, writable: false });
    watch.on("error", () => {});
    watch.once("close", () => {
      if (this.#watches.delete(folder)) this.#settle(folder);
    });
    watch.resume();
    watch.unref();
    this.#watches.set(folder, watch);
  }

  /** The holder has ended: what it wrote is how the container ended. */
  #settle(folder: string, options: { readonly quietly?: boolean } = {}): void {
    this.#watches.get(folder)?.destroy();
    this.#watches.delete(folder);
    const container = this.#containers.get(folder);
    if (container === undefined || container.exit !== undefined) return;
    let exit = exitOf(readShimReport(folder), folder, container);
    if (exit === undefined) {
      // Without a holder its exit code would be lost, so the container is ended.
      if (container.process !== undefined) signalProcess(container.process, "SIGKILL");
      replaceFileSync(join(folder, "exit"), UNKNOWN_EXIT);
      exit = exitOf(readShimReport(folder), folder, container);
    }
    const ended = { ...container, exit };
    this.#containers.set(folder, ended);
    this.#logTimes.get(folder)?.[Symbol.dispose]();
    this.#logTimes.delete(folder);
    this.#ends.get(folder)?.resolve(exit?.code ?? 137);
    this.#ends.delete(folder);
    if (options.quietly !== true) this.#options.onExit(ended);
  }
}

export type { ContainerRecord };

/** Written in place of a lost exit code. */
const UNKNOWN_EXIT = "unknown\n";

function exitOf(
  { exit }: ShimReport,
  folder: string,
  { fallsBackToLogs }: ContainerRecord,
): ContainerExit | undefined {
  if (exit === undefined) return undefined;
  const { code, atMs } = exit;
  const said = terminationMessage(folder, { code, fallsBackToLogs });
  if (code !== undefined) {
    const reason = code === 0 ? "Completed" : "Error";
    return { code, reason, ...defined({ message: said }), atMs };
  }
  const message = "The process that held the container was killed, and the exit code with it";
  return { code: 137, reason: "ContainerStatusUnknown", message, atMs };
}

function holdArguments(spec: ContainerSpec): readonly string[] {
  const [program = ""] = spec.argv;
  return [spec.netns ?? "", spec.hostname, spec.workingDir, program, spec.env.get("PATH") ?? SYSTEM_PATH];
}

const STARTED = "started\n";

/** What the shim reports while it sets up; ends with `STARTED` when that went well. */
async function readUntilStarted(stream: Readable): Promise<string> {
  let reported = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    reported += chunk as string;
    // The shim's processes keep their end open for as long as the container lives.
    if (reported.endsWith(STARTED)) break;
  }
  return reported;
}
