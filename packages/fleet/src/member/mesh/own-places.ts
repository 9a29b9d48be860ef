import { SERVICE_RANGES } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { OwnPlaces } from "#domain/gateway-candidates.ts";
import { listedRanges } from "#domain/ranges.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Change } from "@fairlead/kube/types.ts";
import type { Ranges } from "../membership/ranges.ts";
import type { Session } from "../session.ts";

/** Where the API server says that it is. */
const API_SERVER = objectKey("default", "kubernetes");

/** What of this cluster gateways of others cannot be at, as it is known here. */
export function ownPlaces(
  { cluster, mailbox, here }: Pick<Session, "cluster" | "mailbox" | "here">,
  { nodes }: Pick<Ranges, "nodes">,
): OwnPlaces {
  const internalMember = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
  const servers = [...here.slices.store.byIndex("service", API_SERVER)].flatMap((it) => it.endpoints);
  const texts = [
    ...servers.flatMap((it) => it.addresses),
    ...[...nodes.store.list()].flatMap((it) => addressesOf(it)),
  ];
  return {
    services: listedRanges(internalMember?.status?.properties?.[SERVICE_RANGES]?.value),
    hosts: new Set(texts.flatMap((it) => tryParseAddress(it) ?? [])),
  };
}

export function areAddressesChanged({ before, after }: Change<Node>): boolean {
  return !sameJson(addressesOf(before), addressesOf(after));
}

function addressesOf(node: Node | undefined): readonly string[] {
  return (node?.status?.addresses ?? []).filter((it) => it.type === "InternalIP").map((it) => it.address);
}
