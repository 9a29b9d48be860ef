import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

/** What stands in place of the machine's boot once the journal was closed, and with it everything in its file. */
const CLOSED = "closed";
const REVISION_DIGITS = 16;
const BY_LENGTH = 36;
const LINE_LENGTH = REVISION_DIGITS + BY_LENGTH + 2;

export interface Mark {
  /** The newest revision that was given out. */
  readonly revision: number;
  /** Whether the machine has started anew since, or nobody knows, and the journal had not been closed. */
  readonly isOfEarlierBoot: boolean;
}

/**
 * The newest revision that was given out, in a small file beside the journal. A journal that ends before it has lost
 * writes that somebody was told of. It is written with each commit, and reaches the disk when the kernel says so: as with
 * the journal, a power cut may lose the last of it.
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

  /** Undefined when there is none yet, "unreadable" when it is damaged. */
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
      // What was committed stays so; the mark is behind it until the next commit.
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

/** Another one after each start of the machine. Where the platform does not tell, it is always the same. */
function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "unknown";
  }
}
