/**
 * Archives that depend on nothing but what is in them: POSIX ustar (IEEE 1003.1-1988), entries in the order given, owned by
 * root, all of one time. Long names are split as the format has it; what does not fit is refused. Pure.
 */

export type TarEntry = { readonly path: string; readonly mode: number } & (
  | { readonly type: "file"; readonly data: Uint8Array }
  | { readonly type: "directory" }
  | { readonly type: "link"; readonly target: string }
);

const BLOCK = 512;
const TYPES = { file: "0", link: "2", directory: "5" } as const;

/** @param modified Unit: seconds since the Unix epoch. */
export function writeTar(entries: readonly TarEntry[], modified: number): Buffer {
  const parts: Uint8Array[] = [];
  for (const entry of entries) {
    const data = entry.type === "file" ? entry.data : new Uint8Array();
    parts.push(header(entry, data.length, modified), data, new Uint8Array(padding(data.length)));
  }
  // Two empty blocks end an archive.
  return Buffer.concat([...parts, new Uint8Array(2 * BLOCK)]);
}

function padding(length: number): number {
  return (BLOCK - (length % BLOCK)) % BLOCK;
}

function header(entry: TarEntry, size: number, modified: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const { prefix, name } = splitPath(entry.type === "directory" ? `${entry.path}/` : entry.path);
  const text = (value: string, at: number, length: number): void => {
    if (Buffer.byteLength(value) > length) throw new RangeError(`too long for an archive: ${value}`);
    block.write(value, at, length, "utf8");
  };
  const octal = (value: number, at: number, length: number): void =>
    text(value.toString(8).padStart(length - 1, "0"), at, length - 1);
  text(name, 0, 100);
  octal(entry.mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(modified, 136, 12);
  text(TYPES[entry.type], 156, 1);
  if (entry.type === "link") text(entry.target, 157, 100);
  text("ustar", 257, 6);
  text("00", 263, 2);
  octal(0, 329, 8);
  octal(0, 337, 8);
  text(prefix, 345, 155);
  // The sum is of the block with spaces in its own place.
  block.fill(" ", 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, 8, "latin1");
  return block;
}

function splitPath(path: string): { readonly prefix: string; readonly name: string } {
  if (Buffer.byteLength(path) <= 100) return { prefix: "", name: path };
  const slash = path.indexOf("/", path.length - 101);
  return { prefix: path.slice(0, slash), name: path.slice(slash + 1) };
}
