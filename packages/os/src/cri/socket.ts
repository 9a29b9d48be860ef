import { closeSync, openSync } from "node:fs";
import { basename, dirname } from "node:path";

/** The longest path of a unix socket (unix(7)). Unit: bytes. */
const LONGEST = 107;

/** A path at which the socket is, short enough for the kernel, until disposed: the start of a connection or of listening. */
export function shortSocketPath(path: string): Disposable & { readonly path: string } {
  if (Buffer.byteLength(path) <= LONGEST) return { path, [Symbol.dispose]: () => {} };
  const folder = openSync(dirname(path), "r");
  return {
    path: `/proc/self/fd/${folder}/${basename(path)}`,
    [Symbol.dispose]: () => closeSync(folder),
  };
}
