import { renameSync, writeFileSync } from "node:fs";

/**
 * Writes a file as a whole: a reader, and a process that is killed in the middle, finds or leaves the former content or the new one, never a
 * part (rename(2)). One process at a time may write a file.
 *
 * @param mode - Permissions. Default: those that only its owner has.
 */
export function replaceFileSync(path: string, content: string, mode = 0o600): void {
  const draft = `${path}.new`;
  writeFileSync(draft, content, { mode });
  renameSync(draft, path);
}
