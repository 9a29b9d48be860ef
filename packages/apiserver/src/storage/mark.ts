import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

/** Replaces the boot id once the journal was closed, and all of it is in its file. */
const CLOSED = "closed";
const REVISION_DIGITS = 16;
const BY_LENGTH = 36;
const LINE_LENGTH = REVISION_DIGITS + BY_LENGTH + 2;

export interface Mark {
  /** The newest revision that was given out. */
  readonly revision: number;
  /** Whether the machine was rebooted (or may have been) since, and the journal was not closed. */
  readonly isOfEarlierBoot: boolean;
}

/**
 * The newest acknowledged revision, in a small file next to the journal. A journal that ends at an earlier revision has
 * lost acknowledged writes. The mark is written with each commit, and the kernel decides when it reaches the disk: as
 * with the journal, a power failure may lose the last marks.
 */
export class RevisionMark implements Disposable {
  readonly #fd: number;
  readonly #boot: string;
  #revision = 0;

  /** @throws {Error} where the file cannot be had. */
  constructor(path: string) {
    this.#fd = openSync(path, "a+", 0o600);
    closeSync(this.#fd);
    this.#fd = openSync(path, "r+");
    this.#boot = bootId();
  }

  /** Undefined if it does not exist yet, "unreadable" if it is damaged. */
  read(): Mark | "unreadable" | undefined {
    const text = readFileSync(this.#fd, "latin1").slice(0, LINE_LENGTH);
    if (text === "") return undefined;
    const [, digits, by] = /^(\d{16}) ([\w-]+) *\n$/.exec(text) ?? [];
    if (digits === undefined) return "unreadable";
    return { revision: Number(digits), isOfEarlierBoot: by !== CLOSED && by !== this.#boot };
  }

  set(revision: number): void {
    this.#revision = revision;
    this.#write(this.#boot);
  }

  #write(by: string): void {
    const line = `${String(this.#revision).padStart(REVISION_DIGITS, "0")} ${by.padEnd(BY_LENGTH)}\n`;
    try {
      writeSync(this.#fd, line, 0, "latin1");
    } catch {
      // The commit remains valid; the mark is behind until the next commit.
    }
  }

  /** Says that all of the journal is in its file. */
  [Symbol.dispose](): void {
    if (this.#revision > 0) {
      this.#write(CLOSED);
      fsyncSync(this.#fd);
    }
    closeSync(this.#fd);
  }
}

/** Another one after each start of the machine. Where the platform does not report it, it is always the same. */
function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "unknown";
  }
}
