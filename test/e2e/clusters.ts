/** The clusters of a run, through the programs that people use: kubectl, Helm, and Fairlead's commands. */

import { fileURLToPath } from "node:url";
import { exec, type ExecOptions } from "@fairlead/base/exec.ts";
import { type AnyChart, chartFolder } from "../support/helm.ts";
import { until as untilBy } from "../support/waiting.ts";
import type { Settings } from "./settings.ts";

export const SYSTEM = "fleet-system";

/** Longest wait for anything that a cluster does by itself. Unit: milliseconds. */
const PATIENCE = { timeoutMs: 180_000, everyMs: 500 };

export class Clusters {
  readonly settings: Settings;
  readonly #signal: AbortSignal;

  constructor(settings: Settings, signal: AbortSignal) {
    this.settings = settings;
    this.#signal = signal;
  }

  get hub(): string {
    return this.settings.hub;
  }

  get members(): readonly string[] {
    return this.settings.members;
  }

  /** Every cluster once: the hub's may be a member's, too. */
  get all(): readonly string[] {
    return [...new Set([this.hub, ...this.members])];
  }

  protected async run(program: string, args: readonly string[], options: ExecOptions = {}): Promise<string> {
    const { stdout } = await exec(program, args, {
      // Helm and kubectl end by themselves first, with what they wait for.
      timeoutMs: (this.settings.helmTimeoutSeconds + 60) * 1000,
      signal: this.#signal,
      ...options,
      addEnv: { KUBECONFIG: this.settings.kubeconfig, ...options.addEnv },
    });
    return stdout;
  }

  kubectl(cluster: string, args: readonly string[], options: ExecOptions = {}): Promise<string> {
    return this.run(this.settings.kubectl, ["--context", cluster, ...args], options);
  }

  fairlead(args: readonly string[], options: ExecOptions = {}): Promise<string> {
    return this.run(this.settings.fairlead, args, options);
  }

  helm(cluster: string, args: readonly string[], options: ExecOptions = {}): Promise<string> {
    const where = ["--kube-context", cluster, "--namespace", SYSTEM];
    const timeout = args.includes("--wait") ? ["--timeout", `${this.settings.helmTimeoutSeconds}s`] : [];
    return this.run(this.settings.helm, [...args, ...where, ...timeout], options);
  }

  /** `install` or `upgrade` of an application's chart below test/e2e/charts, or another verb: a release of the chart's name. */
  async application(cluster: string, { verb, name, namespace, values = [] }: Release): Promise<void> {
    const script = fileURLToPath(new URL("in-pod/echo.mjs", import.meta.url));
    const chart = fileURLToPath(new URL(`charts/${name}`, import.meta.url));
    const set = [`image=${this.settings.image}`, ...values].flatMap((it) => ["--set", it]);
    const isRendered = ["install", "upgrade"].includes(verb[0] ?? "");
    await this.run(this.settings.helm, [
      ...verb,
      ...(isRendered ? [name, chart, ...set, "--set-file", `server=${script}`] : []),
      "--kube-context",
      cluster,
      "--namespace",
      namespace,
    ]);
  }

  /** A chart of this checkout: `install` or `upgrade`, with the image of the run. */
  async chart(
    cluster: string,
    verb: readonly string[],
    chart: AnyChart,
    set: readonly string[] = [],
  ): Promise<void> {
    const { image } = this.settings;
    const colon = image.lastIndexOf(":");
    const hasTag = colon > image.lastIndexOf("/");
    const values = [
      `image.repository=${hasTag ? image.slice(0, colon) : image}`,
      ...(hasTag ? [`image.tag=${image.slice(colon + 1)}`] : []),
      ...set,
    ];
    await this.helm(cluster, [
      ...verb,
      chart,
      chartFolder(chart),
      "--wait",
      ...values.flatMap((it) => ["--set", it]),
    ]);
  }

  /** The hub's side and the member's of a command about a member. */
  ofMember(member: string): readonly string[] {
    return [member, "--hub-context", this.hub, "--member-context", member];
  }

  async apply(cluster: string, ...objects: readonly object[]): Promise<void> {
    const input = objects.map((it) => JSON.stringify(it)).join("\n---\n");
    await this.kubectl(cluster, ["apply", "-f", "-"], { input });
  }

  /** An object or a list; undefined when it is not there. */
  async find<T>(cluster: string, args: readonly string[]): Promise<T | undefined> {
    const text = await this.kubectl(cluster, ["get", ...args, "--ignore-not-found", "-o", "json"]);
    return text.trim() === "" ? undefined : (JSON.parse(text) as T);
  }

  /** Cuts the hub off from its members. @returns A function that reconnects it. */
  async stopHub(): Promise<() => Promise<void>> {
    const { hubDown, hubUp } = this.settings;
    if (hubDown !== undefined && hubUp !== undefined) {
      await this.run("/bin/sh", ["-c", hubDown]);
      return async () => {
        await this.run("/bin/sh", ["-c", hubUp]);
        await until(
          "the hub's API server answers",
          () => this.kubectl(this.hub, ["get", "--raw", "/readyz"], { timeoutMs: 10_000 }),
          (it) => it.trim() === "ok",
        );
      };
    }
    const scale = (replicas: number): Promise<string> =>
      this.kubectl(this.hub, ["-n", SYSTEM, "scale", "deployment/fairlead-hub", `--replicas=${replicas}`]);
    await scale(0);
    await this.kubectl(this.hub, [
      "-n",
      SYSTEM,
      "wait",
      "--for=delete",
      "pod",
      "-l",
      HUB_PODS,
      "--timeout=120s",
    ]);
    return async () => {
      await scale(2);
      await this.rolledOut(this.hub, SYSTEM, "deployment/fairlead-hub");
    };
  }

  async rolledOut(cluster: string, namespace: string, workload: string): Promise<void> {
    await this.kubectl(cluster, ["-n", namespace, "rollout", "status", workload, "--timeout=240s"]);
  }
}

export interface Release {
  readonly verb: readonly string[];
  /** Of the chart and of the release. */
  readonly name: string;
  readonly namespace: string;
  readonly values?: readonly string[];
}

const HUB_PODS = "app.kubernetes.io/name=fairlead-hub";

/** As `until` of all tests, with the patience that real clusters need. */
export function until<T>(what: string, read: () => Promise<T>, isEnough: (value: T) => boolean): Promise<T> {
  return untilBy(what, read, isEnough, PATIENCE);
}
