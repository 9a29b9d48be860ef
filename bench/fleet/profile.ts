import { systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createLogger } from "@fairlead/base/log.ts";
import {
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { applyPlan, createProfile, planFor } from "@fairlead/fleet/cli/mesh/apply.ts";
import { readMesh } from "@fairlead/fleet/cli/mesh/read.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { usageOfAll } from "./programs.ts";

/** What it costs to connect members by a profile: all of them, and one more or less. */

export interface ProfileFigures {
  readonly what: string;
  readonly ms: number;
  /** Of the hub. Unit: milliseconds of processor time. */
  readonly cpuMs: number;
}

const NAME = "bench";
const LABEL = { mesh: NAME };

export async function measureProfile(kubeconfig: string, hubPid: number): Promise<ProfileFigures[]> {
  const deps = { ...systemDeps(createLogger("bench", "error")), progress: () => {} };
  await using hub = connect(await loadKubeconfig(kubeconfig, {}), deps);
  const signal = AbortSignal.timeout(900_000);
  const { items: members } = await hub.list(MEMBER_CLUSTERS, { signal });
  const label = (name: string, labels: object): Promise<unknown> =>
    hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), { metadata: { labels } }, { signal });
  const [last = "", ...others] = members.map((it) => it.metadata.name).toReversed();
  for (const name of others) await label(name, LABEL);
  const spec = { memberSelector: { byLabel: `mesh=${NAME}` } };
  await createProfile(hub, { name: NAME, spec }, signal);
  const apply = async (what: string): Promise<ProfileFigures> => {
    const snapshot = await readMesh(hub, signal);
    const profile: ClusterMeshProfile = await hub.get(CLUSTER_MESH_PROFILES, objectKey(undefined, NAME));
    const plan = planFor(snapshot, profile, "selected");
    const before = await usageOfAll([hubPid]);
    const startedMs = systemClock.monotonic();
    const options = { wait: true, timeoutMs: 300_000 };
    await applyPlan(hub, { plan, profile, options }, deps, signal);
    const ms = systemClock.monotonic() - startedMs;
    const after = await usageOfAll([hubPid]);
    return { what, ms, cpuMs: after.cpuMs - before.cpuMs };
  };
  const all = await apply(`apply to ${others.length} members`);
  await label(last, LABEL);
  const joined = await apply("one member joins");
  await label(last, { mesh: null });
  const left = await apply("one member leaves");
  return [all, joined, left];
}
