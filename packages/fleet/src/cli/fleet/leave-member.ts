import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { ADDRESS_BLOCKS, GATEWAYS, MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  MANAGED_BY_LABEL as SLICE_MANAGER_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  ACTIVE_CONDITION,
  HUB_SECRET,
  MANAGED_BY,
  MANAGED_BY_LABEL,
  GLOBAL_SLICE_MANAGER,
  MCS_SLICE_MANAGER,
} from "#api/fairlead.dev/names.ts";
import { TRAFFIC_ROUTES } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MCS_SERVICE_EXPORTS, MCS_SERVICE_IMPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  DERIVED_SERVICE_LABEL,
  FINALIZERS,
  FLEET_SLICE_MANAGER,
  FLEET_SYSTEM_NAMESPACE,
  MULTI_CLUSTER_SERVICE_NAME_LABEL,
  SERVICE_IMPORT_LABEL,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1beta1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { inactiveCondition } from "#domain/inactive.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";
import type { Manifest } from "#authz/manifests.ts";
import { removeNodeAgents } from "./leave-nodes.ts";
import { INSTALLED_BY, INSTALLED_BY_LABEL } from "#api/fairlead.dev/installed.ts";
import { removeOtherApplies } from "./install/applies.ts";
import { memberManifests } from "./install/member-manifests.ts";

/** Cleans up the member itself if its agent could not; changes nothing if the agent did. */

const SECRET_KEY = objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET);

