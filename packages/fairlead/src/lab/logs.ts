import { parseWhole } from "@fairlead/base/program/flags.ts";
import { createReadStream, existsSync, statSync, watch } from "node:fs";
import { FleetError } from "@fairlead/base/errors.ts";
import { tail } from "@fairlead/lab/processes.ts";
import { planPrograms } from "@fairlead/lab/programs.ts";
import { openLab, untilInterrupted } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface LogOptions {
  readonly name: string;
  readonly follow?: true | undefined;
  readonly tail?: string | undefined;
}

export async function logs(program: string, options: LogOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const lab = openLab(options.name);
  const names = planPrograms(lab.state.topology, lab.layout).map((it) => it.name);
  if (!names.includes(program)) {
    throw new FleetError(
      "LAB_NOT_FOUND",
      `lab ${options.name} has no program ${JSON.stringify(program)}; it has:\n  ${names.join("\n  ")}`,
    );
  }
  const file = lab.layout.logOf(program);
  if (!existsSync(file))
    throw new FleetError("LAB_NOT_FOUND", `${program} has not been started yet: there is no ${file}`);
  const lines = options.tail === undefined ? Number.POSITIVE_INFINITY : parseWhole("--tail", options.tail);
  const size = statSync(file).size;
  process.stdout.write(`${lines === Number.POSITIVE_INFINITY ? tail(file, 0) : tail(file, lines)}\n`);
  if (options.follow === true) await follow(file, size, untilInterrupted());
}

/** Prints appended lines; the kernel notifies it of each change. */
async function follow(file: string, from: number, signal: AbortSignal): Promise<void> {
  let offset = from;
  let isReading = false;
  const read = async (): Promise<void> => {
    if (isReading) return;
    isReading = true;
    for (let end = statSync(file).size; end > offset; end = statSync(file).size) {
      for await (const chunk of createReadStream(file, { start: offset, end: end - 1 }))
        process.stdout.write(chunk as Buffer);
      offset = end;
    }
    isReading = false;
  };
  await new Promise<void>((resolve) => {
    const watcher = watch(file, () => void read());
    signal.addEventListener("abort", () => {
      watcher.close();
      resolve();
    });
  });
}
