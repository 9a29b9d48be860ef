import { afterEach, beforeEach, expect, it } from "vitest";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { ISOLATION_ANNOTATION, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { mailboxName } from "#api/fairlead.dev/cluster-names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type ExportedObjectReference,
  INTERNAL_SERVICE_EXPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createHubInformers, type HubInformers, neededInformers } from "./informers.ts";
import { viewFor } from "./membership/view.ts";

const STRICT = { [ISOLATION_ANNOTATION]: "strict" };
const SERVICE = mailboxName("shop", "hello");
const SLICE = "hello-of-a";
let stack: AsyncDisposableStack;
let client: FakeKubeClient;

beforeEach(() => {
  stack = new AsyncDisposableStack();
  client = new FakeKubeClient();
  client.seed(MEMBER_CLUSTERS, memberNamed("a"), memberNamed("b"));
});
afterEach(() => stack.disposeAsync());

function memberNamed(name: string, annotations = {}): MemberCluster {
  return { metadata: { name, annotations }, spec: { identity: { kind: "User", name } } };
}

function seedReport(cluster: string, view?: string): void {
  client.seed(NAMESPACE_REPORTS, {
    metadata: { namespace: mailboxOf(cluster), name: cluster },
    spec: { namespaces: ["shop"], ...(view === undefined ? {} : { view }) },
  });
}

const OF_A: ExportedObjectReference = {
  clusterId: "a",
  kind: "Service",
  namespace: "shop",
  name: "hello",
  namespacedName: "shop/hello",
  generation: 1,
  resourceVersion: "1",
  uid: "0",
};
const SLICE_SPEC = {
  addressType: "IPv4" as const,
  endpoints: [{ addresses: ["10.1.0.1"] }],
  endpointSliceReference: OF_A,
  ownerServiceReference: OF_A,
};

function seedExport(exportTo?: readonly string[]): void {
  client.seed(INTERNAL_SERVICE_EXPORTS, {
    metadata: { namespace: mailboxOf("a"), name: SERVICE, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: {
      ports: [{ port: 80, protocol: "TCP" }],
      serviceReference: OF_A,
      ...(exportTo === undefined ? {} : { exportTo: [...exportTo] }),
    },
  });
  client.seed(ENDPOINT_SLICE_EXPORTS, {
    metadata: { namespace: mailboxOf("a"), name: SLICE },
    spec: SLICE_SPEC,
  });
}

function seedService(namespace: string): void {
  client.seed(IMPORTED_SERVICES, {
    metadata: { namespace, name: SERVICE },
    spec: { service: { namespace: "shop", name: "hello" }, type: "ClusterSetIP", ports: [], clusters: [] },
  });
}

function seedSlice(namespace: string): void {
  client.seed(ENDPOINT_SLICE_IMPORTS, { metadata: { namespace, name: SLICE }, spec: SLICE_SPEC });
}

async function read({ isBesideOthers = false } = {}): Promise<HubInformers> {
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  const informers = createHubInformers(client, { isBesideOthers }, systemDeps(silentLogger));
  const all = neededInformers(informers, { isBesideOthers });
  for (const it of all) {
    stack.use(it);
    it.start(stop.signal);
  }
  await Promise.all(all.map((it) => it.synced(stop.signal)));
  return informers;
}

async function viewOfB() {
  return viewFor(await read(), memberNamed("b"), undefined);
}

it("a member begins to read its view once that has all services and endpoints that are in its mailbox", async () => {
  seedReport("b");
  seedExport();
  seedService(mailboxOf("b"));
  seedSlice(mailboxOf("b"));
  expect(await viewOfB()).toEqual({ view: undefined, lacking: SERVICE });
  seedService(VIEW_NAMESPACE);
  expect(await viewOfB()).toEqual({ view: undefined, lacking: SLICE });
  seedSlice(VIEW_NAMESPACE);
  expect(await viewOfB()).toEqual({ view: VIEW_NAMESPACE });
});

it("a member does not wait for what its view never holds: exports to some members, and what is no longer exported", async () => {
  seedReport("b");
  seedService(mailboxOf("b"));
  seedSlice(mailboxOf("b"));
  expect(await viewOfB()).toEqual({ view: VIEW_NAMESPACE });
  seedExport(["b"]);
  expect(await viewOfB()).toEqual({ view: VIEW_NAMESPACE });
});

it("a view is read where a member reports so, or gets its name from the hub", async () => {
  const views = async (isBesideOthers: boolean) => [...(await read({ isBesideOthers })).readViews()];
  expect(await views(false)).toEqual([]);
  client.seed(MEMBER_CLUSTERS, memberNamed("c", STRICT));
  seedReport("c");
  // A mailbox without a MemberCluster: its agent gets no name of a view.
  seedReport("stranger");
  expect(await views(false)).toEqual([]);
  seedReport("b");
  expect(await views(false)).toEqual([VIEW_NAMESPACE]);
  expect(await views(true)).toEqual([]);
  seedReport("d", "fleet-view-former");
  expect(await views(true)).toEqual(["fleet-view-former"]);
});