interface Left {
  readonly name: string;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

interface Cleaning {
  readonly name: string;
  readonly deps: RuntimeDeps;
  /** For the nodes of a parallel network. Unit: milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Stops the agent, removes what it and `fairlead join` created, and updates the status of users' objects.
 *
 * @returns What is left, and how to remove it; undefined if nothing is.
 */
export async function cleanMember(
  member: KubeClient,
  { name, deps, timeoutMs, signal }: Cleaning,
): Promise<string | undefined> {
  await member.delete(SECRETS, SECRET_KEY, { signal });
  await removeInstalled(member, ({ of }) => of === DEPLOYMENTS, signal);
  await removeImports(member, signal);
  const left = await removeNodeAgents(member, timeoutMs, deps, signal);
  // Its pods would not start any more.
  await removeInstalled(
    member,
    ({ object }) => left === undefined || object.metadata.labels?.["app.kubernetes.io/component"] !== "node",
    signal,
  );
  await removeOtherApplies(member, new Set(), signal);
  await markInactive(member, { name, clock: deps.clock, signal });
  return left;
}

/**
 * Checks the name without a hub.
 *
 * @throws {FleetError} `OPTION_INVALID` if the Secret of the cluster has the name of another member.
 */
export async function checkSaysItIs(
  member: KubeClient,
  { name, signal }: Omit<Left, "clock">,
): Promise<void> {
  const secret = await member.find(SECRETS, SECRET_KEY, optional(signal));
  const said = Buffer.from(secret?.data?.["cluster"] ?? "", "base64").toString("utf8");
  if (said === "" || said === name) return;
  throw new FleetError(
    "OPTION_INVALID",
    `the cluster of --member-context is member ${said}, not ${name}; check the name and the context`,
  );
}

/** Of what others hold by a finalizer, so many looks see nothing go. */
const MOST_LOOKS = 5;

/**
 * Removes what an agent created and did not remove. Repeats until nothing is left: the agent may have been about to write
 * when its Secret was deleted.
 */
export async function removeImports(member: KubeClient, signal?: AbortSignal): Promise<void> {
  for (let look = 0; look < MOST_LOOKS; look++) if ((await removeSeenImports(member, signal)) === 0) return;
}

/** @returns How many there were. */
async function removeSeenImports(member: KubeClient, signal: AbortSignal | undefined): Promise<number> {
  const kinds: readonly (readonly [Resource, string])[] = [
    [
      ENDPOINT_SLICES,
      `${SLICE_MANAGER_LABEL} in (${MCS_SLICE_MANAGER},${FLEET_SLICE_MANAGER},${GLOBAL_SLICE_MANAGER})`,
    ],
    [MCS_SERVICE_IMPORTS, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    [SERVICES, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    [SERVICES, MULTI_CLUSTER_SERVICE_NAME_LABEL],
    [TRAFFIC_ROUTES, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    // The nodes leave the network.
    [MESH_NETWORKS, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    [ADDRESS_BLOCKS, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    [GATEWAYS, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
  ];
  const options = optional(signal);
  let seen = 0;
  for (const [of, labelSelector] of kinds)
    for (const it of await listOrNone(member, of, { labelSelector, ...options })) {
      seen++;
      await member.delete(of, keyOf(it), options);
    }
  for (const it of await listOrNone(member, FLEET_SERVICE_IMPORTS, options)) {
    await removeFinalizer(member, FLEET_SERVICE_IMPORTS, it, {
      finalizer: FINALIZERS.serviceImport,
      ...options,
    });
    const isDerived =
      it.metadata.ownerReferences?.some((owner) => owner.kind === "MultiClusterService") === true;
    if (!isDerived) continue;
    seen++;
    await member.delete(FLEET_SERVICE_IMPORTS, keyOf(it), options);
  }
  return seen;
}

/** What `fairlead join` installed, last first; what a chart manages stays. */
async function removeInstalled(
  member: KubeClient,
  isWanted: (manifest: Manifest) => boolean,
  signal: AbortSignal,
): Promise<void> {
  const manifests = memberManifests({
    image: "",
    imagePullPolicy: "Always",
    replicas: 2,
    dns: true,
    nodes: true,
  });
  for (const { of, object } of manifests.filter(isWanted).toReversed()) {
    const key = keyOf(object);
    const present = await member.find(of, key, { signal });
    if (present?.metadata.labels?.[INSTALLED_BY_LABEL] === INSTALLED_BY)
      await member.delete(of, key, { signal });
  }
}

type Reported = KubeObject & { status?: { conditions?: Condition[] } };

interface UsersKind {
  readonly of: Resource<Reported>;
  /** Set by legacy agents, which no longer run to remove it. */
  readonly finalizer?: string;
  /** Condition types to keep: faults of the object itself. */
  readonly keeps: readonly string[];
  /** An additional condition that a leaving agent sets. */
  readonly says: Pick<Condition, "type" | "status" | "reason"> | undefined;
  readonly labels: readonly string[];
}

const USERS: readonly UsersKind[] = [
  {
    of: FLEET_SERVICE_EXPORTS,
    finalizer: FINALIZERS.serviceExport,
    keeps: ["Valid"],
    says: undefined,
    labels: [],
  },
  {
    of: MCS_SERVICE_EXPORTS,
    keeps: ["Valid"],
    says: { type: "Ready", status: "False", reason: "Pending" },
    labels: [],
  },
  {
    of: MULTI_CLUSTER_SERVICES,
    finalizer: FINALIZERS.multiClusterService,
    keeps: [],
    says: { type: "Valid", status: "Unknown", reason: "UnknownServiceImport" },
    labels: [SERVICE_IMPORT_LABEL, DERIVED_SERVICE_LABEL],
  },
];

/** Reports in the status of users' objects that they have no effect any more, as a leaving agent does. */
export async function markInactive(member: KubeClient, left: Left): Promise<void> {
  for (const kind of USERS)
    for (const it of await listOrNone(member, kind.of, optional(left.signal)))
      await report(member, kind, it, left);
}

async function report(
  member: KubeClient,
  { of, finalizer, keeps, says, labels }: UsersKind,
  object: Reported,
  { name: cluster, clock, signal }: Left,
): Promise<void> {
  const options = optional(signal);
  if (finalizer !== undefined) await removeFinalizer(member, of, object, { finalizer, ...options });
  const before = object.status?.conditions ?? [];
  // An object whose status never mentioned a fleet needs no update.
  const isReported = before.length === 0 || before.some((it) => it.type === ACTIVE_CONDITION);
  if (isDeleting(object) || isReported) return;
  const { namespace = "", name } = object.metadata;
  const stale = labels.filter((label) => object.metadata.labels?.[label] !== undefined);
  if (stale.length > 0)
    await member.mergePatch(
      of,
      keyOf(object),
      { metadata: { labels: Object.fromEntries(stale.map((label) => [label, null])) } },
      options,
    );
  const inactive = inactiveCondition(cluster);
  const said = says === undefined ? [] : [{ ...says, message: inactive.message }];
  let conditions = before.filter((it) => keeps.includes(it.type) || it.type === says?.type);
  for (const it of [...said, inactive]) conditions = setCondition(conditions, it, clock);
  const applied = { metadata: { namespace, name }, status: { conditions } } as Applied<Reported>;
  await member.apply(of, applied, { fieldManager: MEMBER_MANAGER, subresource: "status", ...options });
}

function optional(signal: AbortSignal | undefined): { readonly signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

export async function listOrNone<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  options: { readonly labelSelector?: string; readonly signal?: AbortSignal },
): Promise<readonly T[]> {
  try {
    return (await client.list(of, options)).items;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return [];
    throw error;
  }
}
