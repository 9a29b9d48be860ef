import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { readFile } from "node:fs/promises";

/**
 * Reads the text of a file that a flag names; "-" is standard input.
 *
 * @throws {FleetError} `OPTION_INVALID` with the flag and the file.
 */
export async function readInput(flag: string, file: string): Promise<string> {
  try {
    return await readFile(file === "-" ? "/dev/stdin" : file, "utf8");
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `${flag}: cannot read ${file}: ${messageOf(cause)}`, { cause });
  }
}
