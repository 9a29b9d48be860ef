import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import { DesiredElements } from "../service-proxy/desired.ts";
import { planGlobalService, serviceOfSlice } from "./plan.ts";
import { GLOBAL_TABLE, renderGlobalServices } from "./table.ts";

const HELLO: Service = {
  metadata: { namespace: "work", name: "hello" },
  spec: { clusterIPs: ["10.96.0.9", "fd00::9"], ports: [{ name: "http", port: 80 }] },
};
const READY = { ready: true, serving: true, terminating: false };
const LEAVING = { ready: false, serving: true, terminating: true };
const GONE = { ready: false, serving: false, terminating: true };

interface Part {
  readonly addresses: readonly string[];
  readonly conditions?: typeof READY;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly isHidden?: boolean;
  readonly port?: string;
}
function slice(cluster: string | undefined, part: Part): EndpointSlice {
  const { addresses, conditions = READY, annotations = {}, isHidden = false, port = "http" } = part;
  const remote = {
    "endpointslice.kubernetes.io/managed-by": "endpointslice-global.fairlead.dev",
    "multicluster.kubernetes.io/source-cluster": cluster ?? "",
    "fairlead.dev/global-service": "hello",
  };
  return {
    metadata: {
      namespace: "work",
      name: `${cluster}-${addresses[0]}`,
      labels: {
        ...(isHidden ? {} : { "kubernetes.io/service-name": "hello" }),
        ...(cluster === undefined ? {} : remote),
      },
      annotations: { ...annotations },
    },
    addressType: addresses[0]?.includes(":") === true ? "IPv6" : "IPv4",
    endpoints: addresses.map((it) => ({ addresses: [it], conditions })),
    ports: [{ name: port, port: 8080 }],
  };
}
const REMOTE = { "fairlead.dev/affinity": "remote" };
const NODE = { name: "n1", zone: undefined, addresses: ["192.0.2.1", "2001:db8::1"] };
const planned = (...slices: readonly EndpointSlice[]) =>
  planGlobalService({ service: HELLO, slices, node: NODE });
