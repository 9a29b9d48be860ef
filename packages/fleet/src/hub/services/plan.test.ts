import { describe, expect, it } from "vitest";
import type {
  InternalServiceExport,
  InternalServiceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { findExportProblem, planService } from "./plan.ts";

const reference = (clusterId: string, more: object = {}) => ({
  clusterId,
  kind: "Service",
  namespace: "work",
  name: "hello",
  namespacedName: "work/hello",
  resourceVersion: "1",
  generation: 1,
  uid: "u",
  ...more,
});
const exported = (cluster: string, port = 80, more: object = {}): InternalServiceExport => ({
  metadata: {
    name: "work-hello",
    namespace: `fleet-member-${cluster}`,
    creationTimestamp: "2026-01-01T00:00:00Z",
  },
  spec: { ports: [{ name: "http", protocol: "TCP", port }], serviceReference: reference(cluster), ...more },
});
const asked = (cluster: string, since: string): InternalServiceImport => ({
  metadata: { name: "work-hello", namespace: `fleet-member-${cluster}`, creationTimestamp: since },
  spec: { serviceImportReference: reference(cluster) },
});
const members = new Set(["a", "b", "c"]);
const plan = (
  exports: readonly InternalServiceExport[],
  imports: readonly InternalServiceImport[] = [],
  annotation?: string,
) =>
  planService({
    exports,
    imports,
    members,
    serviceImport:
      annotation === undefined
        ? undefined
        : {
            metadata: {
              name: "hello",
              annotations: { "networking.fleet.azure.com/service-in-use-by": annotation },
            },
          },
  });
const reasons = (of: ReturnType<typeof plan>, cluster: string): string[] =>
  of.exports
    .filter((it) => it.object.metadata.namespace === `fleet-member-${cluster}`)
    .flatMap((it) => it.conditions.map((at) => `${at.type}=${at.status}:${at.reason}`));

describe("what the hub makes of the exports of a service", () => {
  it("sets the conditions of each export, for both APIs", () => {
    const both = plan([exported("a"), exported("b", 81)]);
    expect(reasons(both, "a")).toEqual([
      "fairlead.dev/Accepted=True:Accepted",
      "multicluster.x-k8s.io/Conflict=True:PortConflict",
      "Conflict=False:NoConflictFound",
    ]);
    expect(reasons(both, "b")).toEqual([
      "fairlead.dev/Accepted=True:Accepted",
      "multicluster.x-k8s.io/Conflict=True:PortConflict",
      "Conflict=True:ConflictFound",
    ]);
    expect(both.status?.clusters).toEqual([{ cluster: "a" }]);
    expect(both.audiences.get("")?.everyone?.clusters.map((it) => it.cluster)).toEqual(["a", "b"]);
  });

  it("A8: reports to an exporter that another export exists that is not for its cluster, but not its contents", () => {
    const hidden = exported("a", 81, { exportTo: ["c"], affinity: "local" });
    const messages = (of: ReturnType<typeof plan>, cluster: string): string =>
      of.exports
        .filter((it) => it.object.metadata.namespace === `fleet-member-${cluster}`)
        .flatMap((it) => it.conditions.map((at) => at.message))
        .join("\n");
    const of = plan([hidden, exported("b", 80, { affinity: "remote" })]);
    expect(reasons(of, "b")).toContain("Conflict=True:ConflictFound");
    expect(messages(of, "b")).toContain("a cluster that does not export here");
    expect(messages(of, "b")).not.toMatch(/81|local\b|\ba has|cluster a\b/);
    expect(messages(of, "a")).toContain("80");
    expect(messages(plan([exported("a", 81), exported("b")]), "b")).toContain("81");
  });

  it("C3: answers an importer with the clusters that export to it, and their ports alone", () => {
    const union = { portPolicy: "Union" as const };
    const web = { ports: [{ name: "web", protocol: "TCP" as const, port: 80, appProtocol: "h2c" }] };
    const hidden = exported("a", 81, { ...union, exportTo: ["b"] });
    const half = exported("b", 80, { ...web });
    const of = plan([hidden, half], [asked("c", "2026-01-01T00:00:00Z")]);
    expect(of.status?.ports?.map((it) => it.port)).toEqual([81, 80]);
    expect(of.importStatuses[0]?.status).toMatchObject({
      clusters: [{ cluster: "b", ports: [{ name: "web", importedAs: "web" }] }],
      ports: [{ name: "web", port: 80 }],
    });
    expect(of.importStatuses[0]?.status.ports).toHaveLength(1);
  });

  it("counts two exports of one cluster once", () => {
    const twice = exported("a", 81);
    twice.metadata.name = "zzz";
    const of = plan([twice, exported("a")]);
    expect(of.audiences.get("")?.everyone?.ports).toEqual([{ name: "http", protocol: "TCP", port: 80 }]);
    expect(of.exports.find((it) => it.object === twice)?.conditions).toMatchObject([
      { reason: "Refused", message: "work-hello exports the same service already" },
    ]);
  });

  it("is decided in each network by itself: what another one exports changes nothing, and is not reported", () => {
    const exports = [exported("a", 80, { headless: true }), exported("b", 81), exported("c", 81)];
    const networkOf = (cluster: string): string => (cluster === "a" ? "p" : "q");
    const split = planService({ exports, imports: [], members, serviceImport: undefined, networkOf });
    const [p, q] = ["p", "q"].map((it) => split.audiences.get(it)?.everyone);
    expect(p).toMatchObject({ type: "Headless", clusters: [{ cluster: "a" }] });
    expect(q).toMatchObject({
      type: "ClusterSetIP",
      ports: [{ port: 81 }],
      clusters: [{ cluster: "b" }, { cluster: "c" }],
    });
    for (const cluster of ["a", "b", "c"])
      expect(reasons(split, cluster)[1]).toBe("multicluster.x-k8s.io/Conflict=False:NoConflicts");
  });

  it("joins all reasons of a conflict with commas", () => {
    const conflict = reasons(plan([exported("a"), exported("b", 81, { headless: true })]), "a")[1];
    expect(conflict).toBe("multicluster.x-k8s.io/Conflict=True:PortConflict,TypeConflict");
  });

  it("ignores exports that are being deleted, and services without exports", () => {
    const leaving = exported("a");
    leaving.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
    expect(plan([leaving])).toMatchObject({
      status: undefined,
      audiences: new Map(),
      exports: [],
    });
  });

  it.each([
    ["is not in a mailbox", "work", reference("a")],
    ["is in a mailbox without a member", "fleet-member-z", reference("z")],
    ["claims to come from elsewhere", "fleet-member-b", reference("a")],
    ["is of a reserved namespace", "fleet-member-a", reference("a", { namespace: "fleet-member-b" })],
    ["is of fleet-system", "fleet-member-a", reference("a", { namespace: "fleet-system" })],
    ["has no valid name", "fleet-member-a", reference("a", { name: "../x" })],
  ])("refuses an export that %s", (_, namespace, serviceReference) => {
    const object: InternalServiceExport = {
      metadata: { name: "x", namespace },
      spec: { ports: [{ port: 80 }], serviceReference },
    };
    expect(findExportProblem(object, { members })).toBeDefined();
    expect(plan([object]).status).toBeUndefined();
  });
});

describe("who imports a service through the fleet API", () => {
  const early = asked("b", "2026-01-01T00:00:00Z");
  const late = asked("c", "2026-01-02T00:00:00Z");

  it("is one member: the first that asked, until it releases the import", () => {
    const first = plan([exported("a")], [late, early]);
    expect(first.claims[0]?.cluster).toBe("b");
    expect(first.importStatuses.map((it) => [it.object.metadata.namespace, it.holdsClaim])).toEqual([
      ["fleet-member-c", false],
      ["fleet-member-b", true],
    ]);
    expect(first.importStatuses[0]?.status).toEqual({
      message:
        "work/hello is imported by b: one member at a time does, unless every one asks with fairlead.dev/import: shared",
    });
    const kept = plan([exported("a")], [late, early], '{"MemberClusters":{"fleet-member-c":"c"}}');
    expect(kept.claims[0]?.cluster).toBe("c");
    expect(
      plan([exported("a")], [late], '{"MemberClusters":{"fleet-member-b":"b"}}').claims[0]?.cluster,
    ).toBe("c");
  });

  it("does not exist for a headless service, or for a service without exports", () => {
    expect(plan([exported("a", 80, { headless: true })], [early]).claims).toEqual([]);
    const none = plan([], [early]);
    expect(none.claims).toEqual([]);
    expect(none.importStatuses[0]?.status).toEqual({ message: "no cluster exports work/hello" });
  });

  it("A9: is never a member that may not import from the namespace, so that it does not block another", () => {
    const allowed = planService({
      exports: [exported("a")],
      imports: [early, late],
      members,
      allowed: ["c"],
      // Held from before the policy.
      serviceImport: {
        metadata: {
          name: "hello",
          annotations: {
            "networking.fleet.azure.com/service-in-use-by": '{"MemberClusters":{"fleet-member-b":"b"}}',
          },
        },
      },
    });
    expect(allowed.claims.map((it) => it.cluster)).toEqual(["c"]);
    expect(allowed.audiences.get("")?.everyone).toBeUndefined();
    expect([...(allowed.audiences.get("")?.special.keys() ?? [])]).toEqual(["a", "c"]);
    const refused = allowed.importStatuses.find((it) => it.object.metadata.namespace === "fleet-member-b");
    expect(refused?.holdsClaim).toBe(false);
    expect(refused?.status.message).toContain("does not name b");
  });
});
