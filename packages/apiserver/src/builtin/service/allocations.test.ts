import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { ApiObject } from "#values/object.ts";
import { ServiceAllocations } from "./allocations.ts";

const RANGES = ["10.96.0.0/16", "fd00:96::/112"];

function service(name: string, clusterIPs: readonly string[], nodePorts: readonly number[] = []): ApiObject {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: "n" },
    spec: { clusterIPs: [...clusterIPs], ports: nodePorts.map((nodePort) => ({ port: 80, nodePort })) },
  };
}

describe("the addresses and ports of Services", () => {
  it("are allocated outside the band that is reserved for static addresses", () => {
    const allocations = new ServiceAllocations({ serviceRanges: RANGES });
    for (const name of ["a", "b", "c"]) {
      const key = objectKey("n", name);
      const [third = 0, fourth = 0] = (allocations.chooseIp("IPv4", key) ?? "")
        .split(".")
        .slice(2)
        .map(Number);
      expect(third * 256 + fourth).toBeGreaterThanOrEqual(257);
      expect(allocations.choosePort(key, new Set())).toBeGreaterThanOrEqual(30_086);
    }
  });

  it("are allocated from the reserved band when the rest is used up, and then allocation fails", () => {
    const allocations = new ServiceAllocations({
      serviceRanges: ["10.0.0.0/28"],
      nodePorts: { first: 30_000, last: 30_001 },
    });
    const ips = new Set<string>();
    for (let at = 0; at < 14; at++) {
      const ip = allocations.chooseIp("IPv4", objectKey("n", `s${at}`)) ?? "none";
      allocations.stored(service(`s${at}`, [ip]), undefined);
      ips.add(ip);
    }
    expect(ips.size).toBe(14);
    expect(ips.has("10.0.0.0") || ips.has("10.0.0.15") || ips.has("none")).toBe(false);
    expect(allocations.chooseIp("IPv4", objectKey("n", "late"))).toBeUndefined();
    allocations.stored(service("p", [], [30_000]), undefined);
    expect(allocations.choosePort(objectKey("n", "q"), new Set([30_001]))).toBeUndefined();
  });

  it("are refused to other Services until their Service is deleted", () => {
    const allocations = new ServiceAllocations({ serviceRanges: RANGES });
    const held = service("a", ["10.96.0.50", "fd00:96::50"], [30_001]);
    allocations.stored(held, undefined);
    expect(allocations.refuseIp("10.96.0.50", objectKey("n", "b"))).toBe("provided IP is already allocated");
    expect(allocations.refuseIp("fd00:96:0::50", objectKey("n", "b"))).toBe(
      "provided IP is already allocated",
    );
    expect(allocations.refuseIp("10.96.0.50", objectKey("n", "a"))).toBeUndefined();
    expect(allocations.refusePort(30_001, objectKey("n", "b"))).toBe("provided port is already allocated");
    allocations.stored(undefined, held);
    expect(allocations.refuseIp("10.96.0.50", objectKey("n", "b"))).toBeUndefined();
    expect(allocations.refusePort(30_001, objectKey("n", "b"))).toBeUndefined();
  });

  it.each(["10.97.0.1", "10.96.0.0", "10.96.255.255", "fd00:97::1", "fd00:96::"])(
    "are not %s, which is outside of the ranges or no host's",
    (ip) => {
      const allocations = new ServiceAllocations({ serviceRanges: RANGES });
      expect(allocations.refuseIp(ip, objectKey("n", "a"))).toBe(
        "the provided network does not match the current range",
      );
    },
  );

  it("reserve the first address for the API server", () => {
    const allocations = new ServiceAllocations({ serviceRanges: RANGES });
    expect([allocations.firstIpOf("IPv4"), allocations.firstIpOf("IPv6")]).toEqual([
      "10.96.0.1",
      "fd00:96::1",
    ]);
  });

  it("require a range, and at most one per family", () => {
    expect(() => new ServiceAllocations({ serviceRanges: [] })).toThrow("no service range");
    expect(() => new ServiceAllocations({ serviceRanges: ["10.0.0.0/24", "10.1.0.0/24"] })).toThrow("IPv4");
  });

  type Step = readonly ["add" | "remove", number];
  const step: fc.Arbitrary<Step> = fc.tuple(fc.constantFrom("add", "remove"), fc.nat({ max: 30 }));

  it("never have two owners, and are the same after a restart, for any sequence of changes", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const options = {
          serviceRanges: ["10.0.0.0/27", "fd00::/123"],
          nodePorts: { first: 30_000, last: 30_020 },
        };
        const allocations = new ServiceAllocations(options);
        const stored = new Map<number, ApiObject>();
        for (const [act, id] of steps) {
          const before = stored.get(id);
          if (act === "remove") {
            stored.delete(id);
            allocations.stored(undefined, before);
            continue;
          }
          if (before !== undefined) continue;
          const key = objectKey("n", `s${id}`);
          const ips = [allocations.chooseIp("IPv4", key), allocations.chooseIp("IPv6", key)];
          const port = allocations.choosePort(key, new Set());
          if (ips.includes(undefined) || port === undefined) continue;
          const made = service(
            `s${id}`,
            ips.filter((it) => it !== undefined),
            [port],
          );
          stored.set(id, made);
          allocations.stored(made, undefined);
        }
        const specs = [...stored.values()].map(
          (it) => it["spec"] as { clusterIPs: string[]; ports: { nodePort: number }[] },
        );
        const ips = specs.flatMap((it) => it.clusterIPs);
        const ports = specs.flatMap((it) => it.ports.map((one) => one.nodePort));
        expect(new Set(ips).size).toBe(ips.length);
        expect(new Set(ports).size).toBe(ports.length);
        const restarted = new ServiceAllocations(options);
        for (const it of [...stored.values()].toReversed()) restarted.stored(it, undefined);
        for (let id = 0; id < 3; id++) {
          const key = objectKey("n", `new${id}`);
          expect(restarted.chooseIp("IPv4", key)).toBe(allocations.chooseIp("IPv4", key));
          expect(restarted.choosePort(key, new Set())).toBe(allocations.choosePort(key, new Set()));
        }
      }),
    );
  });
});
