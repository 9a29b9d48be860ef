/**
 * A compromised member writes everything that it can, field by field, while another exports a service of the same name: in what a
 * third one imports, only the hostile member's part may change.
 */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { VALIDATING_ADMISSION_POLICY_BINDINGS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { WEIGHTS_CONDITION } from "@fairlead/fleet/api/fairlead.dev/multi-cluster-service.ts";
import { MAILBOX_POLICY_BINDINGS } from "@fairlead/fleet/authz/policies/policies.ts";
import { NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  type EndpointSliceExport,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  type InternalServiceExport,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { type Hostility, hostilities, schemaOf } from "../support/hostile.ts";

const NAMESPACE = "shop";
const HELLO = objectKey(NAMESPACE, "hello");
const MAILBOX = "fleet-member-m";

let fleet: TestFleet;
let stack: AsyncDisposableStack;
let asM: KubeClient;
/** What the agent of m had sent before it was taken over. */
let soundExport: InternalServiceExport;
let soundSlice: EndpointSliceExport;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  fleet = stack.use(await startFleet({ members: ["a", "c", "m"] }));
  for (const name of ["a", "c", "m"]) await ensureNamespace(fleet.client(name), NAMESPACE);
  const a = fleet.client("a");
  await deploy(a, { namespace: NAMESPACE, addresses: ["10.1.0.1"] });
  for (const api of ["mcs", "fleet"] as const) await exportBy(api, a, { namespace: NAMESPACE });
  const untilClusters = (count: number) =>
    eventuallyOne(
      fleet.client("c"),
      MCS_SERVICE_IMPORTS,
      HELLO,
      (it) => it.status?.clusters?.length === count,
    );
  await untilClusters(1);
  // It differs in everything that the oldest decides, and adds a port.
  await deploy(fleet.client("m"), {
    namespace: NAMESPACE,
    addresses: ["10.2.0.1"],
    ports: [
      { name: "extra", protocol: "TCP", port: 99, targetPort: 8099 },
      { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
    ],
    service: { sessionAffinity: "ClientIP", internalTrafficPolicy: "Local" },
  });
  await exportBy("mcs", fleet.client("m"), { namespace: NAMESPACE });
  await untilClusters(2);
  const c = fleet.client("c");
  await c.create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: NAMESPACE, name: "hello" },
    spec: { serviceImport: { name: "hello" } },
  });
  for (const name of ["a", "c"]) await ensureNamespace(fleet.client(name), "beacons");
  await deploy(fleet.client("a"), { namespace: "beacons", addresses: ["10.1.1.0"] });
  await exportBy("mcs", fleet.client("a"), { namespace: "beacons" });
  // A separate Service, whose slice has a name that m knows.
  await deploy(c, { namespace: NAMESPACE, name: "own", addresses: ["10.3.0.1"] });
  // Of a by two APIs, of m by one, and its own.
  await eventually(
    c,
    ENDPOINT_SLICES,
    (all) =>
      all.filter((it) => [NAMESPACE, "fleet-system"].includes(it.metadata.namespace ?? "")).length === 4,
  );
  const hub = fleet.client("hub");
  await eventually(hub, INTERNAL_SERVICE_IMPORTS, (all) => all.length === 1);
  await fleet.agents.get("m")?.stop();
  soundExport = one((await hub.list(INTERNAL_SERVICE_EXPORTS, { namespace: MAILBOX })).items);
  soundSlice = one((await hub.list(ENDPOINT_SLICE_EXPORTS, { namespace: MAILBOX })).items);
  const secret = await fleet.client("m").get(SECRETS, objectKey("fleet-system", HUB_SECRET));
  const field = (name: string): string => Buffer.from(secret.data?.[name] ?? "", "base64").toString();
  const credentials = fixedCredentials({ certificate: field("tls.crt"), key: field("tls.key") });
  asM = stack.use(connect({ ...fleet.hub.config, credentials }, testDeps("m")));
});
afterAll(() => stack.disposeAsync());

function one<T>([first]: readonly T[]): T {
  if (first === undefined) throw new Error("there is none");
  return first;
}

interface Watched extends AsyncDisposable {
  /** What of c's objects was not as at the beginning, at any time. */
  readonly changes: readonly string[];
}

