/** The lab as the demo uses it: through kubectl and the CLI, as people do. */

import { fileURLToPath } from "node:url";
import { exec, start } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const fairleadPath = `${root}bin/fairlead`;

export interface Demo {
  readonly lab: string;
  /** "nat": members have the same addresses, and tunnels connect them. */
  readonly topology: "flat" | "nat";
  readonly kubeconfig: string;
  readonly kubectl: string;
  readonly signal: AbortSignal;
}

/** Runs the CLI and returns what it prints. */
export async function fairlead(args: readonly string[], signal: AbortSignal): Promise<string> {
  return (await exec(fairleadPath, args, { signal, timeoutMs: 180_000 })).stdout;
}

/** Runs kubectl against one cluster and returns what it prints. */
export async function kubectl(demo: Demo, cluster: string, args: readonly string[]): Promise<string> {
  const all = ["--kubeconfig", demo.kubeconfig, "--context", cluster, ...args];
  return (await exec(demo.kubectl, all, { signal: demo.signal, timeoutMs: 120_000 })).stdout;
}

/** Runs kubectl and hands over each line as it is printed, until it ends or `signal` aborts. */
export function streamKubectl(
  demo: Demo,
  cluster: string,
  args: readonly string[],
  onLine: (line: string) => void,
): { readonly done: Promise<void>; readonly stop: () => void } {
  const all = ["--kubeconfig", demo.kubeconfig, "--context", cluster, ...args];
  const child = start(demo.kubectl, all, { stdio: ["ignore", "pipe", "pipe"] });
  let isStopped = false;
  let rest = "";
  let complaint = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString("utf8")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
  child.stderr?.on("data", (chunk: Buffer) => (complaint = (complaint + chunk.toString("utf8")).slice(-500)));
  const stop = (): void => {
    isStopped = true;
    child.kill("SIGKILL");
  };
  demo.signal.addEventListener("abort", stop, { once: true });
  const done = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      demo.signal.removeEventListener("abort", stop);
      if (code === 0 || isStopped) resolve();
      else
        reject(
          new FleetError(
            "EXEC_FAILED",
            `kubectl ${args.join(" ").slice(0, 60)} ended with code ${code}: ${complaint.trim()}`,
          ),
        );
    });
  });
  return { done, stop };
}
