import { describe, expect, it } from "vitest";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { PlannedElement } from "../service-proxy/plan.ts";
import { planVirtualService, serviceOfSlice, type VirtualService } from "./plan.ts";
import { VIRTUAL_IP_LAYOUT } from "./table.ts";

const VIP = "10.127.0.9";
const VIP6 = "fd12:3456:789a:ff00::9";
const ours: ServiceImport = {
  metadata: { namespace: "work", name: "hello", labels: { "fairlead.dev/managed-by": "fairlead-member" } },
  spec: { type: "ClusterSetIP", ips: [VIP, VIP6], ports: [{ name: "http", port: 80 }] },
};

interface Part {
  readonly addresses: readonly string[];
  readonly weight?: string;
  readonly node?: string;
}
function imported(cluster: string, { addresses, weight, node }: Part): EndpointSlice {
  return {
    metadata: {
      namespace: "work",
      name: `${cluster}-${addresses[0]}`,
      labels: {
        "multicluster.kubernetes.io/service-name": "hello",
        "multicluster.kubernetes.io/source-cluster": cluster,
        "kubernetes.io/service-name": "derived-x",
      },
      ...(weight === undefined ? {} : { annotations: { "fairlead.dev/weight": weight } }),
    },
    addressType: addresses[0]?.includes(":") === true ? "IPv6" : "IPv4",
    endpoints: addresses.map((it) => ({
      addresses: [it],
      ...(node === undefined ? {} : { nodeName: node }),
    })),
    ports: [{ name: "http", port: 8080 }],
  };
}
/** Of the Service that this cluster exports. */
function own(pods: Readonly<Record<string, string>>): EndpointSlice {
  return {
    metadata: { namespace: "work", name: "hello-1", labels: { "kubernetes.io/service-name": "hello" } },
    addressType: "IPv4",
    endpoints: Object.entries(pods).map(([uid, address]) => ({
      addresses: [address],
      targetRef: { kind: "Pod", uid },
    })),
    ports: [{ name: "http", port: 8080 }],
  };
}
function planned(view: Partial<VirtualService>): readonly PlannedElement[] {
  return planVirtualService({
    serviceImport: ours,
    slices: [],
    cluster: "a",
    node: { name: "n1", zone: undefined },
    blocks: ["10.127.0.0/16", "fd12:3456:789a:ff00::/56"],
    addressOf: () => undefined,
    ...view,
  });
}
const endpoints = (plan: readonly PlannedElement[]) =>
  plan.filter((it) => it.set === "endpoints-4").map((it) => it.value);
const countOf = (plan: readonly PlannedElement[], backend: string) =>
  endpoints(plan).filter((it) => it === backend).length;

