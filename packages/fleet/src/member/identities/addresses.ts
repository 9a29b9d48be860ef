import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress } from "@fairlead/base/netaddr/prefix.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
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
  const nodes = [...(session.ranges?.nodes.store.list() ?? [])].flatMap((it) => addressesOfNode(session, it));
  const all = [...ofPods, ...nodes];
  const { mesh, cluster } = session;
  const [network] = mesh?.networks.store.list() ?? [];
  const own = ownNetworks(network?.spec, mesh?.blocks.store.list() ?? [], cluster);
  const seen = all.flatMap((it) => tryParseAddress(it) ?? []);
  const shown = seen.filter((it) => own.some((one) => containsAddress(one, it))).map(formatAddress);
  return [...new Set(shown)].toSorted(byText);
}

/** Also its fleet addresses, which pods of it without such send with. */
function addressesOfNode({ mesh }: Session, { metadata: { name }, status }: Node): readonly string[] {
  const blocks = [...(mesh?.blocks.store.list() ?? [])].filter(
    (it) => it.spec.node === name && !isReleased(it),
  );
  const fleet = blocks.flatMap(({ spec }) => [spec.ipv4[0], spec.ipv6[0]]).filter((it) => it !== undefined);
  return [...(status?.addresses ?? []).map((it) => it.address), ...fleet.map(nodeAddress)];
}
