import type { Readable, Writable } from "node:stream";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { start } from "@fairlead/base/exec.ts";
import { readExecContext } from "./exec-context.ts";
import { isRunning } from "./process.ts";
import { type ContainerView, SYSTEM_PATH } from "./runtime.ts";
import { JOIN_SCRIPT, wordsInVariables } from "./shim.ts";

/** Runs further programs in a running container: in its namespaces and root, with its environment. */

export interface ExecStart {
  readonly argv: readonly string[];
  /** Descriptors of a terminal for all three streams, instead of pipes. */
  readonly terminal?: number;
}

/** A started program. The streams are undefined where it has a terminal. */
export interface Executed {
  readonly stdin: Writable | undefined;
  readonly stdout: Readable | undefined;
  readonly stderr: Readable | undefined;
  /** Resolves with the exit code, 128 + the signal's number after a signal, once its streams have ended too. */
  readonly ended: Promise<number>;
  /** Ends the program and what it started in its process group. */
  kill(): void;
}

/** @throws {FleetError} `EXEC_FAILED` when the container is not running, and for a command that no program can be given. */
export function execInContainer(container: ContainerView, options: ExecStart): Executed {
  refuseNul(options.argv);
  const { process: init } = container;
  if (init === undefined || container.exit !== undefined || !isRunning(init))
    throw new FleetError("EXEC_FAILED", `container ${container.name} is not running`);
  const context = readExecContext(container.folder);
  const [program = ""] = options.argv;
  const path = context.env.find((it) => it.startsWith("PATH="))?.slice("PATH=".length) ?? SYSTEM_PATH;
  const terminal = options.terminal === undefined ? [] : ["setsid", "--ctty"];
  const namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid"];
  const script = ["/bin/sh", "-c", JOIN_SCRIPT, "sh", program, path, context.workingDir];
  const stream = options.terminal ?? "pipe";
  const child = start(
    "nsenter",
    ["--target", String(init.pid), ...namespaces, "--", ...terminal, ...script],
    {
      detached: true,
      cwd: "/",
      env: {
        PATH: SYSTEM_PATH,
        ...context.shimEnv,
        ...wordsInVariables([...context.prefix, ...context.env, ...options.argv]),
      },
      stdio: [stream, stream, stream],
    },
  );
  return {
    stdin: child.stdin ?? undefined,
    stdout: child.stdout ?? undefined,
    stderr: child.stderr ?? undefined,
    ended: new Promise((resolve) => {
      child.once("close", (code, signal) => resolve(code ?? (signal === "SIGKILL" ? 137 : 143)));
      child.once("error", () => resolve(126));
    }),
    kill: () => {
      if (child.pid === undefined || child.exitCode !== null) return;
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // The process has already ended.
      }
    },
  };
}

/** The kernel takes arguments as text that ends with a NUL byte (execve(2)). */
function refuseNul(argv: readonly string[]): void {
  const index = argv.findIndex((it) => it.includes("\0"));
  if (index === -1) return;
  throw new FleetError(
    "EXEC_FAILED",
    `command[${index}] has a NUL byte after ${argv[index]?.indexOf("\0")} characters, and arguments of programs cannot contain one: ` +
      "remove it, or pass the data by the standard input",
  );
}

export interface CollectedExec {
  readonly code: number | "timeout";
  readonly output: string;
}

/** As much of a probe's output as goes into an event. Unit: characters. */
const MAX_OUTPUT = 10_240;

/** Runs a program to its end and keeps the beginning of what it prints. */
export async function collectExec(
  container: ContainerView,
  argv: readonly string[],
  limits: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<CollectedExec> {
  const executed = execInContainer(container, { argv });
  let output = "";
  let timedOut = false;
  const timer = limits.clock.after(limits.timeoutMs, () => {
    timedOut = true;
    executed.kill();
  });
  for (const stream of [executed.stdout, executed.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(0, MAX_OUTPUT);
    });
  executed.stdin?.on("error", () => {});
  executed.stdin?.end();
  const code = await executed.ended;
  timer[Symbol.dispose]();
  return { code: timedOut ? "timeout" : code, output };
}