/** All objects of c with content that is not m's. */
async function watchImports(): Promise<Watched> {
  const held = new AsyncDisposableStack();
  const stop = new AbortController();
  held.defer(() => stop.abort());
  const kinds = [
    MCS_SERVICE_IMPORTS,
    FLEET_SERVICE_IMPORTS,
    MULTI_CLUSTER_SERVICES,
    SERVICES,
    ENDPOINT_SLICES,
  ];
  const changes: string[] = [];
  for (const of of kinds as readonly Resource[]) {
    const informer = held.use(createInformer(fleet.client("c"), of, {}, testDeps("watch")));
    informer.start(stop.signal);
    await informer.synced(stop.signal);
    const objects = [...informer.store.list()].filter(
      (it) =>
        [NAMESPACE, "fleet-system"].includes(it.metadata.namespace ?? "") &&
        it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] !== "m",
    );
    const before = new Map(objects.map((it) => [keyOf(it), withoutM(it)] as const));
    held.use(
      informer.subscribe(({ key, after }) => {
        const was = before.get(key);
        const is = after === undefined ? "gone" : withoutM(after);
        if (was !== undefined && was !== is) changes.push(`${of.kind} ${key}\n was ${was}\n is  ${is}`);
      }),
    );
  }
  return { changes, [Symbol.asyncDispose]: () => held.disposeAsync() };
}

interface Imported extends KubeObject {
  spec?: { ports?: readonly { name?: string }[] };
  status?: {
    ports?: readonly { name?: string }[];
    clusters?: { cluster: string }[];
    conditions?: { type: string; message: string }[];
  };
}

/** The clusters of a service are also listed in objects of m, and one of the ports is m's. */
function withoutM({ metadata, status, spec, ...rest }: Imported): string {
  const { managedFields: _fields, resourceVersion, generation: _generation, ...kept } = metadata;
  // Slices: they hold nothing of m's.
  if (spec === undefined && status === undefined)
    return JSON.stringify({ ...rest, metadata: { ...kept, resourceVersion } });
  const ports = (of: Imported["spec"]) => of?.ports?.filter((it) => it.name === "http");
  const clusters = status?.clusters?.filter((it) => it.cluster !== "m");
  const conditions = status?.conditions
    ?.filter((it) => it.type !== WEIGHTS_CONDITION)
    .map(({ message, ...it }) => ({ ...it, message: message.replace(", m", ""), observedGeneration: 0 }));
  return JSON.stringify({
    ...rest,
    metadata: kept,
    spec: { ...spec, ports: ports(spec) },
    status: { ...status, ports: ports(status), clusters, conditions },
  });
}

/** Whether the server took it; anything but a refusal is a failure. */
async function taken<T extends KubeObject>(what: string, write: Promise<T>): Promise<T | undefined> {
  try {
    return await write;
  } catch (error) {
    if (hasCode(error, "API_INVALID", "API_BAD_REQUEST", "API_FORBIDDEN", "API_CONFLICT")) return undefined;
    throw new Error(`${what} was neither taken nor refused`, { cause: error });
  }
}

/** Several at a time, in any order. */
async function inTurns(
  attacks: readonly Hostility[],
  write: (attack: Hostility) => Promise<KubeObject>,
): Promise<void> {
  for (let from = 0; from < attacks.length; from += 16)
    await Promise.all(attacks.slice(from, from + 16).map((it) => taken(it.what, write(it))));
}

const replaceSpec = (object: object) => [
  { op: "replace" as const, path: "/spec", value: (object as { spec: unknown }).spec },
];

/** Every variant of the export of the same service, each processed by the hub before the next one. */
async function attackExport(): Promise<void> {
  const stop = new AbortController();
  await using informer = createInformer(
    fleet.client("hub"),
    INTERNAL_SERVICE_EXPORTS,
    { namespace: MAILBOX },
    testDeps("verdicts"),
  );
  informer.start(stop.signal);
  await informer.synced(stop.signal);
  const key = keyOf(soundExport);
  const judged = (generation: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("the hub gave no verdict")), PATIENCE_MS);
      const look = (): void => {
        const conditions = informer.store.get(key)?.status?.conditions ?? [];
        if (!conditions.some((it) => (it.observedGeneration ?? 0) >= generation)) return;
        clearTimeout(timer);
        watch[Symbol.dispose]();
        resolve();
      };
      const watch = informer.subscribe(look);
      look();
    });
  for (const { what, object } of attacksOn("InternalServiceExport", soundExport)) {
    const after = await taken(what, asM.jsonPatch(INTERNAL_SERVICE_EXPORTS, key, replaceSpec(object)));
    // An empty one belongs to no service.
    if (after?.spec === undefined) continue;
    await judged(after?.metadata.generation ?? 0).catch((cause: unknown) => {
      throw new Error(`no verdict on ${what}`, { cause });
    });
  }
  await asM.jsonPatch(INTERNAL_SERVICE_EXPORTS, key, replaceSpec(soundExport));
  stop.abort();
}

function attacksOn(kind: string, sound: KubeObject): Hostility[] {
  return hostilities(sound, schemaOf(HUB_CRDS, kind), ["spec"]);
}

