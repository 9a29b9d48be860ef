import { hasCode } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type HubState, MOVE_JOURNAL } from "#api/fairlead.dev/hub-move.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { INTERNAL_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  type ClusterResourceOverride,
  type PlacementDisruptionBudget,
  type PlacementEviction,
  RESOURCE_OVERRIDES,
  type ResourceOverride,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  type Placement,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Asked } from "./review.ts";
import { budgetProblem, evictionProblem, leaveProblem, overrideProblem, selectorProblem } from "./rules.ts";

/** A hub that gets a fleet takes it as it is: the hub that has it has admitted it. */
export async function decide(
  client: KubeClient,
  asked: Asked,
  signal: AbortSignal,
): Promise<string | undefined> {
  const problem = await judge(client, asked, signal);
  if (problem === undefined) return undefined;
  const journal = await client.find(CONFIG_MAPS, JOURNAL, { signal });
  return journal?.data?.["state"] === ("Receiving" satisfies HubState) ? undefined : problem;
}

const JOURNAL = objectKey(FLEET_SYSTEM_NAMESPACE, MOVE_JOURNAL);

/** Reads what a rule needs, of the API server itself: a copy that lags would let a second override pass. */
async function judge(
  client: KubeClient,
  { kind, operation, object, oldObject }: Asked,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (operation === "DELETE")
    return kind === "MemberCluster" && oldObject !== undefined
      ? leaving(client, oldObject.metadata.name, signal)
      : undefined;
  // What is being finished is not validated any more.
  if (object === undefined || object.metadata.deletionTimestamp !== undefined) return undefined;
  switch (kind) {
    case "ClusterResourceOverride": {
      const { items } = await client.list(CLUSTER_RESOURCE_OVERRIDES, { signal });
      return overrideProblem(object as ClusterResourceOverride, items);
    }
    case "ResourceOverride": {
      const namespace = object.metadata.namespace ?? "";
      const { items } = await client.list(RESOURCE_OVERRIDES, { namespace, signal });
      return overrideProblem(object as ResourceOverride, items);
    }
    case "ClusterResourcePlacement":
      return selecting(client, object as Placement, oldObject as Placement | undefined, signal);
    case "ClusterResourcePlacementEviction": {
      const { spec } = object as PlacementEviction;
      return evictionProblem(await placementOf(client, spec.placementName, signal));
    }
    case "ClusterResourcePlacementDisruptionBudget":
      return budgetProblem(
        object as PlacementDisruptionBudget,
        await placementOf(client, object.metadata.name, signal),
      );
    default:
      return undefined;
  }
}

async function leaving(
  client: KubeClient,
  cluster: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { items } = await client.list(INTERNAL_SERVICE_EXPORTS, { namespace: mailboxOf(cluster), signal });
  return leaveProblem(cluster, items);
}

function placementOf(client: KubeClient, name: string, signal: AbortSignal): Promise<Placement | undefined> {
  return client.find(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, name), { signal });
}

/** What was admitted once stays admitted: a definition may have been deleted since. */
async function selecting(
  client: KubeClient,
  placement: Placement,
  before: Placement | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const known = new Set(before?.spec.resourceSelectors.map((it) => kindOf(it)));
  const groups = new Set(
    placement.spec.resourceSelectors
      .filter((it) => !known.has(kindOf(it)))
      .map(({ group, version }) => `${group}/${version}`),
  );
  const served = new Map<string, { readonly isNamespaced: boolean }>();
  for (const it of groups)
    for (const [kind, isNamespaced] of await kindsOf(client, it, signal))
      served.set(`${it}/${kind}`, { isNamespaced });
  return selectorProblem(placement, (it) =>
    // Its scope was checked when it was new.
    known.has(kindOf(it)) ? { isNamespaced: false } : served.get(kindOf(it)),
  );
}

function kindOf({ group, version, kind }: { group: string; version: string; kind: string }): string {
  return `${group}/${version}/${kind}`;
}

/** By discovery. */
async function kindsOf(
  client: KubeClient,
  groupVersion: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, boolean>> {
  const path = groupVersion.startsWith("/") ? `/api${groupVersion}` : `/apis/${groupVersion}`;
  try {
    const list = await client.request("GET", path, undefined, { signal });
    const resources =
      isObject(list) && Array.isArray(list["resources"]) ? (list["resources"] as unknown[]) : [];
    return new Map(
      resources
        .filter(isObject)
        .filter((it) => !String(it["name"]).includes("/"))
        .map((it) => [String(it["kind"]), it["namespaced"] === true]),
    );
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return new Map();
    throw error;
  }
}
