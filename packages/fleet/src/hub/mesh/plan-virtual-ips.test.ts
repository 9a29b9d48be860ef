import { describe, expect, it } from "vitest";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { VirtualIP } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { planOfPrefixes } from "#domain/address-plan.ts";
import { RECLAIM_MS } from "./plan-addresses.ts";
import { planVirtualIPs, type VirtualIPsPlan } from "./plan-virtual-ips.ts";

const NOW = Date.parse("2026-06-01T00:00:00Z");
const PLAN = planOfPrefixes(parsePrefix("10.112.0.0/12"), parsePrefix("fd12:3456:789a::/48"));

function imported(name: string, type: "ClusterSetIP" | "Headless" = "ClusterSetIP"): ImportedService {
  const spec = { service: { namespace: "work", name }, type, ports: [], clusters: [] };
  return { metadata: { namespace: "fleet-view-p", name: `work.${name}` }, spec };
}
function stored({ wanted }: VirtualIPsPlan): VirtualIP[] {
  return wanted.map(({ spec, ...metadata }) => ({ metadata, spec }));
}
const addressOf = (plan: VirtualIPsPlan, name: string) =>
  plan.wanted.find((it) => it.spec.service.name === name)?.spec.ipv4;

describe("the virtual addresses of a network", () => {
  it("are for each exported service that has a virtual address, once", () => {
    const services = [imported("a"), imported("a"), imported("b"), imported("set", "Headless")];
    const plan = planVirtualIPs({ plan: PLAN, services, existing: [], nowMs: NOW });
    expect(plan.wanted.map((it) => it.spec.service.name)).toEqual(["a", "b"]);
    expect(plan).toMatchObject({ faults: [], againInMs: undefined });
  });

  it("stay for a day after the last export, and are back with it", () => {
    const first = planVirtualIPs({ plan: PLAN, services: [imported("a")], existing: [], nowMs: NOW });
    const gone = planVirtualIPs({ plan: PLAN, services: [], existing: stored(first), nowMs: NOW });
    expect(gone.wanted).toMatchObject([
      { annotations: { "fairlead.dev/released-at": "2026-06-01T00:00:00Z" } },
    ]);
    expect(gone.againInMs).toBe(RECLAIM_MS);
    const later = { existing: stored(gone), nowMs: NOW + RECLAIM_MS - 1000 };
    const back = planVirtualIPs({ plan: PLAN, services: [imported("a")], ...later });
    expect(addressOf(back, "a")).toBe(addressOf(first, "a"));
    expect(back.wanted[0]?.annotations).toBeUndefined();
    const over = planVirtualIPs({ plan: PLAN, services: [], ...later, nowMs: NOW + RECLAIM_MS });
    expect(over.wanted).toEqual([]);
  });

  it("do not exist in a flat network; one that had some keeps them from others", () => {
    const services = [imported("a")];
    expect(planVirtualIPs({ plan: undefined, services, existing: [], nowMs: NOW }).wanted).toEqual([]);
    const first = planVirtualIPs({ plan: PLAN, services, existing: [], nowMs: NOW });
    const flat = planVirtualIPs({ plan: undefined, services, existing: stored(first), nowMs: NOW });
    expect(flat.wanted).toMatchObject([
      { annotations: { "fairlead.dev/released-at": "2026-06-01T00:00:00Z" } },
    ]);
  });

  it("names the services for which none is free", () => {
    const plan = { ...PLAN, vipIPv4: parsePrefix("10.127.0.0/30") };
    const services = ["a", "b", "c"].map((it) => imported(it));
    const [fault] = planVirtualIPs({ plan, services, existing: [], nowMs: NOW }).faults;
    expect(fault).toMatchObject({ reason: "AddressesExhausted" });
    expect(fault?.message).toContain("10.127.0.0/30 has no free virtual address for work/c");
  });
});