/** Endpoints that are chosen, with the number of slots that each has. */
function chosen(...slices: readonly EndpointSlice[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { set, value } of planned(...slices))
    if (set.startsWith("endpoints-4")) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

const own = slice(undefined, { addresses: ["10.1.0.1"] });
const other = (part: Partial<Part> = {}): EndpointSlice => slice("b", { addresses: ["10.2.0.1"], ...part });

describe("a global Service in the table of its node", () => {
  it("is not there where the cluster's service proxy does all that is asked", () => {
    expect(planned(own)).toEqual([]);
    expect(planned(own, other())).toEqual([]);
    expect(
      planned(
        slice(undefined, { addresses: ["10.1.0.1"], annotations: { "service.cilium.io/weight": "0" } }),
      ),
    ).toEqual([]);
  });

  it.each([
    [READY, READY, ["10.2.0.1 . 8080"]],
    [READY, LEAVING, ["10.2.0.1 . 8080"]],
    [READY, GONE, ["10.1.0.1 . 8080"]],
    [LEAVING, GONE, ["10.1.0.1 . 8080"]],
    [GONE, GONE, []],
  ])(
    "with remote affinity, its own being %j and those of others %j, leads to %j",
    (here, there, expected) => {
      const local = slice(undefined, { addresses: ["10.1.0.1"], conditions: here });
      expect(Object.keys(chosen(local, other({ conditions: there, annotations: REMOTE })))).toEqual(expected);
    },
  );

  it("leads to hidden endpoints as well", () => {
    expect(chosen(own, other({ isHidden: true }))).toEqual({ "10.1.0.1 . 8080": 1, "10.2.0.1 . 8080": 1 });
    expect(serviceOfSlice(other({ isHidden: true }))).toBe("work/hello");
  });

  it("leads to each endpoint as often as the weight of its slice says, and never to those in maintenance", () => {
    const weigh = (weight: string) => ({ annotations: { "service.cilium.io/weight": weight } });
    const shares = chosen(slice(undefined, { addresses: ["10.1.0.1", "10.1.0.2"] }), other(weigh("3")));
    const [first = 0, second = 0, third = 0] = [
      shares["10.1.0.1 . 8080"],
      shares["10.1.0.2 . 8080"],
      shares["10.2.0.1 . 8080"],
    ];
    expect(third / first).toBeCloseTo(3, 0);
    expect(first / second).toBeCloseTo(1, 0);
    expect(chosen(own, other(weigh("0")))).toEqual({ "10.1.0.1 . 8080": 1 });
    expect(chosen(slice(undefined, { addresses: ["10.1.0.1"], ...weigh("0") }), other())).toEqual({
      "10.2.0.1 . 8080": 1,
    });
  });

  it("leads nowhere while all of its endpoints are in maintenance, also if no other cluster has one", () => {
    const annotations = { "service.cilium.io/weight": "0" };
    const service = {
      ...HELLO,
      metadata: { ...HELLO.metadata, annotations: { "service.cilium.io/global": "true" } },
    };
    const slices = [slice(undefined, { addresses: ["10.1.0.1"], annotations })];
    const elements = planGlobalService({ service, slices, node: NODE });
    expect(elements.map(({ key, value }) => `${key} ${value}`)).toContain("10.96.0.9 . tcp . 80 goto refuse");
    expect(elements.some((it) => it.set === "endpoints-4")).toBe(false);
  });

  it("is decided for each port: where others lack one, its own endpoints serve that", () => {
    const service = {
      ...HELLO,
      spec: {
        ...HELLO.spec,
        ports: [
          { name: "admin", port: 81 },
          { name: "http", port: 80 },
        ],
      },
    };
    const slices = [
      own,
      slice(undefined, { addresses: ["10.1.0.1"], port: "admin" }),
      other({ annotations: REMOTE }),
    ];
    const elements = planGlobalService({ service, slices, node: NODE });
    expect(elements.filter((it) => it.set === "endpoints-4").map((it) => `${it.key} ${it.value}`)).toEqual([
      "0 . 10.96.0.9 . tcp . 81 10.1.0.1 . 8080",
      "0 . 10.96.0.9 . tcp . 80 10.2.0.1 . 8080",
    ]);
  });

  it("leads from the ports of the node as from its address, but where these are for pods of the node only", () => {
    const at = (spec: Service["spec"]) => {
      const service = { ...HELLO, spec: { ...HELLO.spec, type: "NodePort" as const, ...spec } };
      return planGlobalService({ service, slices: [own, other({ isHidden: true })], node: NODE })
        .filter((it) => it.key.includes("192.0.2.1"))
        .map((it) => `${it.set}: ${it.key} ${it.value}`.trim());
    };
    const ports = [{ name: "http", port: 80, nodePort: 30_080 }];
    expect(at({ ports })).toEqual([
      "masquerade-all-4: 192.0.2.1 . tcp . 30080",
      "services-4: 192.0.2.1 . tcp . 30080 goto pick-2",
      "endpoints-4: 0 . 192.0.2.1 . tcp . 30080 10.1.0.1 . 8080",
      "endpoints-4: 1 . 192.0.2.1 . tcp . 30080 10.2.0.1 . 8080",
    ]);
    expect(at({ ports, externalTrafficPolicy: "Local" })).toEqual([]);
    expect(at({})).toEqual([]);
  });

  it("is ahead of the cluster's service proxy, in a table of its own", async () => {
    const desired = new DesiredElements();
    desired.set("work/hello", planned(own, other({ annotations: REMOTE })));
    const ops = diffTable(undefined, renderGlobalServices(desired.elements));
    await expect(renderScript(GLOBAL_TABLE, ops)).toMatchFileSnapshot("goldens/table.nft");
  });
});
