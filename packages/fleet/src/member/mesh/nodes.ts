import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Gateway,
  GATEWAYS,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { gatewayName } from "#domain/gateway.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Applied, ReconcileResult } from "@fairlead/kube/types.ts";
import { isParallel, isReleased } from "../fleet-addresses.ts";
import { membershipOf } from "../session.ts";
import type { MeshParts } from "./mesh.ts";
import { planNodeBlocks } from "./node-blocks.ts";
import { planOwnGateways } from "./own-gateways.ts";

/** Nodes that had no addresses when they were looked at last. */
export type Lacking = ReadonlySet<string>;

/** One pass for the nodes of this cluster: which addresses they have, and which of them are gateways. */
export async function followNodes(
  parts: MeshParts,
  before: Lacking,
  signal: AbortSignal,
): Promise<ReconcileResult & { readonly lacking: Lacking }> {
  const { session, mesh, ranges } = parts;
  const { local, cluster, deps } = session;
  const membership = membershipOf(session);
  const done = { lacking: new Set<string>() };
  if (membership === "none") return done;
  const ofNodes = [...mesh.blocks.store.list()].filter((it) => it.spec.node !== undefined);
  const gateways = [...mesh.gateways.store.list()].filter((it) => it.spec.cluster === cluster);
  if (membership === "leave" || !isParallel(session)) {
    for (const it of ofNodes) await local.delete(ADDRESS_BLOCKS, keyOf(it), { signal });
    for (const it of gateways) await local.delete(GATEWAYS, keyOf(it), { signal });
    return done;
  }
  const own = mesh.blocks.store.get(objectKey(FLEET_SYSTEM_NAMESPACE, cluster));
  if (own === undefined) await removeFormer(parts, ofNodes, signal);
  // Without nodes there is nothing to plan; that they cannot be read must not end what is there.
  const nodes = [...ranges.nodes.store.list()].filter((it) => !isDeleting(it));
  if (own === undefined || isReleased(own) || nodes.length === 0) return done;
  const nowMs = deps.clock.now();
  const blocks = planNodeBlocks({ own: own.spec, nodes, blocks: ofNodes, nowMs });
  const chosen = planOwnGateways({ nodes, gateways, nowMs });
  await writeBlocks(parts, ofNodes, blocks.blocks, signal);
  await writeGateways(parts, gateways, chosen.gateways, signal);
  const lacking = new Set(blocks.lacking);
  for (const it of nodes.filter(({ metadata: { name } }) => lacking.has(name) && !before.has(name)))
    session.events.record(NODES, it, {
      type: "Warning",
      reason: "NoFleetAddresses",
      message: `the blocks of cluster ${cluster} (${own.spec.ipv4.join(", ")}) are used up: pods of the node get no fleet addresses until the hub gives it another`,
    });
  const again = [blocks.againInMs, chosen.againInMs].flatMap((it) => it ?? []);
  return { lacking, ...(again.length === 0 ? {} : { requeueAfterMs: Math.min(...again) }) };
}

/** In a network that has no block for this cluster: nothing else ends the blocks that nodes had in another one. */
async function removeFormer(
  { session: { local }, mesh }: MeshParts,
  ofNodes: readonly AddressBlock[],
  signal: AbortSignal,
): Promise<void> {
  const [network] = mesh.networks.store.list();
  if (network === undefined) return;
  const former = ofNodes.filter((it) => it.spec.profile !== network.metadata.name);
  for (const it of former) await local.delete(ADDRESS_BLOCKS, keyOf(it), { signal });
}

const LABELS = { [MANAGED_BY_LABEL]: MANAGED_BY };

async function writeBlocks(
  { session: { local, events }, mesh }: MeshParts,
  present: readonly AddressBlock[],
  wanted: ReturnType<typeof planNodeBlocks>["blocks"],
  signal: AbortSignal,
): Promise<void> {
  const keep = new Set(wanted.map((it) => it.name));
  // Before others get their addresses.
  for (const it of present)
    if (!keep.has(it.metadata.name)) await local.delete(ADDRESS_BLOCKS, keyOf(it), { signal });
  for (const { name, spec, releasedAt } of wanted) {
    const desired: Applied<AddressBlock> = {
      metadata: {
        namespace: FLEET_SYSTEM_NAMESPACE,
        name,
        labels: LABELS,
        ...(releasedAt === undefined ? {} : { annotations: { [RELEASED_AT_ANNOTATION]: releasedAt } }),
      },
      spec,
    };
    const current = mesh.blocks.store.get(keyOf(desired));
    const by = { fieldManager: MEMBER_MANAGER, events, signal };
    await applyIfChanged(local, ADDRESS_BLOCKS, { current, desired, ...by });
  }
}

async function writeGateways(
  { session: { local, cluster, events }, mesh }: MeshParts,
  present: readonly Gateway[],
  wanted: ReturnType<typeof planOwnGateways>["gateways"],
  signal: AbortSignal,
): Promise<void> {
  const nodes = new Map(wanted.map((it) => [gatewayName(cluster, it.ordinal), it.node]));
  // One that moves to another node is recreated: its keys are of the node that it was on.
  const gone = present.filter((it) => nodes.get(it.metadata.name) !== it.spec.node);
  for (const it of gone) await local.delete(GATEWAYS, keyOf(it), { signal });
  for (const { ordinal, node } of wanted) {
    const name = gatewayName(cluster, ordinal);
    const current = mesh.gateways.store.get(objectKey(FLEET_SYSTEM_NAMESPACE, name));
    // The watch brings us here again when it is gone.
    if (current !== undefined && gone.includes(current)) continue;
    const index = current?.spec.index;
    const desired = {
      metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name, labels: LABELS },
      spec: { cluster, ordinal, node, ...(index === undefined ? {} : { index }) },
    };
    const by = { fieldManager: MEMBER_MANAGER, events, signal };
    await applyIfChanged(local, GATEWAYS, { current, desired, ...by });
  }
}
