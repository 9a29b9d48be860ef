/** Kills agents at any of their steps, in the process of a test. */

import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { quoteWord } from "@fairlead/lab/images/quote.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";

const PROGRAMS = ["ip", "nft", "nsenter", "unshare", "umount", "wg"];

/**
 * What an agent does to the kernel, by programs that it starts and by messages: after some of these steps it is dead, and does nothing more.
 */
export class Killer {
  readonly #folder: string;
  #armings = 0;
  readonly #path = process.env["PATH"] ?? "";

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder);
    for (const name of PROGRAMS) {
      const file = join(folder, name);
      // Those that a program starts itself do not count.
      const lines = [
        "#!/bin/sh",
        `PATH=${quoteWord(this.#path)}; export PATH`,
        // Of one arming: what still runs when the next one begins is of no account for it.
        `now=$(cat ${quoteWord(`${folder}/now`)})`,
        `if [ -e "$now/dead" ]; then exit 137; fi`,
        // One line for each program, also for one with a script of many lines as an argument.
        `line=$(echo "${name} $*" | tr '\\n' ' '); echo "$line" >> "$now/started"`,
        `if [ "$(wc -l < "$now/started")" = "$(cat "$now/limit")" ]; then`,
        `  if [ "$(cat "$now/when")" = after ]; then ${name} "$@"; fi`,
        `  touch "$now/dead"; exit 137`,
        "fi",
        `exec ${name} "$@"`,
      ];
      writeFileSync(file, `${lines.join("\n")}\n`);
      chmodSync(file, 0o755);
    }
    this.arm(0, "before");
    process.env["PATH"] = `${folder}:${this.#path}`;
  }

  /** @param limit - 0: none is killed. */
  arm(limit: number, when: "before" | "after"): void {
    this.#armings += 1;
    mkdirSync(this.#now);
    for (const [name, text] of Object.entries({ started: "", limit, when }))
      writeFileSync(join(this.#now, name), String(text));
    writeFileSync(join(this.#folder, "now.new"), this.#now);
    renameSync(join(this.#folder, "now.new"), join(this.#folder, "now"));
  }

  /** What belongs to the present arming. */
  get #now(): string {
    return join(this.#folder, `arming-${this.#armings}`);
  }

  get isDead(): boolean {
    return existsSync(join(this.#now, "dead"));
  }

  get started(): readonly string[] {
    return readFileSync(join(this.#now, "started"), "utf8").trim().split("\n");
  }

  /** The C library, of which each message is a step. */
  readonly loadLibC = async (): Promise<LibC | undefined> => {
    const libc = await loadLibC();
    return libc && { ...libc, send: (...args) => this.#step(() => libc.send(...args)) };
  };

  #step(send: () => number): number {
    if (this.isDead) return -1;
    appendFileSync(join(this.#now, "started"), "message\n");
    const read = (name: string): string => readFileSync(join(this.#now, name), "utf8");
    if (this.started.length !== Number(read("limit"))) return send();
    if (read("when") === "after") send();
    writeFileSync(join(this.#now, "dead"), "");
    return -1;
  }

  [Symbol.dispose](): void {
    process.env["PATH"] = this.#path;
  }
}
