import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { root } from "../steps.ts";
import { type TarEntry, writeTar } from "../image/tar.ts";

/** What archives of a release are made with: the same content gives the same bytes. */
export interface Archiving {
  /** Of all files. Unit: seconds since the Unix epoch. */
  readonly modified: number;
  /** 1 to 9. */
  readonly compression: number;
}

export const textOf = (path: string): Buffer => readFileSync(join(root, path));

export function writeTgz(entries: readonly TarEntry[], { modified, compression }: Archiving): Buffer {
  return gzipSync(writeTar(entries, modified), { level: compression });
}

/** The files below a folder, sorted, with paths below `prefix`. */
export function filesBelow(folder: string, prefix: string): readonly TarEntry[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((it) => join(folder, it))
    .filter((it) => lstatSync(it).isFile())
    .toSorted()
    .map((it) => ({
      type: "file",
      path: prefix + relative(folder, it),
      mode: 0o644,
      data: readFileSync(it),
    }));
}
