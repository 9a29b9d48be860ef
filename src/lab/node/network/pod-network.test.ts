import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PodAddresses } from "./pod-addresses.ts";
import { linkName, nodeEndLines, podEndLines } from "./pod-network.ts";

const link = {
  podUid: "2f1d1d7a-8f5b-4a43-9a52-7f0c8ce21a55",
  netns: "/lab/nodes/n1/pods/x/netns",
  addresses: ["10.1.0.5", "fd00::5"],
};

const neighbours = (lines: readonly string[]) => lines.filter((it) => it.startsWith("neighbour replace"));

describe("the network of a pod", () => {
  it("reaches its next hop by permanent neighbours on both ends", () => {
    const [, mac = ""] = /lladdr (\S+)/.exec(podEndLines(link).join("\n")) ?? [];
    expect(mac).toMatch(/^02:/);
    expect(nodeEndLines(link)[0]).toContain(`address ${mac} type veth`);
    expect(neighbours(nodeEndLines(link))).toHaveLength(2);
    expect(neighbours(podEndLines(link))).toHaveLength(2);
  });

  it("has no address that waits for duplicate detection", () => {
    expect(podEndLines(link)).toContain("address replace fd00::5/128 dev eth0 nodad");
    for (const lines of [nodeEndLines(link), podEndLines(link)]) {
      const quiet = lines.findIndex((it) => it.endsWith("addrgenmode none"));
      expect(quiet).toBeGreaterThanOrEqual(0);
      expect(lines.findIndex((it) => it.endsWith(" up"))).toBeGreaterThan(quiet);
    }
  });

  it("takes nothing as an address that is none", () => {
    const wrong = { ...link, addresses: ["10.0.0.1\nlink delete eth0"] };
    const invalid = expect.objectContaining({ code: "ADDRESS_INVALID" }) as Error;
    expect(() => nodeEndLines(wrong)).toThrow(invalid);
    expect(() => podEndLines(wrong)).toThrow(invalid);
  });

  it("names a device as Linux allows, whatever the uid", () => {
    fc.assert(
      fc.property(fc.string(), (uid) => {
        expect(linkName(uid)).toMatch(/^pod[0-9a-f]{12}$/);
      }),
    );
  });
});

describe("addresses of pods", () => {
  it("are never given to two pods, and come back when a pod is gone", () => {
    const uids = fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(uids, (pods) => {
        const addresses = new PodAddresses(["10.1.0.0/29", "fd00::/120"]);
        const given = pods.map((uid) => addresses.allocate(uid));
        expect(new Set(given.flat()).size).toBe(pods.length * 2);
        for (const it of given) addresses.release(it);
        for (const it of given) expect(addresses.reserve(it)).toBe(true);
      }),
    );
  });

  it("are refused when the range is used up, and then none of the other family is lost", () => {
    const addresses = new PodAddresses(["fd00::/120", "10.1.0.0/30"]);
    for (const uid of ["a", "b"]) addresses.allocate(uid);
    expect(() => addresses.allocate("c")).toThrow("no address is left in the node's pod CIDR 10.1.0.0/30");
    addresses.release(["fd00::1", "10.1.0.1"]);
    expect(addresses.allocate("c")).toHaveLength(2);
  });

  it("that a pod had are not taken twice", () => {
    const addresses = new PodAddresses(["10.1.0.0/24"]);
    expect(addresses.reserve(["10.1.0.9"])).toBe(true);
    expect(addresses.reserve(["10.1.0.9"])).toBe(false);
    expect(addresses.reserve(["10.2.0.9"])).toBe(false);
  });
});
