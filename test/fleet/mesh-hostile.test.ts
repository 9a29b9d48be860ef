/** A compromised member of a parallel network: what it says of itself changes nothing for the others. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { VALIDATING_ADMISSION_POLICY_BINDINGS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  ADDRESS_BLOCKS,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { MAILBOX_POLICY_BINDINGS } from "@fairlead/fleet/authz/policies/policies.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { EVENTS, NODES, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { SERVICE_CIDRS } from "@fairlead/kube/api/networking/v1/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { hostilities, schemaOf } from "../support/hostile.ts";
import {
  addNode,
  attachPods,
  createProfile,
  newPublicKey,
  setProfile,
  showGateway,
} from "../support/mesh.ts";

const MAILBOX = "fleet-member-m";
const OWN = objectKey(MAILBOX, "m-0");

const VIEW = "fleet-view-p";

let fleet: TestFleet;
let stack: AsyncDisposableStack;
let asM: KubeClient;
const hub = () => fleet.client("hub");
const victimKey = newPublicKey();
/** The address of a pod of a, and of one of m. */
const pods = new Map<string, string>();

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  fleet = stack.use(await startFleet({ members: ["a", "c", "m"] }));
  await createProfile(hub(), "p");
  for (const name of ["a", "c", "m"]) {
    await ensureNamespace(fleet.client(name), "work");
    await addNode(fleet.client(name), "n1", { address: "192.168.7.1" });
    await setProfile(hub(), name, "p");
  }
  for (const name of ["a", "m"]) {
    const client = fleet.client(name);
    const publicKey = name === "a" ? victimKey : newPublicKey();
    const candidates = [{ type: "public" as const, address: "8.8.8.8" }];
    await showGateway(client, `${name}-0`, { keys: [{ epoch: 1, publicKey }], basePort: 31_820, candidates });
    const { status } = await attachPods(client, "n1", [`pod-of-${name}`]);
    pods.set(name, status?.allocations?.[0]?.ipv4 ?? "");
    await deploy(client, { name, addresses: ["10.1.0.1"] });
    const slice = await client.get(ENDPOINT_SLICES, objectKey("work", `${name}-abcde`));
    const targetRef = { kind: "Pod", uid: `pod-of-${name}` };
    await client.update(ENDPOINT_SLICES, {
      ...slice,
      endpoints: slice.endpoints.map((one) => ({ ...one, targetRef })),
    });
    await exportBy("mcs", client, { name });
  }
  const both = [...pods.values()].toSorted().join();
  await eventually(fleet.client("c"), ENDPOINT_SLICES, (all) => addressesOf(all).join() === both);
  await eventually(hub(), GATEWAYS, (all) => inView(all).length === 3 && inView(all).every(isComplete), {});
  await fleet.agents.get("m")?.stop();
  const secret = await fleet.client("m").get(SECRETS, objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET));
  const field = (name: string): string => Buffer.from(secret.data?.[name] ?? "", "base64").toString();
  const credentials = fixedCredentials({ certificate: field("tls.crt"), key: field("tls.key") });
  asM = stack.use(connect({ ...fleet.hub.config, credentials }, testDeps("m")));
});
afterAll(() => stack.disposeAsync());

function inView(all: readonly Gateway[]): Gateway[] {
  return all.filter((it) => it.metadata.namespace === VIEW);
}
/** Nodes of c say nothing of themselves. */
function isComplete({ spec }: Gateway): boolean {
  return spec.index !== undefined && (spec.cluster === "c" || spec.keys?.length === 1);
}
const shown = async (): Promise<Gateway[]> =>
  inView((await hub().list(GATEWAYS)).items).filter((it) => it.spec.cluster !== "m");
const judged = (reason: string, generation = 0): Promise<Gateway> =>
  eventuallyOne(hub(), GATEWAYS, OWN, (it) => {
    const accepted = findCondition(it.status?.conditions, "Accepted");
    return accepted?.reason === reason && (accepted.observedGeneration ?? 0) >= generation;
  });
const isRefused = (write: Promise<unknown>): Promise<boolean> =>
  write.then(
    () => false,
    (error: unknown) => hasCode(error, "API_INVALID", "API_FORBIDDEN", "API_BAD_REQUEST"),
  );

