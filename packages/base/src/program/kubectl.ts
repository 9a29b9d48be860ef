import { join } from "node:path";
import { FleetError } from "#errors.ts";
import { findProgram } from "#find-program.ts";

export function searchPath(): string {
  return process.env["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin";
}

/** kubectl of the checkout, else that of the machine. */
export function findKubectl(tools: string = toolsFolder()): string {
  const found = findProgram("kubectl", `${tools}:${searchPath()}`);
  if (found !== undefined) return found;
  throw new FleetError(
    "LAB_UNSUPPORTED",
    "there is no kubectl on the PATH. Install it, or run this from a checkout on x86-64, which brings its own.",
  );
}

/** From the bundle, which lies in a folder of `dist/`. */
export function toolsFolder(): string {
  return join(process.argv[1] ?? "", "..", "..", "..", "node_modules", ".tools");
}
