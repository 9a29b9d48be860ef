import { readFile, rename, unlink, writeFile } from "node:fs/promises";
import { isObject } from "#json.ts";

/** The text of a file; undefined if it does not exist. */
export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isObject(error) && error["code"] === "ENOENT") return undefined;
    throw error;
  }
}

/** Writes a file that only its owner reads. A crash leaves the old file or the new one, never a part. */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}.new`;
  try {
    await writeFile(draft, text, { mode: 0o600 });
    await rename(draft, path);
  } catch (error) {
    await unlink(draft).catch(() => {});
    throw error;
  }
}
