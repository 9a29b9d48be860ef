import { createHash } from "node:crypto";
import { mkdirSync, mkdtempDisposableSync, readFileSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";

/** Loads native libraries that the single executable carries: the system loads them from files only. */

export interface NativePart {
  /** The file name, such as "koffi.node". */
  readonly name: string;
  readonly data: Uint8Array;
  /** Its digest when the executable was built, in hexadecimal. */
  readonly sha256: string;
}

/** Folders to unpack it in; the first that is writable and not mounted noexec is used. */
function folders(): readonly string[] {
  const cache = process.env["XDG_CACHE_HOME"];
  const own = cache === undefined || cache === "" ? join(homedir(), ".cache") : cache;
  return [tmpdir(), join(own, "fairlead"), "/dev/shm"];
}

/**
 * Writes the part into a new folder that only this user can enter, verifies the digest of the file, loads it, and
 * removes the folder, so that no other process can change it.
 *
 * @throws {FleetError} `EXEC_FAILED`
 */
export function loadNative(part: NativePart, parents: readonly string[] = folders()): unknown {
  const problems: string[] = [];
  for (const parent of parents) {
    try {
      return loadIn(parent, part);
    } catch (error) {
      if (error instanceof DamagedPart) throw error;
      problems.push(`${parent}: ${messageOf(error)}`);
    }
  }
  throw new FleetError(
    "EXEC_FAILED",
    `cannot load ${part.name}; set TMPDIR to a folder from which programs may run: ${problems.join("; ")}`,
  );
}

class DamagedPart extends FleetError {}

function loadIn(parent: string, { name, data, sha256 }: NativePart): unknown {
  mkdirSync(parent, { recursive: true });
  // Made with mode 0700.
  using folder = mkdtempDisposableSync(join(parent, "fairlead-"));
  const file = join(folder.path, name);
  writeFileSync(file, data, { flag: "wx", mode: 0o500 });
  const found = createHash("sha256").update(readFileSync(file)).digest("hex");
  if (found !== sha256)
    throw new DamagedPart(
      "EXEC_FAILED",
      `cannot load ${name}: its SHA-256 is ${found}, not ${sha256}; this executable is damaged, install it again`,
    );
  const module = { exports: {} };
  process.dlopen(module, file);
  return module.exports;
}
