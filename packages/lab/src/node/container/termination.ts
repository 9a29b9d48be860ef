import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";

/** The file behind `terminationMessagePath`, in the container's folder. */
export const TERMINATION_FILE = "termination-log";

/** Source: pkg/kubelet/container, MaxContainerTerminationMessageLength and those of the log. Unit: bytes; lines. */
const LIMITS = { messageBytes: 4096, logBytes: 2048, logLines: 80 } as const;

/** The termination message of a program. */
export function terminationMessage(
  folder: string,
  exit: { readonly code: number | undefined; readonly fallsBackToLogs: boolean },
): string | undefined {
  const own = readEnd(join(folder, TERMINATION_FILE), LIMITS.messageBytes, { fromStart: true });
  if (own !== "") return own;
  if (!exit.fallsBackToLogs || exit.code === 0) return undefined;
  const log = readEnd(join(folder, "log"), LIMITS.logBytes, { fromStart: false });
  const lines = log.split("\n");
  const last = lines.slice(-(LIMITS.logLines + 1)).join("\n");
  return last === "" ? undefined : last;
}

function readEnd(path: string, bytes: number, { fromStart }: { readonly fromStart: boolean }): string {
  if (!existsSync(path)) return "";
  const fd = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(bytes);
    const from = fromStart ? 0 : Math.max(0, fstatSync(fd).size - bytes);
    return buffer.subarray(0, readSync(fd, buffer, 0, bytes, from)).toString("utf8");
  } finally {
    closeSync(fd);
  }
}
