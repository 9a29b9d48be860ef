import { readFile } from "node:fs/promises";
import { FleetError } from "@fairlead/base/errors.ts";
import { fileProblem } from "@fairlead/base/file-problem.ts";

/**
 * Reads a file that a flag names; `-` is standard input.
 *
 * @param what - What it contains, for people, such as "manifest".
 * @throws {FleetError} `OPTION_INVALID`
 */
export async function readNamedFile(what: string, path: string): Promise<string> {
  try {
    return await readFile(path === "-" ? "/dev/stdin" : path, "utf8");
  } catch (error) {
    throw new FleetError("OPTION_INVALID", `cannot read the ${what} ${path}: ${fileProblem(error)}`);
  }
}
