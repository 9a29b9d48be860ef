import { delay } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import type { MemberRole } from "@fairlead/fleet/member/roles.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import {
  type GoValues,
  goBool,
  goText,
  goTexts,
  goVerbosity,
  levelOf,
} from "@fairlead/base/program/go-command.ts";
import { type HubEnvironment, readHubEnvironment } from "#shared/hub-environment.ts";
import { runElected } from "#shared/leader.ts";
import { checksOfSide, createManagerParts, type ManagerParts } from "#shared/manager.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { type ProgramContext, runProgram } from "@fairlead/base/program/program.ts";

/** The two programs that fleet-networking runs in a member, each with one manager for the hub and one for its cluster. */

/** Flags that both have. */
export const MEMBER_MANAGER_FLAGS = {
  "tls-insecure": goBool(false, "do not verify the certificate of the hub; tests only"),
  "hub-metrics-bind-address": goText(":8080", "address of the hub side's /metrics; 0: disabled"),
  "hub-health-probe-bind-address": goText(
    ":8081",
    "address of the hub side's /healthz and /readyz; 0: disabled",
  ),
  "leader-elect": goBool(true, "enable leader election"),
  "leader-election-namespace": goText("fleet-system", "namespace of the leader election Leases"),
  "fleet-system-namespace": goText("fleet-system", "namespace of the fleet's own objects"),
  "enable-v1alpha1-apis": goBool(false, "removed; must be false"),
  "enable-v1beta1-apis": goBool(true, "must be true"),
  "enable-networking-features": goBool(true, "false: only report to the hub"),
  kubeconfig: goText(
    undefined,
    "kubeconfig of the member; default: KUBECONFIG, else the cluster of this pod",
  ),
  concurrency: goTexts("CONTROLLER=NUMBER of concurrent reconciles; repeatable"),
  "max-concurrent-reconciles": goText(undefined, "number of concurrent reconciles of every other controller"),
  "clock-offset": { ...goText(undefined, ""), isHidden: true },
  "ready-fd": { ...goText(undefined, ""), isHidden: true },
  v: goVerbosity(),
} as const;

export interface MemberManagerRun {
  readonly name: string;
  readonly role: MemberRole;
  readonly leases: readonly string[];
  readonly flags: GoValues<typeof MEMBER_MANAGER_FLAGS>;
  /** Of the manager of the member's own cluster. */
  readonly metricsAddress: string;
  readonly probeAddress: string;
  /** The flags that these came from. */
  readonly metricsFlag: string;
  readonly probeFlag: string;
}

export function runMemberManagers(run: MemberManagerRun): Promise<void> {
  const { name, flags } = run;
  const program = { logLevel: levelOf(flags.v), readyFd: flags["ready-fd"] };
  return runProgram(name, program, (context) => runBoth(context, run));
}

async function runBoth({ signal, log, ready }: ProgramContext, run: MemberManagerRun): Promise<void> {
  const { name, role, leases, flags } = run;
  checkFlags(flags);
  const parts = createManagerParts(log, {
    concurrency: flags.concurrency,
    maxConcurrentReconciles: flags["max-concurrent-reconciles"],
    clockOffset: flags["clock-offset"],
  });
  const { deps, health } = parts;
  const isInsecure = flags["tls-insecure"];
  const environment = readHubEnvironment(process.env, { isInsecure, clock: deps.clock });
  if (isInsecure)
    log.warn("--tls-insecure: the connection to the hub is open to a man in the middle", {
      instead: "set HUB_CERTIFICATE_AUTHORITY to the CA of the hub",
    });
  await using stack = new AsyncDisposableStack();
  await serve(stack, parts, run);
  const userAgent = `fleet-${name}`;
  const config = await clusterConfig(flags.kubeconfig ?? process.env["KUBECONFIG"], deps);
  const local = stack.use(connect(config, { ...deps, userAgent }));
  const hubDeps = { ...deps, health: health.part("hub") };
  const hub = stack.use(connect(environment.config, { ...hubDeps, userAgent }));
  const part = {
    roles: new Set([role]),
    isNetworking: flags["enable-networking-features"],
    isFleetOnly: true,
  };
  const namespace = flags["leader-election-namespace"];
  const election = { client: local, leases, namespace, side: "member", deps } as const;
  await runElected({ ...election, isElected: flags["leader-elect"] }, signal, async (leading) => {
    await untilToken(environment, deps, leading);
    const { cluster } = environment;
    await using _member = await startMember({ cluster, local, hub, deps, part }, leading);
    ready();
    await untilAborted(leading);
  });
}

function checkFlags(flags: MemberManagerRun["flags"]): void {
  const problem = [
    flags["enable-v1alpha1-apis"]
      ? "--enable-v1alpha1-apis must be false: these APIs were removed"
      : undefined,
    flags["enable-v1beta1-apis"] ? undefined : "--enable-v1beta1-apis must be true: there are no other APIs",
    flags["fleet-system-namespace"] === "fleet-system"
      ? undefined
      : "--fleet-system-namespace must be fleet-system, which hub and members share",
  ].find((it) => it !== undefined);
  if (problem !== undefined) throw new FleetError("OPTION_INVALID", problem);
}

/** Four addresses; "0" and "" disable one, as in controller-runtime. */
async function serve(
  stack: AsyncDisposableStack,
  { metrics, health }: ManagerParts,
  run: MemberManagerRun,
): Promise<void> {
  const { flags } = run;
  const servers = [
    ["hub", "--hub-metrics-bind-address", flags["hub-metrics-bind-address"]],
    ["hub", "--hub-health-probe-bind-address", flags["hub-health-probe-bind-address"]],
    ["member", run.metricsFlag, run.metricsAddress],
    ["member", run.probeFlag, run.probeAddress],
  ] as const;
  for (const [side, flag, address] of servers) {
    if (address === "0" || address === "") continue;
    stack.use(await serveMetrics({ metrics, address, flag, checks: checksOfSide(health, side) }));
  }
}

/** A sidecar writes the token, and may come up later. Unit: milliseconds. */
const TOKEN_RETRY_MS = 250;

async function untilToken(
  { hasToken, tokenFile }: HubEnvironment,
  { clock, log, health }: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  using _check = health?.register({
    name: "hub/token",
    kind: "ready",
    problem: () => `${tokenFile} is empty`,
  });
  for (let isReported = false; !(await hasToken()); isReported = true) {
    if (!isReported) log.info("waiting for the token", { file: tokenFile });
    await delay(clock, TOKEN_RETRY_MS, signal);
  }
}
