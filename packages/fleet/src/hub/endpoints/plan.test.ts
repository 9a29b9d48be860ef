import { describe, expect, it } from "vitest";
import { sliceExportName } from "#api/fairlead.dev/cluster-names.ts";
import type { EndpointSliceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { forLegacyAgents, pickByName, planSlice, type SliceView } from "./plan.ts";

const slice = (
  cluster: string,
  more: Partial<EndpointSliceExport["metadata"]> = {},
): EndpointSliceExport => ({
  metadata: {
    name: sliceExportName(cluster, "work", "hello-x"),
    namespace: `fleet-member-${cluster}`,
    ...more,
  },
  spec: {
    addressType: "IPv4",
    endpoints: [
      { addresses: ["10.0.0.1"], conditions: { ready: true }, nodeName: "n" },
      { addresses: ["10.0.0.2"], conditions: { ready: false } },
    ],
    endpointSliceReference: {
      clusterId: cluster,
      kind: "EndpointSlice",
      namespace: "work",
      name: "hello-x",
      namespacedName: "work/hello-x",
      resourceVersion: "1",
      generation: 1,
      uid: "u",
    },
    ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
  },
});
const view = (more: Partial<SliceView> = {}): SliceView => ({
  slice: slice("a"),
  isExported: true,
  serviceImport: { metadata: { name: "hello" }, status: { clusters: [{ cluster: "a" }] } },
  claims: [],
  reporters: [],
  isLegacy: () => false,
  readsView: () => false,
  isConnected: () => true,
  exportTo: undefined,
  granted: undefined,
  ...more,
});
const all = (): boolean => true;
const claim = (cluster: string) => [{ mailbox: `fleet-member-${cluster}`, cluster }];

describe("the endpoints that a member exports", () => {
  it("go to every member that has the namespace but the exporter, which sees its own", () => {
    expect(planSlice(view({ reporters: ["b", "a", "c"] }))).toMatchObject({
      act: "distribute",
      isInView: true,
      mailboxes: ["fleet-member-b", "fleet-member-c"],
    });
  });

  it("are in the view once, and in the mailboxes of those alone that do not read it", () => {
    const readsView = (it: string): boolean => it !== "b";
    expect(planSlice(view({ reporters: ["b", "c", "d"], claims: claim("d"), readsView }))).toMatchObject({
      act: "distribute",
      isInView: true,
      mailboxes: ["fleet-member-b"],
    });
    const old = { claims: claim("b"), isLegacy: () => true, readsView };
    expect(planSlice(view(old))).toMatchObject({ isInView: true, mailboxes: ["fleet-member-b"] });
  });

  it("meant for some members go to their mailboxes alone, whatever else these read", () => {
    const chosen = { reporters: ["b", "c", "d"], readsView: () => true, exportTo: ["c", "stranger"] };
    expect(planSlice(view(chosen))).toMatchObject({
      act: "distribute",
      isInView: false,
      mailboxes: ["fleet-member-c"],
    });
    expect(planSlice(view({ ...chosen, claims: claim("b") }))).toMatchObject({
      mailboxes: ["fleet-member-c"],
    });
    expect(planSlice(view({ ...chosen, exportTo: [] }))).toMatchObject({ isInView: false, mailboxes: [] });
  });

  it("go to the fleet API's importer too, once, and only where the exporter was accepted", () => {
    expect(planSlice(view({ claims: claim("b"), reporters: ["b"] }))).toMatchObject({
      mailboxes: ["fleet-member-b"],
    });
    const refused = { metadata: { name: "hello" }, status: { clusters: [{ cluster: "z" }] } };
    expect(planSlice(view({ claims: claim("b"), serviceImport: refused }))).toMatchObject({ mailboxes: [] });
  });

  it("are returned to a legacy importer that is also the exporter, because it does not read its own slices", () => {
    expect(planSlice(view({ claims: claim("a") }))).toMatchObject({ mailboxes: [] });
    expect(planSlice(view({ claims: claim("a"), isLegacy: () => true }))).toMatchObject({
      mailboxes: ["fleet-member-a"],
    });
  });

  it("go nowhere without an export, from a mailbox of another, or to leave", () => {
    const withdrawn = { act: "withdraw", problem: undefined };
    expect(planSlice(view({ isExported: false, reporters: ["b"] }))).toEqual(withdrawn);
    const leaving = slice("a", { deletionTimestamp: "2026-01-01T00:00:00Z" });
    expect(planSlice(view({ slice: leaving, reporters: ["b"] }))).toEqual(withdrawn);
    const stolen = slice("a", { namespace: "fleet-member-b" });
    expect(planSlice(view({ slice: stolen, reporters: ["c"] }))).toMatchObject({
      act: "withdraw",
      problem: "it claims to come from cluster a, but this is the mailbox of b",
    });
  });

  it("A9: are left out where they are outside the networks that the member was granted; the others stay", () => {
    const within = (granted: string) => planSlice(view({ reporters: ["b"], granted }));
    expect(within("10.0.0.0/24, fd00::/8")).toMatchObject({ act: "distribute", problem: undefined });
    expect(within("10.0.0.0/31")).toMatchObject({
      act: "distribute",
      spec: { endpoints: [{ addresses: ["10.0.0.1"] }] },
      problem:
        "10.0.0.2 is not in the granted CIDRs of the member (10.0.0.0/31); 1 of 2 endpoints are left out",
    });
    expect(within("10.9.0.0/16")).toMatchObject({ act: "withdraw" });
  });

  it("go nowhere while the member has no addresses that others can reach", () => {
    expect(planSlice(view({ reporters: ["b"], granted: null }))).toMatchObject({
      act: "withdraw",
      problem: expect.stringContaining("the member has no fleet addresses") as string,
    });
  });

  it("A9: go nowhere where the networks that the member was granted cannot be read", () => {
    const refused = (granted: string) => planSlice(view({ reporters: ["b"], granted }));
    expect(refused("")).toMatchObject({ act: "withdraw" });
    expect(refused("10.0.0.0/24,ten")).toEqual({
      act: "withdraw",
      problem:
        'the annotation fairlead.dev/granted-cidrs of the MemberCluster has "ten", which is not a CIDR',
    });
  });

  it("belong to the mailbox that their name is derived from, however early another one took it", () => {
    const mine = slice("a", { creationTimestamp: "2026-01-02T00:00:00Z" });
    const thief = slice("b", { name: mine.metadata.name, creationTimestamp: "2026-01-01T00:00:00Z" });
    expect(pickByName([thief, mine])).toBe(mine);
    expect(pickByName([mine, thief])).toBe(mine);
  });

  it("are sent to legacy agents without what these cannot handle: only ready IPv4 endpoints", () => {
    expect(forLegacyAgents(slice("a").spec, undefined, all)?.endpoints).toEqual([
      { addresses: ["10.0.0.1"] },
    ]);
    expect(forLegacyAgents({ ...slice("a").spec, addressType: "IPv6" }, undefined, all)).toBeUndefined();
  });

  it("are sent to them by the ports that are used of their cluster, or not at all", () => {
    const ports = ["http", "admin"].map((name) => ({ name, protocol: "TCP" as const, port: 8080 }));
    const send = (serves: (port: string) => boolean) =>
      forLegacyAgents({ ...slice("a").spec, ports }, undefined, serves)?.ports?.map((it) => it.name);
    expect(send((it) => it === "admin")).toEqual(["admin"]);
    expect(send(() => false)).toBeUndefined();
  });

  it("A8: has the ports alone that are imported from the cluster, under the names of the import", () => {
    const ports = [
      { name: "web", protocol: "TCP" as const, port: 8080 },
      { name: "http", protocol: "TCP" as const, port: 1 },
    ];
    const sent = forLegacyAgents({ ...slice("a").spec, ports }, [{ name: "web", importedAs: "http" }], all);
    expect(sent?.ports).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);
    expect(forLegacyAgents({ ...slice("a").spec, ports }, [], all)).toBeUndefined();
  });
});
