import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import type { MachineFile } from "@fairlead/lab/images/catalogue.ts";

/**
 * Where containers have what our programs consist of. On the machine it may be anywhere: below a home folder, which no other user may
 * enter and no container shows, or in a folder whose name tells about its owner.
 */
const FOLDER = "/run/fairlead";

export interface OwnFiles {
  /** How a container starts the programs, before their arguments. */
  readonly command: readonly string[];
  readonly files: readonly MachineFile[];
}

/**
 * The files of our programs: nothing else of the checkout or package that they are in.
 *
 * @param executable - The Node that runs, or a single executable.
 * @param entry - The entry file of the bundle; undefined for a single executable.
 * @throws {FleetError} `OPTION_INVALID` for an entry file that is not in a bundle.
 */
export function ownFiles(executable: string, entry: string | undefined): OwnFiles {
  const source = realpathSync(executable);
  if (entry === undefined) {
    const target = join(FOLDER, "fairlead");
    return { command: [target], files: [{ source, target }] };
  }
  const node = join(FOLDER, "node");
  const bundle = dirname(realpathSync(entry));
  const files = [
    { source, target: node },
    { source: bundle, target: join(FOLDER, "lib") },
    ...packagesOf(join(bundle, basename(entry))),
  ];
  return { command: [node, join(FOLDER, "lib", basename(entry))], files };
}

/** The one package that a bundle does not hold, and its native library, where the bundle finds them. */
function packagesOf(entry: string): readonly MachineFile[] {
  try {
    const koffi = createRequire(entry).resolve("koffi");
    const name = `@koromix/koffi-linux-${process.arch}`;
    const native = createRequire(koffi).resolve(name);
    return [
      { source: dirname(koffi), target: join(FOLDER, "node_modules/koffi") },
      { source: dirname(native), target: join(FOLDER, "node_modules", name) },
    ];
  } catch (cause) {
    throw new FleetError(
      "OPTION_INVALID",
      `${entry} is not in a bundle: it does not find the package koffi`,
      {
        cause,
      },
    );
  }
}
