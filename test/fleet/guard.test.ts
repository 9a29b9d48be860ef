import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { findEndpointProblem, MAX_ADDRESSES, MAX_ENDPOINTS } from "@fairlead/fleet/domain/slice.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FINALIZERS } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  type ExportedObjectReference,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  type InternalServiceExport,
  type InternalServiceImport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { familyOf, formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { lastAddress, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { SPECIAL_RANGES } from "@fairlead/base/netaddr/special-purpose.ts";
import { findExportProblem } from "@fairlead/fleet/hub/services/plan.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  CARELESS_USER,
  FOREIGN_USER,
  type GuardedHub,
  hasRealServer,
  HUB_USER,
  startGuardedHub,
} from "./guard-server.ts";

const members = new Set(["a", "b"]);
const mailbox = (cluster: string) => `fleet-member-${cluster}`;

function reference(more: Partial<ExportedObjectReference> = {}): ExportedObjectReference {
  const { namespace = "work", name = "hello" } = more;
  const version = { resourceVersion: "1", generation: 1, uid: "u" };
  return {
    clusterId: "a",
    kind: "Service",
    namespace,
    name,
    namespacedName: `${namespace}/${name}`,
    ...version,
    ...more,
  };
}
const exported = (more: Partial<ExportedObjectReference> = {}, spec: object = {}): InternalServiceExport => ({
  metadata: { namespace: mailbox("a"), name: "work-hello" },
  spec: { ports: [{ port: 80 }], serviceReference: reference(more), ...spec },
});
const asked = (more: Partial<ExportedObjectReference> = {}): InternalServiceImport => ({
  metadata: { namespace: mailbox("a"), name: "work-hello" },
  spec: { serviceImportReference: reference({ kind: "ServiceImport", ...more }) },
});
const slice = (more: Partial<EndpointSliceExport["spec"]> = {}): EndpointSliceExport => ({
  metadata: { namespace: mailbox("a"), name: "a-work-hello-abcde" },
  spec: {
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.1.0.1"] }],
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    endpointSliceReference: reference({ kind: "EndpointSlice", name: "hello-abcde" }),
    ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
    ...more,
  },
});
const at = (addressType: "IPv4" | "IPv6", ...addresses: string[]): EndpointSliceExport =>
  slice({ addressType, endpoints: [{ addresses }] });
const many = (count: number): { addresses: string[] }[] =>
  Array.from({ length: count }, (_, index) => ({ addresses: [`10.${index >> 8}.${index & 255}.1`] }));

const micro = (iso: string): string => iso.replace("Z", "000Z");
/** Undefined if absent. */
function neighbour(address: IpAddress, by: 1 | -1): IpAddress | undefined {
  if (typeof address === "number") {
    const next = address + by;
    return next < 0 || next > 0xff_ff_ff_ff ? undefined : next;
  }
  const next = address + BigInt(by);
  return next < 0n || next >= 1n << 128n ? undefined : next;
}

/** Undefined when it was let in, else by which policy it was refused; RBAC's refusal is "RBAC". */
async function verdict(what: Promise<unknown>): Promise<string | undefined> {
  try {
    await what;
    return undefined;
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    return (
      /ValidatingAdmissionPolicy '([^']+)'/.exec(error.message)?.[1] ??
      (error.code === "API_FORBIDDEN" ? "RBAC" : error.code)
    );
  }
}

