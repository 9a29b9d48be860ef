import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { CLASS, TYPE } from "@fairlead/dns/wire/types.ts";
import { answerFromTree } from "@fairlead/dns/answer.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { trimmedSlice } from "@fairlead/dns/trim.ts";
import { serviceContribution } from "./zone.ts";

const zone = { origin: "clusterset.local.", ttl: 5 };
const NAME = "hello.work.svc.clusterset.local.";
const headless: ServiceImport = {
  metadata: { name: "hello", namespace: "work" },
  spec: { type: "Headless", ports: [] },
};

interface Cluster {
  readonly cluster: string;
  readonly weight: string | undefined;
  readonly addresses: readonly string[];
}

function slice({ cluster, weight, addresses }: Cluster): EndpointSlice {
  const labels = {
    "multicluster.kubernetes.io/service-name": "hello",
    "multicluster.kubernetes.io/source-cluster": cluster,
  };
  const annotations = weight === undefined ? {} : { annotations: { "fairlead.dev/weight": weight } };
  return trimmedSlice(
    {
      metadata: { name: `hello-${cluster}`, namespace: "work", labels, ...annotations },
      addressType: addresses[0]?.includes(":") === true ? "IPv6" : "IPv4",
      endpoints: addresses.map((it) => ({ addresses: [it] })),
      ports: [{ name: "tcp", port: 42 }],
    },
    { labels: Object.keys(labels), annotations: ["fairlead.dev/weight"] },
  );
}

function treeOf(clusters: readonly Cluster[]): RecordTree {
  const tree = new RecordTree();
  tree.addZone({ origin: zone.origin, negativeTtl: 5, serial: 1 });
  tree.put("service", serviceContribution(zone, headless, clusters.map(slice)));
  return tree;
}

/** Answers one after another, each as the addresses or SRV data in it, in order. */
function ask(clusters: readonly Cluster[], type: number, count: number): readonly string[] {
  const tree = treeOf(clusters);
  const source = { tree, rng: seededRng(1645), zoneOf: (name: string) => tree.zoneOf(name) };
  return Array.from({ length: count }, () => {
    const answer = answerFromTree(source, { name: NAME, type, class: CLASS.IN });
    return (answer?.answers ?? [])
      .map((it) => formatRecord(it).split(" ").slice(4).join(" "))
      .toSorted()
      .join(", ");
  });
}

const EAST: Cluster = { cluster: "east", weight: "3", addresses: ["10.1.0.1", "10.1.0.2"] };
const WEST: Cluster = { cluster: "west", weight: undefined, addresses: ["10.2.0.1"] };

describe("a headless service whose clusters have weights (C3)", () => {
  it("answers with the addresses of one cluster, all of them", () => {
    expect(new Set(ask([EAST, WEST], TYPE.A, 50))).toEqual(new Set(["10.1.0.1, 10.1.0.2", "10.2.0.1"]));
  });

  it("answers with all addresses where the weights are equal", () => {
    const equal = [EAST, { ...WEST, weight: "3" }];
    expect(new Set(ask(equal, TYPE.A, 20))).toEqual(new Set(["10.1.0.1, 10.1.0.2, 10.2.0.1"]));
    const none = equal.map((it) => ({ ...it, weight: undefined }));
    expect(new Set(ask(none, TYPE.A, 20))).toEqual(new Set(["10.1.0.1, 10.1.0.2, 10.2.0.1"]));
  });

  it("answers with clusters that have addresses of the family alone, whatever the others weigh", () => {
    const six: Cluster = { cluster: "north", weight: "1000", addresses: ["fd00::1"] };
    expect(new Set(ask([six, WEST], TYPE.A, 20))).toEqual(new Set(["10.2.0.1"]));
    expect(new Set(ask([six, WEST], TYPE.AAAA, 20))).toEqual(new Set(["fd00::1"]));
  });

  it("says the weights in SRV records, those of a cluster shared out among its hosts", () => {
    const [answer] = ask([EAST, WEST], TYPE.SRV, 1);
    expect(answer?.split(", ")).toEqual([
      "0 60 42 10-2-0-1.west.hello.work.svc.clusterset.local.",
      "0 90 42 10-1-0-1.east.hello.work.svc.clusterset.local.",
      "0 90 42 10-1-0-2.east.hello.work.svc.clusterset.local.",
    ]);
  });

  it("has the names of hosts as ever", () => {
    const tree = treeOf([EAST, WEST]);
    for (const host of ["10-1-0-1.east", "10-1-0-2.east", "10-2-0-1.west"])
      expect(tree.find(`${host}.${NAME}`)).toHaveLength(1);
    expect(tree.find(`east.${NAME}`)).toBeUndefined();
  });

  it("takes a weight that cannot be read for 1", () => {
    const odd = [{ ...EAST, weight: "heavy" }, WEST];
    expect(new Set(ask(odd, TYPE.A, 5))).toEqual(new Set(["10.1.0.1, 10.1.0.2, 10.2.0.1"]));
  });

  it("answers with each cluster as often as its weight says", () => {
    const anyWeights = fc.uniqueArray(fc.integer({ min: 1, max: 1000 }), { minLength: 2, maxLength: 5 });
    fc.assert(
      fc.property(anyWeights, (weights) => {
        const clusters = weights.map((weight, at) => ({
          cluster: `c${at}`,
          weight: String(weight),
          addresses: [`10.${at}.0.1`],
        }));
        const count = 2000;
        const counts = Map.groupBy(ask(clusters, TYPE.A, count), (it) => it);
        const total = weights.reduce((sum, it) => sum + it, 0);
        for (const [at, weight] of weights.entries()) {
          const share = weight / total;
          const found = (counts.get(`10.${at}.0.1`)?.length ?? 0) / count;
          // Five standard deviations of a binomial share.
          expect(Math.abs(found - share)).toBeLessThan(5 * Math.sqrt((share * (1 - share)) / count) + 0.001);
        }
      }),
      { numRuns: 30 },
    );
  });
});
