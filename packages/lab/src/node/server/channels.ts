import type { Readable, Writable } from "node:stream";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import type { Executed } from "../container/exec.ts";
import type { TerminalSize } from "../container/pty.ts";

/** What exec and attach exchange with a client, whatever the protocol. */

/** What the client asked for, in the kubelet's query. */
export interface StreamWish {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

export interface Channels {
  readonly stdin: Readable | undefined;
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  readonly onResize: (listener: (size: TerminalSize) => void) => void;
  /** Called once when the client goes away before the end. */
  readonly onClose: (listener: () => void) => void;
  /** Ends the output, reports the outcome, and closes. */
  finish(status: Status): Promise<void>;
}

/** Queries as kubelets take them; those of the API server's own paths are understood too. */
export function readWish(query: URLSearchParams): StreamWish {
  const has = (...names: readonly string[]): boolean => names.some((it) => isTrue(query.get(it)));
  const tty = has("tty");
  return {
    stdin: has("input", "stdin"),
    stdout: has("output", "stdout"),
    stderr: has("error", "stderr"),
    tty,
  };
}

function isTrue(value: string | null): boolean {
  return value === "1" || value === "true";
}

/** Two 32-bit numbers in JSON, as kubectl sends them. */
export function parseSize(text: string): TerminalSize | undefined {
  try {
    const { Width: width, Height: height } = JSON.parse(text) as {
      readonly Width?: unknown;
      readonly Height?: unknown;
    };
    const isSize = (it: unknown): it is number =>
      Number.isInteger(it) && Number(it) > 0 && Number(it) < 65_536;
    return isSize(width) && isSize(height) ? { width, height } : undefined;
  } catch {
    return undefined;
  }
}

/** Source: k8s.io/kubelet/pkg/cri/streaming/remotecommand. */
export function exitStatus(code: number): Status {
  if (code === 0) return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" };
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    reason: "NonZeroExitCode",
    message: `command terminated with non-zero exit code: exit status ${code}`,
    details: { causes: [{ reason: "ExitCode", message: String(code) }] },
  };
}

/** Of a command that was not run. As `exitStatus`, and NewInternalError in k8s.io/apimachinery/pkg/api/errors. */
export function failureStatus(reason: string): Status {
  const message = `error executing command in container: ${reason}`;
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    reason: "InternalError",
    message: `Internal error occurred: ${message}`,
    details: { causes: [{ message }] },
    code: 500,
  };
}

/** Connects a running program to a client until it has ended; returns the exit code. */
export async function connectProgram(executed: Executed, channels: Channels): Promise<number> {
  const output = [
    [executed.stdout, channels.stdout],
    [executed.stderr, channels.stderr],
  ] as const;
  for (const [from, to] of output) {
    from?.on("error", () => {});
    if (from !== undefined && to !== undefined) from.pipe(to, { end: false });
    // A program must not stall on output that has no reader.
    else from?.resume();
  }
  executed.stdin?.on("error", () => {});
  if (executed.stdin !== undefined) {
    if (channels.stdin === undefined) executed.stdin.end();
    else channels.stdin.pipe(executed.stdin);
  }
  return executed.ended;
}
