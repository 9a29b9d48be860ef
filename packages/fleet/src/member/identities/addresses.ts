import {
  bitsOf,
  familyOf,
  formatAddress,
  type IpAddress,
  tryParseAddress,
} from "@fairlead/base/netaddr/address.ts";
import { aggregated, overlapping } from "@fairlead/base/netaddr/aggregate.ts";
import { prefixOf } from "@fairlead/base/netaddr/prefix.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { isReservedNamespace } from "#api/networking.fleet.azure.com/names.ts";
import { nodeAddress } from "#dataplane/pod-attachment/addresses.ts";
import { ownNetworks } from "#dataplane/policy/remote-networks.ts";
import { isReleased } from "../fleet-addresses.ts";
import { isInGlobalNamespace } from "../global-services.ts";
import type { Session } from "../session.ts";
import { ADDRESSES_PER_SLICE, hasAddresses, planSlices } from "./groups.ts";
import { ADDRESSES_KEY } from "./mailbox.ts";
import { addressesOf, applySlice, type Publisher, removeSlices } from "./publish.ts";

/** Whether other clusters may not know which pods of a namespace there are. */
export function isAnonymousNamespace(session: Session, name: string): boolean {
  return isReservedNamespace(name) || !isInGlobalNamespace(session, name);
}

/**
 * Writes the addresses that no selector of other clusters selects, so that rules there are not closed to them: of pods in namespaces that are not
 * global, and of nodes. Only those that others take for addresses of pods.
 */
export async function publishAddresses(parts: Publisher, signal: AbortSignal): Promise<void> {
  const { session, mailbox, wanted } = parts;
  // Which nodes exist is not known yet: nothing is removed.
  if (session.ranges?.nodes.hasSynced !== true) return;
  const addresses = wanted.addresses() ? anonymousAddresses(parts) : [];
  const slices = mailbox.in(ADDRESSES_KEY);
  const named = (all: readonly string[]): { readonly name: string }[] => all.map((name) => ({ name }));
  const plan = planSlices(
    ADDRESSES_KEY,
    named(addresses),
    new Map(slices.map((it) => [it.metadata.name, named(it.spec.addresses ?? [])])),
    ADDRESSES_PER_SLICE,
  );
  await removeSlices(parts, slices, plan.remove, signal);
  for (const { name, entries } of plan.write) {
    const contents = { cluster: session.cluster, type: "Addresses" as const };
    await applySlice(parts, name, { ...contents, addresses: entries.map((it) => it.name) }, signal);
  }
}

function anonymousAddresses(parts: Publisher): readonly string[] {
  const { session, pods } = parts;
  const hidden = [...session.here.namespaces.store.list()]
    .map((it) => it.metadata.name)
    .filter((it) => isAnonymousNamespace(session, it));
  const ofPods = hidden
    .flatMap((it) => pods.inNamespace(it))
    .filter(hasAddresses)
    .flatMap((it) => addressesOf(parts, it));
  const { mesh, cluster } = session;
  const blocks = [...(mesh?.blocks.store.list() ?? [])];
  const byNode = Map.groupBy(blocks, (it) => it.spec.node);
  const ofNodes = [...(session.ranges?.nodes.store.list() ?? [])].flatMap((it) =>
    addressesOfNode(it, byNode.get(it.metadata.name) ?? []),
  );
  const [network] = mesh?.networks.store.list() ?? [];
  const own = aggregated(ownNetworks(network?.spec, blocks, cluster));
  const isOwn = (it: IpAddress): boolean => overlapping(own, prefixOf(it, bitsOf(familyOf(it)))).length > 0;
  const seen = [...ofPods, ...ofNodes].flatMap((it) => tryParseAddress(it) ?? []);
  return [...new Set(seen.filter(isOwn).map(formatAddress))].toSorted(byText);
}

/** Also its fleet addresses, which pods of it without such send with. */
function addressesOfNode({ status }: Node, blocks: readonly AddressBlock[]): readonly string[] {
  const used = blocks.filter((it) => !isReleased(it));
  const fleet = used.flatMap(({ spec }) => [spec.ipv4[0], spec.ipv6[0]]).filter((it) => it !== undefined);
  return [...(status?.addresses ?? []).map((it) => it.address), ...fleet.map(nodeAddress)];
}
