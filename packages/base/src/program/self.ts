import { isSea } from "node:sea";

/** The file that Node was started with; undefined if this is a single executable. */
export function ownEntry(): string | undefined {
  return isSea() ? undefined : process.argv[1];
}

/**
 * How this program is started again, before its arguments: Node with the entry file, or the single executable alone.
 *
 * @param options - Options of Node. The single executable has its own built in.
 */
export function ownCommand(options: readonly string[] = []): readonly string[] {
  return isSea() ? [process.execPath] : [process.execPath, ...options, process.argv[1] ?? ""];
}
