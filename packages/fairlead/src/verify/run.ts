import { printText } from "@fairlead/base/print.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { type Check, PROBES } from "@fairlead/fleet/cli/verify/probes.ts";
import { renderVerification, summarize, type VerifyOutput } from "@fairlead/fleet/cli/verify/report.ts";
import { type Cluster, verifyFleet } from "@fairlead/fleet/cli/verify/run.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadContext } from "#shared/contexts.ts";

interface VerifyFlags {
  readonly kubeconfig?: string | undefined;
  readonly hubContext?: string | undefined;
  readonly hubKubeconfig?: string | undefined;
  readonly memberContexts?: string | undefined;
  readonly check?: readonly string[] | undefined;
  readonly image?: string | undefined;
  readonly zone: string;
  readonly timeout: string;
  readonly settle: string;
  readonly output: VerifyOutput;
}

/** The code to end with where a check failed: it differs from that of a command that failed, as in `status`. */
const UNHEALTHY = 3;

export async function run(flags: VerifyFlags): Promise<void> {
  await runForPeople("verify", async ({ deps, signal }) => {
    const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 10, max: 3600 }) * 1000;
    const checks = parseChecks(flags.check);
    const settleMs = parseWhole("--settle", flags.settle, { min: 0, max: 300 }) * 1000;
    await using stack = new AsyncDisposableStack();
    const names = await namesOf(flags, deps, signal);
    const clusters = await Promise.all(
      names.map(async (name): Promise<Cluster> => {
        const config = await loadContext({ file: undefined, context: name }, flags.kubeconfig, process.env);
        const client = stack.use(connect(config, deps));
        await checkReachable(client, { who: name, config }, deps, signal);
        return { name, client };
      }),
    );
    const { image, zone } = flags;
    const verification = await verifyFleet(
      { clusters, image, checks, zone, timeoutMs, settleMs, targets: "imports" },
      { ...deps, progress: sayStep },
      signal,
    );
    printText(renderVerification(verification, flags.output));
    if (summarize(verification.results).failed > 0) process.exitCode = UNHEALTHY;
  });
}

function parseChecks(names: readonly string[] | undefined): readonly Check[] {
  const unknown = names?.find((name) => !PROBES.some((it) => it === name));
  if (unknown === undefined) return PROBES.filter((it) => names === undefined || names.includes(it));
  throw new FleetError(
    "OPTION_INVALID",
    `--check must be one of ${PROBES.join(", ")}, got ${JSON.stringify(unknown)}`,
  );
}

async function namesOf(
  flags: VerifyFlags,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const names =
    flags.memberContexts === undefined
      ? await membersOfHub(flags, deps, signal)
      : [...new Set(flags.memberContexts.split(",").filter((it) => it !== ""))];
  if (names.length < 2)
    throw new FleetError(
      "OPTION_INVALID",
      `at least two clusters are needed to check the network between them, got ${names.join(", ") || "none"}; pass --member-contexts`,
    );
  return names;
}

async function membersOfHub(
  { hubKubeconfig, hubContext, kubeconfig }: VerifyFlags,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const config = await loadContext({ file: hubKubeconfig, context: hubContext }, kubeconfig, process.env);
  await using hub = connect(config, deps);
  await checkReachable(hub, { who: "the hub", config }, deps, signal);
  const { items } = await hub.list(MEMBER_CLUSTERS, { signal });
  return items.map((it) => it.metadata.name);
}