describe("a virtual IP", () => {
  it("is not that of a ServiceImport that the member agent does not serve", () => {
    const slices = [imported("b", { addresses: ["10.112.8.5"] })];
    const users: ServiceImport = { ...ours, metadata: { namespace: "a", name: "hello" } };
    expect(planned({ slices })).not.toEqual([]);
    expect(planned({ slices, serviceImport: users })).toEqual([]);
    const annotations = { "fairlead.dev/adopted": "true" };
    expect(
      planned({ slices, serviceImport: { ...users, metadata: { ...users.metadata, annotations } } }),
    ).toEqual(planned({ slices }));
  });

  it("leads to the endpoints of an adopted import whose ports have names of the user's", () => {
    const slices = [imported("b", { addresses: ["10.112.8.5"] })];
    const adopted = (names: string): ServiceImport => ({
      metadata: {
        namespace: "work",
        name: "hello",
        annotations: { "fairlead.dev/adopted": "true", "fairlead.dev/port-names": names },
      },
      spec: { type: "ClusterSetIP", ips: [VIP], ports: [{ name: "other", port: 80 }] },
    });
    expect(endpoints(planned({ slices, serviceImport: adopted('["http"]') }))).toEqual(
      endpoints(planned({ slices })),
    );
    for (const nonsense of ["", "{}", "[1]", '[["http"]]'])
      expect(endpoints(planned({ slices, serviceImport: adopted(nonsense) }))).toEqual([]);
  });

  it("leads to the endpoints of all clusters, in both families, alike where no weight differs", () => {
    const slices = [
      imported("b", { addresses: ["10.112.8.2", "10.112.8.3"] }),
      imported("c", { addresses: ["10.112.16.2"] }),
      imported("c", { addresses: ["fd12:3456:789a:2::2"] }),
    ];
    const plan = planned({ slices });
    expect(endpoints(plan)).toEqual(["10.112.16.2 . 8080", "10.112.8.2 . 8080", "10.112.8.3 . 8080"]);
    expect(plan).toContainEqual({ set: "services-4", key: `${VIP} . tcp . 80`, value: "goto pick-3" });
    expect(plan).toContainEqual({ set: "services-6", key: `${VIP6} . tcp . 80`, value: "goto pick-1" });
  });

  it("shares requests between clusters by weight, however many endpoints they have", () => {
    const slices = [
      imported("b", { addresses: ["10.112.8.2", "10.112.8.3"], weight: "3" }),
      imported("c", { addresses: ["10.112.16.2"], weight: "1" }),
    ];
    const plan = planned({ slices });
    const all = endpoints(plan).length;
    expect(countOf(plan, "10.112.16.2 . 8080") / all).toBeCloseTo(1 / 4, 1);
    expect(countOf(plan, "10.112.8.2 . 8080") / all).toBeCloseTo(3 / 8, 1);
    const none = planned({
      slices: [
        imported("b", { addresses: ["10.112.8.2"], weight: "0" }),
        imported("c", { addresses: ["10.112.16.2"], weight: "1000" }),
      ],
    });
    expect(new Set(endpoints(none))).toEqual(new Set(["10.112.16.2 . 8080"]));
  });

  it("leads to pods of its own cluster where this node reaches them, and to none without an address there", () => {
    const slices = [
      imported("a", { addresses: ["10.244.1.5", "10.244.2.6", "10.244.2.7"], node: "n1" }),
      own({ p5: "10.244.1.5", p6: "10.244.2.6", p7: "10.244.2.7" }),
    ];
    const addressOf = (uid: string) => ({ p5: "10.244.1.5", p6: "10.112.1.6" })[uid];
    expect(endpoints(planned({ slices, addressOf }))).toEqual(["10.112.1.6 . 8080", "10.244.1.5 . 8080"]);
  });

  it("is of the blocks of the network: other addresses of an import are left alone", () => {
    const spec = { type: "ClusterSetIP" as const, ports: [], ips: ["10.96.0.1", "10.127.0.300", "fd00::1"] };
    expect(planned({ serviceImport: { ...ours, spec } })).toEqual([]);
  });

  it("refuses connections while no endpoint is there", () => {
    expect(planned({})).toContainEqual({
      set: "services-4",
      key: `${VIP} . tcp . 80`,
      value: "goto refuse",
    });
  });

  it("is looked up by the service, whether a slice was imported or is this cluster's", () => {
    expect(serviceOfSlice(imported("b", { addresses: ["10.112.8.2"] }))).toBe("work/hello");
    expect(serviceOfSlice(own({}))).toBe("work/hello");
  });

  it("is served by the table of the golden", async () => {
    const script = renderScript(
      VIRTUAL_IP_LAYOUT.table,
      diffTable(undefined, VIRTUAL_IP_LAYOUT.render(new Map())),
    );
    // The chains that choose are those of the service proxy.
    const lines = script.split("\n").filter((it) => !/(pick|sticky|remember)-(local-)?\d/.test(it));
    await expect(lines.join("\n")).toMatchFileSnapshot("goldens/table.nft");
  });
});
