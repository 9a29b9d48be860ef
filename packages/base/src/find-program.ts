import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Finds a program in `path` and in the folders of system programs. */
export function findProgram(name: string, path: string): string | undefined {
  const folders = [...path.split(delimiter), "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
