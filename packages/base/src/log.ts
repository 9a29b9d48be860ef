import { pino } from "pino";
import { escapeControls } from "./print.ts";

/** Structured log: a constant message, and fields. Nothing secret goes in either. */
export interface Logger {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** A logger that adds `fields` to every line. */
  child(fields: Readonly<Record<string, unknown>>): Logger;
}

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** Fields with these names are replaced before a line is written, at the first two levels. */
const SECRET_FIELDS = [
  "token",
  "password",
  "privateKey",
  "authorization",
  "*.token",
  "*.password",
  "*.privateKey",
  "*.authorization",
];

/** JSON lines on standard error. */
export function createLogger(component: string, level: LogLevel = "info"): Logger {
  const output = pino.destination({ fd: 2, sync: true });
  // Lines are read on terminals, and fields hold text of clusters; JSON itself escapes only a part of what steers one.
  const destination = { write: (line: string) => output.write(escapeControls(line)) };
  const options = {
    level,
    base: { component },
    timestamp: () => `,"ts":"${new Date().toISOString()}"`,
    redact: { paths: SECRET_FIELDS, censor: "[redacted]" },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return wrap(pino(options, destination));
}

/** Drops everything: for tests that do not look at the log. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};

function wrap(logger: pino.Logger): Logger {
  return {
    debug: (message, fields = {}) => logger.debug(fields, message),
    info: (message, fields = {}) => logger.info(fields, message),
    warn: (message, fields = {}) => logger.warn(fields, message),
    error: (message, fields = {}) => logger.error(fields, message),
    child: (fields) => wrap(logger.child(fields)),
  };
}