describe("the hub's API server", () => {
  it("lets a member write only gateways of its own, and neither conditions, blocks nor networks", async () => {
    const at = (namespace: string, name: string) => ({ metadata: { namespace, name } });
    const gateway = (namespace: string, name: string, spec: Partial<Gateway["spec"]> = {}): Gateway => ({
      ...at(namespace, name),
      spec: { cluster: "m", ordinal: 1, node: "n1", ...spec },
    });
    const many = Array.from({ length: 10_000 }, (_, port) => ({
      type: "public" as const,
      address: "8.8.8.8",
      basePort: port + 1,
    }));
    const [block] = (await asM.list(ADDRESS_BLOCKS, { namespace: VIEW })).items;
    const accepted = { status: { conditions: [] } };
    const paths = (count: number, cluster = "a") => ({
      paths: Array.from({ length: count }, () => ({
        cluster,
        ordinal: 0,
        path: "none" as const,
        keyEpoch: 1,
      })),
    });
    const writes = [
      asM.create(GATEWAYS, gateway("fleet-member-a", "a-1", { cluster: "a" })),
      asM.create(GATEWAYS, gateway(VIEW, "m-1")),
      asM.create(GATEWAYS, gateway(MAILBOX, "a-1", { cluster: "a" })),
      asM.create(GATEWAYS, gateway(MAILBOX, "m-2")),
      asM.create(GATEWAYS, gateway(MAILBOX, "m-1", { candidates: many })),
      asM.create(GATEWAYS, gateway(MAILBOX, "m-1", { keys: [{ epoch: 1, publicKey: "AAAA" }] })),
      asM.create(GATEWAYS, gateway(MAILBOX, "m-4", { ordinal: 4 })),
      asM.mergePatch(GATEWAYS, OWN, accepted, { subresource: "status" }),
      asM.mergePatch(GATEWAYS, objectKey(VIEW, "m-0"), { status: paths(1) }, { subresource: "status" }),
      asM.mergePatch(
        GATEWAYS,
        objectKey("fleet-member-a", "a-0"),
        { status: paths(1) },
        { subresource: "status" },
      ),
      asM.mergePatch(GATEWAYS, OWN, { status: paths(1024) }, { subresource: "status" }),
      asM.mergePatch(
        GATEWAYS,
        OWN,
        { status: paths(1, "\u001B[31m".repeat(100)) },
        { subresource: "status" },
      ),
      asM.mergePatch(ADDRESS_BLOCKS, keyOf(block!), { spec: { ipv4: ["10.112.0.0/12"] } }),
      asM.create(MESH_NETWORKS, { ...at(MAILBOX, "p"), spec: {} as never }),
    ];
    expect(await Promise.all(writes.map(isRefused))).toEqual(writes.map(() => true));
    await asM.mergePatch(GATEWAYS, OWN, { status: paths(1) }, { subresource: "status" });
  });
});

