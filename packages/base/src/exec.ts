import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { FleetError } from "./errors.ts";

/** The only file that starts processes. Arguments are passed as a list; nothing here goes through a shell. */

export interface ExecOptions {
  /** Written to standard input, which is then closed. */
  readonly input?: string | Uint8Array;
  /** Kills the process when it aborts. */
  readonly signal?: AbortSignal;
  /** Longest the process may run. Unit: milliseconds. Default: 30 000. */
  readonly timeoutMs?: number;
  /** The whole environment; default: that of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Set in addition to `env`, or to the environment of this process. */
  readonly addEnv?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Return a result whatever the exit code, instead of throwing. Default: false. */
  readonly allowFailure?: boolean;
}

export interface ExecResult {
  readonly stdout: string;
  readonly stderr: string;
  /** 128 + the signal's number when a signal ended the process, as shells report it. */
  readonly exitCode: number;
}

/**
 * Runs a program to its end and collects what it prints.
 *
 * @throws {FleetError} `EXEC_FAILED` when it cannot be started or ends with another code than 0 (see `allowFailure`),
 *   `TIMED_OUT` after `timeoutMs`, `ABORTED` when `signal` aborts.
 */
export function exec(
  command: string,
  args: readonly string[],
  options: ExecOptions = {},
): Promise<ExecResult> {
  const timeoutMs = options.timeoutMs ?? 30_000;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...(options.env ?? process.env), ...options.addEnv },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      killSignal: "SIGKILL",
    });
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill("SIGKILL");
    }, timeoutMs);
    child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
    // A child that exits before it reads its input raises EPIPE here; its exit code is reported instead.
    child.stdin.on("error", () => {});
    child.stdin.end(options.input);
    child.once("error", (cause) => {
      clearTimeout(timer);
      if (options.signal?.aborted === true)
        reject(new FleetError("ABORTED", `${command} was cancelled`, { cause }));
      else
        reject(
          new FleetError("EXEC_FAILED", `cannot start ${command}`, { cause, detail: { command, args } }),
        );
    });
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      const result = {
        stdout: Buffer.concat(stdout).toString("utf8"),
        stderr: Buffer.concat(stderr).toString("utf8"),
        exitCode: code ?? 128 + signalNumber(signal),
      };
      if (timedOut) {
        reject(
          new FleetError("TIMED_OUT", `${command} ran longer than ${timeoutMs} ms`, {
            detail: { command, args },
          }),
        );
      } else if (result.exitCode === 0 || options.allowFailure === true) resolve(result);
      else reject(execError(command, args, result));
    });
  });
}

function execError(command: string, args: readonly string[], result: ExecResult): FleetError {
  const said = (result.stderr.trim() || result.stdout.trim()).slice(0, 2000);
  const message = `${[command, ...args].join(" ").slice(0, 300)} ended with code ${result.exitCode}: ${said}`;
  return new FleetError("EXEC_FAILED", message, { detail: { command, args, exitCode: result.exitCode } });
}

const SIGNAL_NUMBERS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGTERM: 15,
};

function signalNumber(signal: NodeJS.Signals | null): number {
  return signal === null ? 0 : (SIGNAL_NUMBERS[signal] ?? 0);
}

export interface SpawnOptions {
  /** The whole environment; default: that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** As Node's `stdio`. Default: all ignored. */
  readonly stdio?: StdioOptions;
  /** Starts it in a separate session and process group, so that it outlives this process. Default: false. */
  readonly detached?: boolean;
}

/** Starts a program without waiting for it. Errors of starting arrive as the child's `error` event. */
export function start(command: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
  return spawn(command, args, {
    stdio: options.stdio ?? "ignore",
    detached: options.detached ?? false,
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
}
