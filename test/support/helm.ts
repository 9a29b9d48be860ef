import { join } from "node:path";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { parseAllDocuments } from "yaml";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { isObject } from "@fairlead/base/json.ts";
import { COMMANDS, loadCommand } from "@fairlead/fairlead/commands.ts";
import { HELM, OLDER_HELM } from "../../packages/apiserver/test/support.ts";

/** Shared by tests of the charts: Helm as users run it, and its rendered objects. */

const ROOT = join(import.meta.dirname, "..", "..");
export const CHARTS = ["fairlead-hub", "fairlead-member"] as const;
export type Chart = (typeof CHARTS)[number];
export type AnyChart = Chart | "fairlead-node" | "fairlead-relay";
export const chartFolder = (chart: AnyChart): string => join(ROOT, "charts", chart);

/** Helm 4 and 3, if available. Helm 4 applies on the server, Helm 3 by its own patch. */
export const HELMS = [
  { version: 4, program: HELM },
  { version: 3, program: OLDER_HELM },
].flatMap(({ version, program }) => (program === undefined ? [] : [{ version, program }]));

export interface Manifest {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

export interface HelmOptions {
  readonly kubeconfig?: string;
  readonly home?: string;
  readonly allowFailure?: boolean;
  readonly timeoutMs?: number;
}

export function runHelm(
  program: string,
  args: readonly string[],
  { kubeconfig, home = "/nonexistent", allowFailure = false, timeoutMs = 60_000 }: HelmOptions = {},
): Promise<ExecResult> {
  return exec(program, [...args, "--namespace", "fleet-system"], {
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: home,
      ...(kubeconfig === undefined ? {} : { KUBECONFIG: kubeconfig }),
    },
    timeoutMs,
    allowFailure,
  });
}

/** `helm template`, hooks included. Values: as after `--set`. */
export async function render(
  program: string,
  chart: AnyChart,
  values: readonly string[] = [],
  release = "fleet",
): Promise<readonly Manifest[]> {
  const set = values.flatMap((it) => ["--set", it]);
  const { stdout } = await runHelm(program, ["template", release, chartFolder(chart), ...set]);
  return parseAllDocuments(stdout).flatMap((it) => {
    const value = it.toJS() as Manifest | null;
    return value === null ? [] : [value];
  });
}

/** Asked for as `path` of an object; fails where a part is missing. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>((inner, key) => {
    const found: unknown = Array.isArray(inner)
      ? inner[Number(key)]
      : isObject(inner)
        ? inner[String(key)]
        : undefined;
    if (found === undefined) throw new Error(`nothing at ${path.join(".")}`);
    return found;
  }, value);
}

export interface PodSpecOf {
  readonly of: string;
  readonly component: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** The pods of all kinds of workloads in manifests. */
export function podsOf(manifests: readonly Manifest[]): readonly PodSpecOf[] {
  return manifests.flatMap((it) => {
    if (!["DaemonSet", "Deployment", "Job", "Pod"].includes(it.kind)) return [];
    const pod: unknown = it.kind === "Pod" ? it : at(it, "spec", "template");
    const component = at(pod, "metadata", "labels", "app.kubernetes.io/component");
    return [
      {
        of: `${it.kind} ${it.metadata.name}`,
        component: String(component),
        spec: at(pod, "spec") as Readonly<Record<string, unknown>>,
      },
    ];
  });
}

export interface ContainerOf {
  readonly of: string;
  readonly args: readonly string[];
  readonly security: Readonly<Record<string, unknown>>;
  readonly manifest: Readonly<Record<string, unknown>>;
}

export function containersOf(manifests: readonly Manifest[]): readonly ContainerOf[] {
  return podsOf(manifests).flatMap(({ of, spec }) =>
    (spec["containers"] as Readonly<Record<string, unknown>>[]).map((it) => ({
      of: `${of}/${String(it["name"])}`,
      args: (it["args"] as string[] | undefined) ?? [],
      security: it["securityContext"] as Readonly<Record<string, unknown>>,
      manifest: it,
    })),
  );
}

/** What is wrong with a command line, by the program's own definition; empty when nothing is. */
export async function misuse([name = "", ...rest]: readonly string[]): Promise<string> {
  const entry = COMMANDS.get(name);
  if (entry === undefined) return `no command ${name}`;
  const top = await loadCommand(name, entry);
  const sub: CommandUnknownOpts | undefined = top.commands.find((it) => it.name() === rest[0]);
  const { operands, unknown } =
    sub === undefined ? top.parseOptions([...rest]) : sub.parseOptions(rest.slice(1));
  return [...operands, ...unknown].join(" ");
}