/** Objects in addition to the valid one, all present at once; then a valid one, which is imported after them. */
async function attackBeside(of: Resource, attacks: readonly Hostility[]): Promise<void> {
  const name = (at: number): string => `hostile-${at}`;
  const made = await Promise.all(
    attacks.map(({ what, object }, at) =>
      taken(what, asM.create(of, { ...object, metadata: { namespace: MAILBOX, name: name(at) } })),
    ),
  );
  await comesThrough();
  for (const it of made) if (it !== undefined) await asM.delete(of, keyOf(it));
}

let beacons = 0;
/** A later answer shows that the earlier objects were processed. */
async function comesThrough(): Promise<void> {
  beacons += 1;
  const address = `10.1.1.${beacons}`;
  const endpoints = [{ addresses: [address], conditions: { ready: true } }];
  await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("beacons", "hello-abcde"), { endpoints });
  await eventually(fleet.client("c"), ENDPOINT_SLICES, (all) =>
    all.some((it) => it.metadata.namespace === "beacons" && addressesOf([it]).includes(address)),
  );
}

async function leaseSchema(): Promise<JsonSchema> {
  const api = await fleet.client("hub").request("GET", "/openapi/v3/apis/coordination.k8s.io/v1");
  const { components } = api as { components: { schemas: Record<string, JsonSchema> } };
  return { properties: { spec: components.schemas["io.k8s.api.coordination.v1.LeaseSpec"] ?? {} } };
}

describe.each(["policies and controllers", "controllers alone"])("what another imports, by %s", (by) => {
  beforeAll(async () => {
    if (by === "controllers alone")
      for (const it of MAILBOX_POLICY_BINDINGS)
        await fleet.client("hub").delete(VALIDATING_ADMISSION_POLICY_BINDINGS, keyOf(it));
  });

  const importsStay = async (attack: () => Promise<unknown>): Promise<void> => {
    await using watched = await watchImports();
    await attack();
    await comesThrough();
    expect(watched.changes).toEqual([]);
  };

  it(
    "stays as it is to the byte, whatever a member writes into an InternalServiceExport",
    () => importsStay(attackExport),
    120_000,
  );

  it(
    "stays as it is to the byte, whatever a member writes into an EndpointSliceExport, by whatever name",
    () =>
      importsStay(async () => {
        await attackBeside(ENDPOINT_SLICE_EXPORTS, attacksOn("EndpointSliceExport", soundSlice));
        const theirs = (
          await fleet.client("hub").list(ENDPOINT_SLICE_EXPORTS, { namespace: "fleet-member-a" })
        ).items.find((it) => it.spec.ownerServiceReference.namespace === NAMESPACE);
        for (const name of ["own-abcde", "kubernetes", theirs?.metadata.name ?? ""]) {
          const named = { namespace: MAILBOX, name };
          const object = { metadata: named, spec: soundSlice.spec };
          expect(await taken(name, asM.create(ENDPOINT_SLICE_EXPORTS, object))).toBeDefined();
          await comesThrough();
          await asM.delete(ENDPOINT_SLICE_EXPORTS, keyOf(object));
        }
      }),
    120_000,
  );

  it(
    "stays as it is to the byte, whatever a member asks to import, reports and renews",
    () =>
      importsStay(async () => {
        const { serviceReference } = soundExport.spec ?? {};
        const asked = { metadata: soundExport.metadata, spec: { serviceImportReference: serviceReference } };
        await attackBeside(INTERNAL_SERVICE_IMPORTS, attacksOn("InternalServiceImport", asked));
        const named = objectKey(MAILBOX, "m");
        const report = {
          metadata: { name: "m" },
          spec: { namespaces: [NAMESPACE], view: "fleet-view-default" },
        };
        await inTurns(attacksOn("NamespaceReport", report), ({ object }) =>
          asM.jsonPatch(NAMESPACE_REPORTS, named, replaceSpec(object)),
        );
        const lease = { spec: { holderIdentity: "m", leaseDurationSeconds: 60 } };
        await inTurns(hostilities(lease, await leaseSchema(), ["spec"]), ({ object }) =>
          asM.jsonPatch(LEASES, named, replaceSpec(object)),
        );
        const internalMember = await fleet.client("hub").get(INTERNAL_MEMBER_CLUSTERS, named);
        const schema = schemaOf(HUB_CRDS, "InternalMemberCluster");
        await inTurns(hostilities(internalMember, schema, ["status"]), ({ object }) => {
          const patch = [{ op: "add", path: "/status", value: (object as { status: unknown }).status }];
          return asM.jsonPatch(INTERNAL_MEMBER_CLUSTERS, named, patch, { subresource: "status" });
        });
      }),
    120_000,
  );
});
