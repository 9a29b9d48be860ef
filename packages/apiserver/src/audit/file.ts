import { closeSync, fstatSync, openSync, readdirSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import type { Clock } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";

export interface AuditFileOptions {
  /** A new file is begun before this one would grow beyond. Unit: bytes. */
  readonly maxBytes: number;
  /** Older files that are kept. */
  readonly maxBackups: number;
}

/**
 * A log file that is rotated and whose old backups are deleted, so that disk usage is bounded. Each line is written to
 * the kernel before the request continues: a killed process has logged every request that it answered.
 */
export class AuditFile implements Disposable {
  readonly #path: string;
  readonly #options: AuditFileOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  #fd: number;
  #bytes: number;

  /** @throws {Error} when the file cannot be opened. */
  constructor(path: string, options: AuditFileOptions, { clock, log }: { clock: Clock; log: Logger }) {
    this.#path = path;
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#fd = openSync(path, "a", 0o600);
    this.#bytes = fstatSync(this.#fd).size;
  }

  readonly write = (line: string): void => {
    const bytes = Buffer.from(`${line}\n`);
    try {
      if (this.#bytes > 0 && this.#bytes + bytes.length > this.#options.maxBytes) this.#rotate();
      writeSync(this.#fd, bytes);
      this.#bytes += bytes.length;
    } catch (error) {
      // A full disk must not stop the API; the server's own log says what is missing.
      this.#log.error("cannot write an audit event", { path: this.#path, error: messageOf(error) });
    }
  };

  #rotate(): void {
    const extension = extname(this.#path);
    const stem = this.#path.slice(0, this.#path.length - extension.length);
    const at = new Date(this.#clock.now()).toISOString().replaceAll(":", "-");
    renameSync(this.#path, `${stem}-${at}${extension}`);
    closeSync(this.#fd);
    this.#fd = openSync(this.#path, "a", 0o600);
    this.#bytes = 0;
    this.#dropOld(`${basename(stem)}-`, extension);
  }

  #dropOld(prefix: string, extension: string): void {
    const folder = dirname(this.#path);
    const backups = readdirSync(folder)
      .filter((it) => it.startsWith(prefix) && it.endsWith(extension))
      .filter((it) =>
        /^\d{4}-\d\d-\d\dT[\d.-]+Z$/.test(it.slice(prefix.length, it.length - extension.length)),
      )
      .toSorted();
    for (const name of backups.slice(0, Math.max(0, backups.length - this.#options.maxBackups))) {
      unlinkSync(join(folder, name));
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }
}
