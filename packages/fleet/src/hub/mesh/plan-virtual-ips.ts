import { formatPrefix } from "@fairlead/base/netaddr/prefix.ts";
import { RELEASED_AT_ANNOTATION, type VirtualIP } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { mailboxName } from "#api/fairlead.dev/cluster-names.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import type { AddressPlan } from "#domain/address-plan.ts";
import { byAge } from "#domain/mesh-members.ts";
import { allocateVirtualIPs } from "#domain/virtual-ips.ts";
import { type Fault, listed, RECLAIM_MS, releasedAt } from "./plan-addresses.ts";

/** The virtual addresses of the services of one parallel network. Pure. */

export interface VirtualIPsView {
  /** Undefined: the network has no addresses. */
  readonly plan: AddressPlan | undefined;
  /** As members of the network see them. One service may be there several times. */
  readonly services: Iterable<ImportedService>;
  /** Those of the view. */
  readonly existing: readonly VirtualIP[];
  readonly nowMs: number;
}

export interface VirtualIPsPlan {
  /** All that are to be there. */
  readonly wanted: readonly {
    readonly name: string;
    readonly annotations?: Record<string, string>;
    readonly spec: VirtualIP["spec"];
  }[];
  readonly faults: readonly Fault[];
  readonly againInMs: number | undefined;
}

/** A service that is not exported any more keeps its addresses for as long as a member that left keeps its block. */
export function planVirtualIPs({ plan, services, existing, nowMs }: VirtualIPsView): VirtualIPsPlan {
  const exported = new Map<string, VirtualIP["spec"]["service"]>();
  if (plan !== undefined)
    for (const { spec } of services)
      if (spec.type === "ClusterSetIP")
        exported.set(mailboxName(spec.service.namespace, spec.service.name), spec.service);
  const known = existing.toSorted(byAge);
  const released = known
    .filter((it) => !exported.has(it.metadata.name))
    .map(({ metadata, spec }) => ({ name: metadata.name, spec, at: releasedAt(metadata.annotations, nowMs) }))
    .filter((it) => nowMs - Date.parse(it.at) < RECLAIM_MS);
  const kept = released.map(({ name, spec, at }) => ({
    name,
    spec,
    annotations: { [RELEASED_AT_ANNOTATION]: at },
  }));
  const dueInMs = released.map((it) => Date.parse(it.at) + RECLAIM_MS - nowMs);
  const againInMs = dueInMs.length === 0 ? undefined : Math.max(1, Math.min(...dueInMs));
  if (plan === undefined) return { wanted: kept, faults: [], againInMs };
  const specs = new Map(known.map(({ metadata, spec }) => [metadata.name, spec]));
  const reserved = new Set(released.map((it) => it.name));
  const names = new Set([...specs.keys(), ...exported.keys()]);
  const { addresses, lacking } = allocateVirtualIPs(
    plan,
    [...names]
      .filter((it) => exported.has(it) || reserved.has(it))
      .map((name) => ({ name, has: specs.get(name), wants: exported.has(name) })),
  );
  const wanted = [...exported].flatMap(([name, service]) => {
    const found = addresses.get(name);
    return found === undefined ? [] : [{ name, spec: { service, ipv4: found.ipv4, ipv6: found.ipv6 } }];
  });
  const without = lacking.flatMap((it) => exported.get(it) ?? []);
  const faults: Fault[] =
    without.length === 0
      ? []
      : [
          {
            reason: "AddressesExhausted",
            message: `${formatPrefix(plan.vipIPv4)} has no free virtual address for ${listed(without.map((it) => `${it.namespace}/${it.name}`))}: use a profile with a shorter spec.network.addresses.ipv4; addresses of services that are not exported any more are free again after ${RECLAIM_MS / 3_600_000} h`,
          },
        ];
  return { wanted: [...wanted, ...kept], faults, againInMs };
}
