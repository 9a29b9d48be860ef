import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
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

  it("rejects an invalid address", () => {
    const wrong = { ...link, addresses: ["10.0.0.1\nlink delete eth0"] };
    const invalid = expect.objectContaining({ code: "ADDRESS_INVALID" }) as Error;
    expect(() => nodeEndLines(wrong)).toThrow(invalid);
    expect(() => podEndLines(wrong)).toThrow(invalid);
  });

  it("has a valid device name for any uid", () => {
    fc.assert(
      fc.property(fc.string(), (uid) => {
        expect(linkName(uid)).toMatch(/^pod[0-9a-f]{12}$/);
      }),
    );
  });
});
