import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import { renderBootTable } from "./boot-table.ts";

/** How long a table that changes is not written again. Unit: milliseconds. */
const REST_MS = 10_000;

/** The file from which a node has its policies after a boot, until its agent runs: rules for `nft --file`. */
export class SavedTable {
  readonly #file: string;
  readonly #deps: Pick<RuntimeDeps, "clock" | "log">;
  /** What is in the file; undefined: not known, or there is none. */
  #text: string | undefined;
  /** The table that may differ from it. */
  #wanted: NftTable | undefined;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #mayExist = true;

  constructor(file: string, deps: Pick<RuntimeDeps, "clock" | "log">) {
    this.#file = file;
    this.#deps = deps;
  }

  /** When `save` is due again. Unit: milliseconds. */
  get dueInMs(): number {
    if (this.#wanted === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(1, this.#triedAtMs + REST_MS - this.#deps.clock.monotonic());
  }

  /**
   * Keeps a table: the first one at once, later ones in intervals, and only those with another text.
   *
   * @param table - Undefined: it is the same as before.
   */
  async save(table: NftTable | undefined): Promise<void> {
    this.#wanted = table ?? this.#wanted;
    const isDue = this.#deps.clock.monotonic() - this.#triedAtMs >= REST_MS;
    if (isDue || !this.#mayExist) await this.flush();
  }

  /** Writes what waits. Policies do not wait for a disk that is full: a failure is logged, and it is tried again. */
  async flush(): Promise<void> {
    if (this.#wanted === undefined) return;
    const { clock, log } = this.#deps;
    this.#triedAtMs = clock.monotonic();
    this.#mayExist = true;
    const text = renderBootTable(this.#wanted);
    try {
      this.#text ??= await readFile(this.#file, "utf8").catch(() => undefined);
      if (text !== this.#text) await writeDurably(this.#file, text);
      this.#text = text;
      this.#wanted = undefined;
    } catch (error) {
      this.#text = undefined;
      log.warn("the policies that the node begins with after a boot cannot be kept", {
        file: this.#file,
        error: messageOf(error),
      });
    }
  }

  /** The next boot begins without a table. */
  async remove(): Promise<void> {
    this.#wanted = undefined;
    this.#text = undefined;
    if (!this.#mayExist) return;
    await rm(this.#file, { force: true });
    this.#mayExist = false;
  }
}

/** As a whole, and on the disk: it is for the time after a power failure. */
async function writeDurably(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.new`;
  {
    await using file = await open(draft, "w", 0o600);
    await file.writeFile(text);
    await file.sync();
  }
  await rename(draft, path);
  await using folder = await open(dirname(path));
  await folder.sync();
}

/** File in which the init unit of the node leaves the id of the boot, once it has loaded the table. */
const MARK = "policy.restored";
/** Of an id of the kernel, with its newline. Unit: characters. */
const MARK_LENGTH = 37;

/** The boot at which the node loaded its saved table; undefined if it never did. */
export async function readMark(stateDir: string): Promise<string | undefined> {
  const text = await readFile(join(stateDir, MARK), "utf8").catch(() => "");
  return text === "" || text.length > MARK_LENGTH ? undefined : text.trim();
}

export interface RestoreOptions {
  readonly file: string;
  /** File of the network namespace. Default: that of this process. */
  readonly netns?: string | undefined;
  readonly log: Logger;
}

/** Loads a saved table where the kernel has none, as `nft --file` does at the boot of the node. */
export async function restoreTable({ file, netns, log }: RestoreOptions, signal: AbortSignal): Promise<void> {
  const args = ["--file", file];
  const line = netns === undefined ? { command: "nft", args } : inNetns(netns, "nft", args);
  // Of many policies of the node itself, the rules take nft seconds on a busy machine. Its messages are read: they must be in English.
  const options = { signal, timeoutMs: 60_000, allowFailure: true, addEnv: { LC_ALL: "C" } };
  if ((await readFile(file).catch(() => undefined)) === undefined) return;
  const { exitCode, stderr } = await exec(line.command, line.args, options);
  if (exitCode === 0) log.info("the last known table of policies is in place", { file });
  else if (!stderr.includes("File exists"))
    log.warn("the last known table of policies cannot be loaded", {
      file,
      error: stderr.trim().slice(0, 500),
    });
}
