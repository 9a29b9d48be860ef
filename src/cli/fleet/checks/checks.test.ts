import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { parsePrefix } from "#netaddr/prefix.ts";
import { cidrAnnotations, type Cidrs, judgeCidrs } from "./cidrs.ts";
import { judgeClocks } from "./clock.ts";
import { judgeVersion } from "./version.ts";

const cidrs = (pods: string[], services: string[] = []): Cidrs => ({
  pods: pods.map((it) => parsePrefix(it)),
  services: services.map((it) => parsePrefix(it)),
});
const member = (name: string, own: Cidrs): MemberCluster => ({
  metadata: { name, annotations: cidrAnnotations(own) },
  spec: { identity: { kind: "User", name: "x" } },
});

describe("the check of versions", () => {
  it.each([
    ["24", "failed"],
    ["25", "ok"],
    ["30+", "ok"],
    ["99", "warning"],
    ["", "unknown"],
  ])("takes 1.%s as %s", (minor, status) => {
    expect(judgeVersion("the hub", `v1.${minor}`, minor).status).toBe(status);
  });
});

describe("the check of addresses", () => {
  const west = member("west", cidrs(["10.2.0.0/16", "fd00:2::/56"], ["10.96.0.0/12"]));
  it.each([
    ["pods apart and the same Services", cidrs(["10.1.0.0/16"], ["10.96.0.0/12"]), "ok"],
    ["pods on pods", cidrs(["10.0.0.0/8"]), "failed"],
    ["pods on pods of the second family", cidrs(["10.1.0.0/16", "fd00:2::/64"]), "failed"],
    ["pods on Services of the other", cidrs(["10.100.0.0/16"]), "failed"],
    ["Services on pods of the other", cidrs(["10.1.0.0/16"], ["10.2.0.0/24"]), "failed"],
    ["pods that are not known", cidrs([], ["10.96.0.0/12"]), "unknown"],
  ])("with %s is as it should be", (_, own, status) => {
    expect(judgeCidrs("east", own, [west]).status).toBe(status);
    // A cluster does not stand in its own way.
    expect(judgeCidrs("west", own, [west]).status).not.toBe("failed");
  });
});

describe("the check of clocks", () => {
  it.each([
    [0, 0, "ok"],
    [29_000, 0, "ok"],
    [31_000, 0, "warning"],
    [-200_000, 200_000, "failed"],
    [undefined, 0, "unknown"],
    [undefined, 86_400_000, "failed"],
  ])("with hub %s ms and member %s ms ahead is %s", (hub, own, status) => {
    const finding = judgeClocks({ who: "the hub", aheadMs: hub }, { who: "cluster east", aheadMs: own });
    expect(finding.status).toBe(status);
  });
});