describe.each(["policies and controllers", "controllers alone"])("a hostile member, with %s", (by) => {
  beforeAll(async () => {
    if (by === "controllers alone")
      for (const it of MAILBOX_POLICY_BINDINGS)
        await hub().delete(VALIDATING_ADMISSION_POLICY_BINDINGS, keyOf(it));
  });

  it("changes no gateway of others, whatever it says of its own", async () => {
    const before = await shown();
    const sound = await asM
      .list(GATEWAYS, { namespace: MAILBOX })
      .then(({ items }) => items.find((it) => keyOf(it) === OWN)!);
    const attacks = hostilities(sound, schemaOf(HUB_CRDS, "Gateway"), ["spec"]);
    expect(attacks.length).toBeGreaterThan(60);
    for (const { object } of attacks) {
      const value = (object as Gateway).spec;
      await isRefused(asM.jsonPatch(GATEWAYS, OWN, [{ op: "replace", path: "/spec", value }]));
    }
    const back = await asM.jsonPatch(GATEWAYS, OWN, [{ op: "replace", path: "/spec", value: sound.spec }]);
    await judged("Accepted", back.metadata.generation);
    await eventually(hub(), GATEWAYS, (all) => inView(all).some((it) => it.spec.cluster === "m"));
    expect(await shown()).toEqual(before);
  });

  it("does not get the key of another's gateway, and sees why", async () => {
    const before = await shown();
    const sound = await asM.list(GATEWAYS, { namespace: MAILBOX });
    const patch = (publicKey: string): Promise<Gateway> =>
      asM.mergePatch(GATEWAYS, OWN, { spec: { keys: [{ epoch: 1, publicKey }] } });
    await patch(victimKey);
    const { status } = await judged("DuplicateKey");
    expect(status?.conditions?.[0]?.message).toContain("gateway a-0 has the same key");
    await patch(sound.items.find((it) => keyOf(it) === OWN)?.spec.keys?.[0]?.publicKey ?? "");
    await judged("Accepted");
    expect(await shown()).toEqual(before);
  });

  it("gets no traffic for the addresses of another, neither by the hub nor by importers", async () => {
    const c = fleet.client("c");
    const stolen = pods.get("a") ?? "";
    const [own] = (await asM.list(ENDPOINT_SLICE_EXPORTS, { namespace: MAILBOX })).items;
    const endpoints = [{ addresses: [pods.get("m") ?? ""] }, { addresses: [stolen] }];
    await asM.mergePatch(ENDPOINT_SLICE_EXPORTS, keyOf(own!), { spec: { endpoints } });
    await eventually(hub(), EVENTS, (all) =>
      all.some((it) => it.reason === "EndpointsRefused" && it.message?.includes(stolen) === true),
    );
    const copy = await eventuallyOne(hub(), ENDPOINT_SLICE_IMPORTS, objectKey(VIEW, own!.metadata.name));
    expect(copy.spec.endpoints.map((it) => it.addresses[0])).toEqual([pods.get("m")]);
    // A hub that lets it pass.
    await fleet.hubProgram.stop();
    const label = { metadata: { labels: { test: by === "controllers alone" ? "2" : "1" } } };
    await hub().mergePatch(ENDPOINT_SLICE_IMPORTS, keyOf(copy), { ...label, spec: { endpoints } });
    const isReported = (it: { reason?: string; message?: string; count?: number }): boolean =>
      it.reason === "EndpointsRefused" && it.message?.includes(`"${stolen}" is not in`) === true;
    await eventually(c, EVENTS, (all) => all.some(isReported));
    const imported = await eventually(c, ENDPOINT_SLICES, (all) => all.length === 2);
    expect(addressesOf(imported)).toEqual([...pods.values()].toSorted());
    fleet.hubProgram.start();
    await asM.mergePatch(ENDPOINT_SLICE_EXPORTS, keyOf(own!), { spec: { endpoints: endpoints.slice(0, 1) } });
  });
});

describe("a hostile member's candidates", () => {
  it("at Services, nodes and API servers of another member are left out there, and what leads nowhere is shown to none", async () => {
    await addNode(fleet.client("a"), "n2", { address: "192.168.40.1" });
    const [services] = (await fleet.client("a").list(SERVICE_CIDRS)).items.flatMap(
      (it) => it.spec?.cidrs ?? [],
    );
    const service = services?.replace(/\.0\/.*$/u, ".10") ?? "";
    await eventuallyOne(fleet.client("a"), GATEWAYS, objectKey(FLEET_SYSTEM_NAMESPACE, "m-0"), () => true);
    const at = (address: string, type: "private" | "public" | "reflexive" = "private") => ({ type, address });
    const ofA = [at(service), at("192.168.40.1", "reflexive")];
    const real = [at("192.168.40.50", "reflexive"), at("8.8.8.8", "reflexive")];
    await asM.mergePatch(GATEWAYS, OWN, { spec: { candidates: [...ofA, at("127.0.0.1"), ...real] } });
    const copiedBy = async (cluster: string): Promise<Gateway["spec"]["candidates"]> => {
      const copy = await eventuallyOne(
        fleet.client(cluster),
        GATEWAYS,
        objectKey(FLEET_SYSTEM_NAMESPACE, "m-0"),
        ({ spec }) => spec.candidates?.some((it) => it.address === "192.168.40.50") === true,
      );
      return copy.spec.candidates;
    };
    expect(await copiedBy("a")).toEqual(real);
    // A NAT's outside may be in a network with nodes of others: c has no host there.
    expect(await copiedBy("c")).toEqual([ofA[1], ...real]);
    const { status } = await eventuallyOne(
      hub(),
      GATEWAYS,
      OWN,
      (it) => it.status?.conditions?.[0]?.message.includes("1 of 5 candidates cannot be used") === true,
    );
    expect(status?.conditions?.[0]?.message).toContain('"127.0.0.1" is a special-purpose address');
    await fleet.client("c").apply(
      NODES,
      {
        metadata: { name: "n1" },
        status: { addresses: [{ type: "InternalIP", address: "192.168.40.1" }] },
      },
      { fieldManager: "test", force: true, subresource: "status" },
    );
    await eventuallyOne(
      fleet.client("c"),
      GATEWAYS,
      objectKey(FLEET_SYSTEM_NAMESPACE, "m-0"),
      ({ spec }) => spec.candidates?.every((it) => it.address !== "192.168.40.1") === true,
    );
  });
});
