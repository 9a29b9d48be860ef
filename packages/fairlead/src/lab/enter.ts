import { printText } from "@fairlead/base/print.ts";
import { join } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import { start } from "@fairlead/base/exec.ts";
import type { Lab } from "@fairlead/lab/faults.ts";
import { nodeNetns, siteNetns } from "@fairlead/lab/places.ts";
import { planPrograms } from "@fairlead/lab/programs.ts";
import { resolveTarget } from "@fairlead/lab/targets.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { findKubectl, searchPath, toolsFolder } from "@fairlead/base/program/kubectl.ts";
import { openLab } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface EnterOptions {
  readonly name: string;
}

export async function kubectl(
  cluster: string,
  args: readonly string[],
  options: EnterOptions,
): Promise<void> {
  if (await inOwnNamespace()) return;
  const lab = openLab(options.name);
  const known = lab.state.topology.clusters.map((it) => it.name);
  if (!known.includes(cluster)) {
    throw new FleetError(
      "LAB_NOT_FOUND",
      `lab ${options.name} has no cluster ${JSON.stringify(cluster)}; it has: ${known.join(" ")}`,
    );
  }
  const program = findKubectl();
  await run(program, ["--kubeconfig", lab.layout.kubeconfig, "--context", cluster, ...args], {});
}

export async function kubeconfig(options: EnterOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  printText(openLab(options.name).layout.kubeconfig);
}

/** A shell with KUBECONFIG set and kubectl at hand; in a place's network when one is named. */
export async function shell(words: readonly string[], options: EnterOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const lab = openLab(options.name);
  const { place, args } = placeAndCommand(words, process.argv);
  const command = args.length > 0 ? args : [process.env["SHELL"] ?? "/bin/sh"];
  const env = {
    KUBECONFIG: lab.layout.kubeconfig,
    PATH: `${toolsFolder()}:${join(toolsFolder(), "..", "..", "bin")}:${searchPath()}`,
  };
  const [program = "/bin/sh", ...rest] = command;
  const line =
    place === undefined ? { command: program, args: rest } : inNetns(netnsOfPlace(lab, place), program, rest);
  await run(line.command, line.args, env);
}

/**
 * Tells a place from a command: with "--" before all of them the words are a command, in no place.
 *
 * @param words - As the parser gives them: it drops a "--" that comes first.
 * @param argv - As they were typed.
 */
export function placeAndCommand(
  words: readonly string[],
  argv: readonly string[],
): { readonly place: string | undefined; readonly args: readonly string[] } {
  const at = argv.indexOf("--");
  if (at >= 0 && argv.length - at - 1 === words.length) return { place: undefined, args: words };
  const [place, ...rest] = words;
  return { place, args: rest[0] === "--" ? rest.slice(1) : rest };
}

function netnsOfPlace(lab: Lab, place: string): string {
  const { topology } = lab.state;
  const target = resolveTarget(place, topology, planPrograms(topology, lab.layout));
  switch (target.kind) {
    case "node":
      return lab.layout.netnsOf(nodeNetns(target.node));
    case "process":
      if (target.program.netns === undefined)
        throw new FleetError(
          "OPTION_INVALID",
          `${place} runs in the machine's own network: no shell is needed`,
        );
      return lab.layout.netnsOf(target.program.netns);
    case "cluster":
    case "link":
      return lab.layout.netnsOf(siteNetns(target.cluster));
    default:
      return target satisfies never;
  }
}

/** Runs a program in the foreground and ends with its code. */
async function run(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter((it): it is [string, string] => it[1] !== undefined),
  );
  const child = start(program, args, { stdio: "inherit", env: { ...inherited, ...env } });
  process.exitCode = await new Promise<number>((resolve, reject) => {
    child.once("error", (cause) =>
      reject(new FleetError("EXEC_FAILED", `cannot start ${program}`, { cause })),
    );
    child.once("exit", (code) => resolve(code ?? 1));
  });
}
