import { FleetError } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { VERSION } from "@fairlead/base/version.ts";
import type { ClusterMeshProfile } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { checkMesh, MESH_CHECKS, type MeshFinding } from "@fairlead/fleet/cli/mesh/checks.ts";
import { reachability } from "@fairlead/fleet/cli/mesh/reachability.ts";
import type { MeshSnapshot } from "@fairlead/fleet/cli/mesh/read.ts";
import { type Cluster, verifyFleet } from "@fairlead/fleet/cli/verify/run.ts";
import type { MeshPlan } from "@fairlead/fleet/domain/mesh-plan.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadContext } from "#shared/contexts.ts";

/** What is looked at before a profile is applied. */

export interface PreflightFlags {
  readonly kubeconfig?: string | undefined;
  readonly probe?: string | undefined;
  readonly image?: string | undefined;
  readonly skipCheck?: readonly string[] | undefined;
}

interface Preflight {
  readonly profile: ClusterMeshProfile;
  readonly plan: MeshPlan;
  readonly snapshot: MeshSnapshot;
  readonly flags: PreflightFlags;
  /** By the clock of the hub's API server. */
  readonly nowMs: number;
  /** Findings are printed only. */
  readonly isDry: boolean;
}

type Deps = RuntimeDeps & { readonly progress: (step: string) => void };

/** @throws {FleetError} `PRECONDITION_FAILED` with the findings that stop the command. */
export async function preflight(
  { profile, plan, snapshot, flags, isDry, nowMs }: Preflight,
  deps: Deps,
  signal: AbortSignal,
): Promise<void> {
  const skipped = new Set(flags.skipCheck);
  const unknown = [...skipped].find((it) => !MESH_CHECKS.some((one) => one === it));
  if (unknown !== undefined)
    throw new FleetError(
      "OPTION_INVALID",
      `--skip-check must be one of ${MESH_CHECKS.join(", ")}, got ${JSON.stringify(unknown)}`,
    );
  const probed = flags.probe === undefined ? [] : probedContexts(flags.probe, plan, isDry);
  const findings = [
    ...checkMesh(profile, plan.target, snapshot, { version: VERSION, nowMs }).filter(
      (it) => !skipped.has(it.check),
    ),
    ...(probed.length === 0 ? [] : await probe(probed, flags, deps, signal)),
  ];
  for (const { status, check, message } of findings)
    deps.progress(`${status === "failed" ? "✗" : "!"} ${check}: ${message}`);
  const failed = findings.filter((it) => it.status === "failed");
  if (isDry || failed.length === 0) return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `${failed.length} ${failed.length === 1 ? "check" : "checks"} failed: ${failed.map((it) => it.message).join("; ")}; nothing was changed`,
  );
}

/** A pod of each cluster sends to one of each other one: addresses of pods, and packets as large as they may be. */
const PROBES = ["tcp", "large", "udp", "mtu"] as const;
const PROBE_MS = 180_000;
const SETTLE_MS = 5000;

async function probe(
  names: readonly string[],
  flags: PreflightFlags,
  deps: Deps,
  signal: AbortSignal,
): Promise<readonly MeshFinding[]> {
  await using stack = new AsyncDisposableStack();
  const clusters = await Promise.all(
    names.map(async (name): Promise<Cluster> => {
      const config = await loadContext({ file: undefined, context: name }, flags.kubeconfig, process.env);
      const client = stack.use(connect(config, deps));
      await checkReachable(client, { who: name, config }, deps, signal);
      return { name, client };
    }),
  );
  const { results } = await verifyFleet(
    {
      clusters,
      image: flags.image,
      checks: PROBES,
      zone: "clusterset.local",
      timeoutMs: PROBE_MS,
      settleMs: SETTLE_MS,
      targets: "pods",
    },
    deps,
    signal,
  );
  return reachability(results);
}

/** @throws {FleetError} `OPTION_INVALID` where there is nothing to probe. */
export function probedContexts(
  text: string,
  { target }: { readonly target: Pick<MeshPlan["target"], "network"> },
  isDry: boolean,
): readonly string[] {
  const names = [...new Set(text.split(",").filter((it) => it !== ""))];
  const why = isDry
    ? "creates pods, and --what-if changes nothing: leave out one of them"
    : target.network.mode === "parallel"
      ? 'tests the own addresses of pods, which members of a profile with network.mode parallel do not use between each other: leave it out, and run "fairlead verify" afterwards'
      : names.length < 2
        ? "needs at least two contexts"
        : undefined;
  if (why !== undefined) throw new FleetError("OPTION_INVALID", `--probe ${why}`);
  return names;
}
