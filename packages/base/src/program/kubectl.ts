import { resolve } from "node:path";
import { FleetError } from "#errors.ts";
import { findProgram } from "#find-program.ts";
import { ownEntry } from "./self.ts";

export function searchPath(): string {
  return process.env["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin";
}

/** kubectl of the checkout, else that of the machine. */
export function findKubectl(tools: string = toolsFolder()): string {
  const found = findProgram("kubectl", `${tools}:${searchPath()}`);
  if (found !== undefined) return found;
  throw new FleetError(
    "LAB_UNSUPPORTED",
    "cannot find kubectl in PATH; install it, or run this from a checkout on x86-64, which includes it",
  );
}

/** Of the checkout whose bundle this is, which is in a folder of `dist/`. Elsewhere a folder that does not exist. */
export function toolsFolder(): string {
  return resolve(ownEntry() ?? process.execPath, "..", "..", "..", "node_modules", ".tools");
}
