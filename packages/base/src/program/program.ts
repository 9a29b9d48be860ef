import { printNote } from "#print.ts";
import { closeSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { FleetError, messageOf } from "#errors.ts";
import { exitCodeOf } from "./people.ts";
import { createLogger, type Logger, type LogLevel } from "#log.ts";

/** The common part of long-running programs: signals, readiness, the log and the exit code. */

export interface ProgramContext {
  /** Aborts on SIGTERM and SIGINT. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Reports readiness to the parent process. Safe to call again. */
  ready(): void;
}

export interface ProgramFlags {
  readonly logLevel: string;
  readonly readyFd?: string | undefined;
}

export const LOG_LEVEL_FLAG = ["--log-level <level>", "debug, info, warn, error or silent", "info"] as const;
export const READY_FD_FLAG = [
  "--ready-fd <number>",
  'file descriptor to which "ready" is written once the program serves',
] as const;

/**
 * Runs a program until it returns or a signal ends it. An error is reported once, in the log or in plain text on a terminal,
 * and ends the process with code 1, or 2 if the command line is wrong.
 * A second SIGINT or SIGTERM ends it at once.
 */
export async function runProgram(
  name: string,
  flags: ProgramFlags,
  body: (context: ProgramContext) => Promise<void>,
): Promise<void> {
  const log = createLogger(name, parseLogLevel(flags.logLevel));
  const stop = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(130);
    log.info("stopping", { signal });
    stop.abort(new FleetError("ABORTED", `${signal} received`));
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  let readyFd = parseReadyFd(flags.readyFd);
  // Waits of the clock do not keep a process alive: while one retries with nothing open, the program must not exit.
  const keepAlive = setInterval(() => {}, 0x7f_ff_ff_ff);
  const ready = (): void => {
    log.info("ready");
    // What was compiled until now spares the next start; programs that are killed would never keep it.
    flushCompileCache();
    if (readyFd === undefined) return;
    const fd = readyFd;
    readyFd = undefined;
    try {
      writeSync(fd, "ready\n");
      closeSync(fd);
    } catch (error) {
      log.debug("no process waits for readiness", { error: messageOf(error) });
    }
  };
  try {
    await body({ signal: stop.signal, log, ready });
  } catch (error) {
    if (stop.signal.aborted) return;
    if (process.stderr.isTTY) printNote(`fairlead ${name}: ${messageOf(error)}`);
    else log.error("program failed", { error: messageOf(error) });
    process.exitCode = exitCodeOf(error);
  } finally {
    clearInterval(keepAlive);
    process.off("SIGTERM", onSignal);
    process.off("SIGINT", onSignal);
  }
}

function parseLogLevel(text: string): LogLevel {
  const levels: readonly LogLevel[] = ["debug", "info", "warn", "error", "silent"];
  const level = levels.find((it) => it === text);
  if (level === undefined)
    throw new FleetError("OPTION_INVALID", `--log-level must be one of ${levels.join(", ")}, got ${text}`);
  return level;
}

function parseReadyFd(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const fd = Number(text);
  if (Number.isInteger(fd) && fd > 2) return fd;
  throw new FleetError("OPTION_INVALID", `--ready-fd must be a file descriptor above 2, got ${text}`);
}