describe.each(["embedded", "real"] as const)("what the hub's API server admits to mailboxes (%s)", (kind) => {
  describe.skipIf(kind === "real" && !hasRealServer)("by its policies", () => {
    let hub: GuardedHub;
    let memberA: KubeClient;
    beforeAll(async () => {
      hub = await startGuardedHub(kind);
      memberA = await hub.as("fleet:member:a");
    }, 180_000);
    afterAll(() => hub[Symbol.asyncDispose]());

    /** As the member whose mailbox it is; nothing is stored. */
    const tries = <T extends KubeObject>(of: Resource<T>, object: T) =>
      verdict(memberA.create(of, object, { dryRun: true }));

    it.each<[string, InternalServiceExport, string | undefined]>([
      ["as an agent sends it", exported(), undefined],
      ["that says nothing yet", { metadata: exported().metadata }, undefined],
      ["with a weight", exported({}, { weight: 1000 }), undefined],
      ["in the name of another cluster", exported({ clusterId: "b" }), "fairlead-service-exports"],
      ["of a mailbox", exported({ namespace: "fleet-member-b" }), "fairlead-service-exports"],
      ["of the view", exported({ namespace: "fleet-view-default" }), "fairlead-service-exports"],
      ["of fleet-system", exported({ namespace: "fleet-system" }), "fairlead-service-exports"],
      ["of no namespace", exported({ namespace: "../x" }), "fairlead-service-exports"],
      ["of no name", exported({ name: "Hello" }), "fairlead-service-exports"],
      ["whose names differ", exported({ namespacedName: "work/other" }), "fairlead-service-exports"],
      ["of a weight out of range", exported({}, { weight: 1001 }), "fairlead-service-exports"],
      [
        "of too many ports",
        exported({}, { ports: Array.from({ length: 1001 }, (_, index) => ({ port: index + 1 })) }),
        "fairlead-service-exports",
      ],
    ])("A9: an export %s", async (_, object, expected) => {
      expect(await tries(INTERNAL_SERVICE_EXPORTS, object)).toBe(expected);
      // The controllers refuse no more than the policy does.
      if (expected === undefined && object.spec !== undefined)
        expect(findExportProblem(object, { members })).toBeUndefined();
    });

    it.each<[string, EndpointSliceExport]>([
      ["IPv4", slice()],
      ["IPv6", at("IPv6", "fd00::1")],
      ["without ports", slice({ ports: [] })],
      ["in an empty list", slice({ endpoints: [] })],
      ["as many as fit", slice({ endpoints: many(MAX_ENDPOINTS) })],
      [
        "as many of IPv6 as fit",
        slice({
          addressType: "IPv6",
          endpoints: many(MAX_ENDPOINTS).map((it) => ({
            addresses: [`fd00:1111:2222:3333::${it.addresses[0]}`],
          })),
        }),
      ],
      ["of carrier-grade NAT", at("IPv4", "100.64.0.1")],
      ["behind NAT64", at("IPv6", "64:ff9b::a01:1")],
    ])("A9: endpoints %s are let in", async (_, object) => {
      expect(await tries(ENDPOINT_SLICE_EXPORTS, object)).toBeUndefined();
      expect(findEndpointProblem(object.spec)).toBeUndefined();
    });

    it.each<[string, EndpointSliceExport]>([
      ["too many", slice({ endpoints: many(MAX_ENDPOINTS + 1) })],
      ["without address", at("IPv4")],
      ["with too many addresses", at("IPv4", ...many(MAX_ADDRESSES + 1).flatMap((it) => it.addresses))],
      ...[
        ["IPv4", "127.0.0.1"],
        ["IPv4", "0.0.0.0"],
        ["IPv4", "169.254.169.254"],
        ["IPv4", "224.0.0.1"],
        ["IPv4", "255.255.255.255"],
        ["IPv4", "fd00::1"],
        ["IPv4", "example.com"],
        ["IPv4", "010.1.0.1"],
        ["IPv4", "0.1.2.3"],
        ["IPv4", "240.0.0.1"],
        ["IPv4", "192.0.2.1"],
        ["IPv4", "198.18.0.1"],
        ["IPv6", "::127.0.0.1"],
        ["IPv6", "64:ff9b:1::7f00:1"],
        ["IPv6", "64:ff9b:1::a9fe:a9fe"],
        ["IPv6", "2002:7f00:1::"],
        ["IPv6", "2001:0:53aa:64c:0:fbff:80ff:fffe"],
        ["IPv6", "2001:db8::1"],
        ["IPv6", "fec0::1"],
        ["IPv6", "100::1"],
        ["IPv6", "::ffff:10.1.0.1"],
        ["IPv6", "::"],
        ["IPv6", "::1"],
        ["IPv6", "fe80::1"],
        ["IPv6", "ff02::1"],
        ["IPv6", "10.1.0.1"],
        ["IPv6", "::ffff:127.0.0.1"],
        ["IPv6", "64:ff9b::7f00:1"],
        ["IPv6", "64:ff9b::a9fe:a9fe"],
      ].map(([family = "", address = ""]): [string, EndpointSliceExport] => [
        `at ${address} (${family})`,
        at(family === "IPv6" ? "IPv6" : "IPv4", address),
      ]),
    ])("A9: endpoints %s are refused, by the controllers too", async (_, object) => {
      expect(await tries(ENDPOINT_SLICE_EXPORTS, object)).toBe("fairlead-endpoints");
      expect(findEndpointProblem(object.spec)).toBeDefined();
    });

    it("A9: the policy and the controllers agree on addresses at the edges of all special-purpose ranges", async () => {
      const prefixes = [...SPECIAL_RANGES.IPv4, ...SPECIAL_RANGES.IPv6, "10.0.0.0/8", "fc00::/7"].map((it) =>
        parsePrefix(it),
      );
      const edges = prefixes.flatMap((it) => {
        const [first, last] = [it.network, lastAddress(it)];
        return [first, last, neighbour(first, -1), neighbour(last, 1)].filter((one) => one !== undefined);
      });
      const judged = edges.map(async (address) => {
        const object = at(familyOf(address), formatAddress(address));
        return {
          address: formatAddress(address),
          policy: (await tries(ENDPOINT_SLICE_EXPORTS, object)) !== undefined,
          controllers: findEndpointProblem(object.spec) !== undefined,
        };
      });
      expect((await Promise.all(judged)).filter((it) => it.policy !== it.controllers)).toEqual([]);
    });

    it.each<[string, EndpointSliceExport]>([
      ["in the name of another cluster", slice({ endpointSliceReference: reference({ clusterId: "b" }) })],
      [
        "of a reserved namespace",
        slice({ endpointSliceReference: reference({ namespace: "fleet-system" }) }),
      ],
      [
        "for a Service of another namespace",
        slice({ ownerServiceReference: { namespace: "pay", name: "hello", namespacedName: "pay/hello" } }),
      ],
      [
        "for a Service named in two ways",
        slice({ ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "pay/hello" } }),
      ],
    ])("A9: endpoints %s are refused", async (_, object) => {
      expect(await tries(ENDPOINT_SLICE_EXPORTS, object)).toBe("fairlead-endpoints");
    });

    it.each<[string, InternalServiceImport, string | undefined]>([
      ["as an agent sends it", asked(), undefined],
      ["in the name of another cluster", asked({ clusterId: "b" }), "fairlead-service-imports"],
      ["of a reserved namespace", asked({ namespace: "fleet-system" }), "fairlead-service-imports"],
      ["whose names differ", asked({ namespacedName: "pay/hello" }), "fairlead-service-imports"],
    ])("A9: an import %s", async (_, object, expected) => {
      expect(await tries(INTERNAL_SERVICE_IMPORTS, object)).toBe(expected);
    });

    it("A9: a report and a lease have the name of their member, and name no other member", async () => {
      const named = (name: string) => ({ namespace: mailbox("a"), name });
      const spec = { namespaces: ["work"] };
      expect(await tries(NAMESPACE_REPORTS, { metadata: named("a"), spec })).toBeUndefined();
      expect(await tries(NAMESPACE_REPORTS, { metadata: named("b"), spec })).toBe("fairlead-reports");
      const held = (holderIdentity: string) => ({ holderIdentity, leaseDurationSeconds: 5 });
      expect(await tries(LEASES, { metadata: named("a"), spec: held("a") })).toBeUndefined();
      expect(await tries(LEASES, { metadata: named("b"), spec: held("a") })).toBe("fairlead-heartbeats");
      expect(await tries(LEASES, { metadata: named("a"), spec: held("b") })).toBe("fairlead-heartbeats");
    });

    it("a lease cannot last for years or be renewed in the far future, regardless of the member's clock", async () => {
      const metadata = { namespace: mailbox("a"), name: "a" };
      const lease = (leaseDurationSeconds: number, renewTime: string) => ({
        metadata,
        spec: { holderIdentity: "a", leaseDurationSeconds, renewTime },
      });
      const now = new Date().toISOString();
      const at2099 = "2099-01-01T00:00:00.000000Z";
      for (const seconds of [2_147_483_647, 3601, 0, -1])
        expect(await tries(LEASES, lease(seconds, micro(now)))).toBeDefined();
      expect(await tries(LEASES, lease(60, at2099))).toBe("fairlead-heartbeats");
      expect(await tries(LEASES, lease(3600, "1970-01-01T00:00:00.000000Z"))).toBeUndefined();
      await memberA.create(LEASES, lease(60, micro(now)));
      const renew = (renewTime: string) =>
        verdict(memberA.mergePatch(LEASES, keyOf({ metadata }), { spec: { renewTime } }));
      expect(await renew(at2099)).toBe("fairlead-heartbeats");
      expect(await renew(micro(new Date(Date.now() + 86_400_000).toISOString()))).toBeUndefined();
    });

    it("A9: only its owner, the hub and named administrators write into a mailbox, regardless of RBAC", async () => {
      const careless = await hub.as(CARELESS_USER);
      const dry = { dryRun: true };
      expect(await verdict(careless.create(INTERNAL_SERVICE_EXPORTS, exported(), dry))).toBe(
        "fairlead-mailbox-owner",
      );
      expect(await verdict(careless.create(ENDPOINT_SLICE_EXPORTS, slice(), dry))).toBe(
        "fairlead-mailbox-owner",
      );
      const copy = { ...slice(), metadata: { namespace: mailbox("b"), name: "copy" } };
      expect(await verdict(careless.create(ENDPOINT_SLICE_IMPORTS, copy, dry))).toBe("fairlead-hub-only");
      expect(
        await verdict((await hub.as(HUB_USER)).create(ENDPOINT_SLICE_IMPORTS, copy, dry)),
      ).toBeUndefined();
      expect(await verdict(hub.admin.create(ENDPOINT_SLICE_IMPORTS, copy, dry))).toBeUndefined();
      const other = await hub.as("fleet:member:b");
      expect(await verdict(other.create(INTERNAL_SERVICE_EXPORTS, exported(), dry))).toBe("RBAC");
    });

    it("A9: only the hub writes the view", async () => {
      const namespace = "fleet-view-default";
      const copy = { ...slice(), metadata: { namespace, name: "copy" } };
      const service = {
        metadata: { namespace, name: "work-hello" },
        spec: {
          service: { namespace: "work", name: "hello" },
          type: "ClusterSetIP" as const,
          ports: [],
          clusters: [],
        },
      };
      const careless = await hub.as(CARELESS_USER);
      const dry = { dryRun: true };
      expect(await verdict(careless.create(ENDPOINT_SLICE_IMPORTS, copy, dry))).toBe("fairlead-hub-only");
      expect(await verdict(careless.create(IMPORTED_SERVICES, service, dry))).toBe("fairlead-hub-only");
      expect(await verdict(memberA.create(IMPORTED_SERVICES, service, dry))).toBe("RBAC");
      const own = await hub.as(HUB_USER);
      expect(await verdict(own.create(ENDPOINT_SLICE_IMPORTS, copy, dry))).toBeUndefined();
      expect(await verdict(own.create(IMPORTED_SERVICES, service, dry))).toBeUndefined();
    });

    it("accepts everything that a legacy agent writes: random names, finalizers, measurements", async () => {
      const agent = await hub.as(FOREIGN_USER);
      const namespace = mailbox("b");
      const spec = slice({ endpointSliceReference: reference({ clusterId: "b", name: "hello-x" }) }).spec;
      const named = { namespace, name: "qwertyuiopasdfghjklzxcvbn" };
      const made = await agent.create(ENDPOINT_SLICE_EXPORTS, { metadata: named, spec });
      await agent.update(ENDPOINT_SLICE_EXPORTS, { ...made, spec: { ...spec, endpoints: [] } });
      const service = { ...exported({ clusterId: "b" }), metadata: { namespace, name: "work-hello" } };
      const sent = await agent.create(INTERNAL_SERVICE_EXPORTS, service);
      const measured = { "networking.fleet.azure.com/last-observed-resource-version": "7" };
      await agent.update(INTERNAL_SERVICE_EXPORTS, {
        ...sent,
        metadata: { ...sent.metadata, annotations: measured },
      });
      // The hub's part: a copy, and its verdict.
      const ours = await hub.as(HUB_USER);
      const copy = await ours.apply(
        ENDPOINT_SLICE_IMPORTS,
        { metadata: { namespace, name: "copy" }, spec: slice().spec },
        { fieldManager: "fairlead-hub" },
      );
      const marked = await agent.update(ENDPOINT_SLICE_IMPORTS, {
        ...copy,
        metadata: { ...copy.metadata, finalizers: [FINALIZERS.endpointSliceImport], annotations: measured },
      });
      expect(marked.metadata.finalizers).toEqual([FINALIZERS.endpointSliceImport]);
      const forged = { ...marked, spec: { ...marked.spec, endpoints: [{ addresses: ["10.9.9.9"] }] } };
      expect(await verdict(agent.update(ENDPOINT_SLICE_IMPORTS, forged))).toBe("fairlead-copies");
      expect(await verdict(agent.delete(ENDPOINT_SLICE_IMPORTS, keyOf(copy)))).toBe("RBAC");
      await ours.delete(ENDPOINT_SLICE_IMPORTS, keyOf(copy));
      const going = await agent
        .get(ENDPOINT_SLICE_IMPORTS, keyOf(copy))
        .catch(() => hub.admin.get(ENDPOINT_SLICE_IMPORTS, keyOf(copy)));
      await agent.update(ENDPOINT_SLICE_IMPORTS, {
        ...going,
        metadata: { ...going.metadata, finalizers: [] },
      });
      expect(await hub.admin.find(ENDPOINT_SLICE_IMPORTS, keyOf(copy))).toBeUndefined();
    });

    it("accepts an agent's heartbeat, and rejects its changes to its own spec", async () => {
      const ours = await hub.as(HUB_USER);
      const key = objectKey(mailbox("a"), "a");
      await ours.apply(
        INTERNAL_MEMBER_CLUSTERS,
        {
          metadata: { namespace: mailbox("a"), name: "a" },
          spec: { state: "Leave", heartbeatPeriodSeconds: 60 },
        },
        { fieldManager: "fairlead-hub" },
      );
      const agentStatus = [
        { type: "MultiClusterServiceAgent", lastReceivedHeartbeat: "2026-01-01T00:00:00Z" },
      ];
      await memberA.mergePatch(
        INTERNAL_MEMBER_CLUSTERS,
        key,
        { status: { agentStatus } },
        { subresource: "status" },
      );
      expect(
        await verdict(memberA.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, { spec: { state: "Join" } })),
      ).toBe("RBAC");
      const careless = await hub.as(CARELESS_USER);
      expect(
        await verdict(careless.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, { spec: { state: "Join" } })),
      ).toBe("fairlead-hub-only");
    });

    it("allows objects from before the policies to be deleted, but not to be changed for the worse", async () => {
      const bad = exported({ namespacedName: "work/other" });
      // A part that is not checked again: only changed values are.
      const stored = await hub.admin.create(INTERNAL_SERVICE_EXPORTS, exported());
      const agentOf = memberA;
      await agentOf.update(INTERNAL_SERVICE_EXPORTS, {
        ...stored,
        metadata: { ...stored.metadata, labels: { x: "y" } },
      });
      expect(
        await verdict(agentOf.mergePatch(INTERNAL_SERVICE_EXPORTS, keyOf(stored), { spec: bad.spec ?? {} })),
      ).toBe("fairlead-service-exports");
      await agentOf.delete(INTERNAL_SERVICE_EXPORTS, keyOf(stored));
    });
  });
});
