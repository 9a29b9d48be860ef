import { defined } from "@fairlead/base/defined.ts";
import { afterEach, beforeEach, expect, it } from "vitest";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ALLOWED_IMPORTERS_ANNOTATION, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExportSpec,
  type ExportedObjectReference,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { affectedServices, affectedSlices } from "./affected-services.ts";
import { createHubInformers, type HubInformers, neededInformers } from "./informers.ts";

let stack: AsyncDisposableStack;
let client: FakeKubeClient;
let informers: HubInformers;

beforeEach(() => {
  stack = new AsyncDisposableStack();
  client = new FakeKubeClient();
});
afterEach(() => stack.disposeAsync());

/** What objects say of the service, "namespace/name", or slice that they stand for. */
function referenceTo(service: string, clusterId: string): ExportedObjectReference {
  const [namespace = "", name = ""] = service.split("/");
  const version = { generation: 1, resourceVersion: "1", uid: "0" };
  return { clusterId, kind: "Service", namespace, name, namespacedName: service, ...version };
}

/** Names of slices are of their service, and of the cluster whose they are. */
function seedExport(cluster: string, service: string, exportTo?: string[]): void {
  const namespace = mailboxOf(cluster);
  const reference = referenceTo(service, cluster);
  client.seed(INTERNAL_SERVICE_EXPORTS, {
    metadata: { namespace, name: `${reference.namespace}-${reference.name}` },
    spec: {
      ports: [],
      serviceReference: reference,
      ...defined({ exportTo }),
    },
  });
  client.seed(ENDPOINT_SLICE_EXPORTS, {
    metadata: { namespace, name: `${reference.name}-of-${cluster}` },
    spec: sliceOf(reference),
  });
}

function sliceOf(reference: ExportedObjectReference): EndpointSliceExportSpec {
  return {
    addressType: "IPv4",
    endpoints: [],
    endpointSliceReference: reference,
    ownerServiceReference: reference,
  };
}

function seedCopy(namespace: string, name: string, service: string): void {
  const reference = referenceTo(service, "b");
  const metadata = { namespace, name };
  client.seed(ENDPOINT_SLICE_IMPORTS, { metadata, spec: sliceOf(reference) });
  client.seed(IMPORTED_SERVICES, {
    metadata,
    spec: {
      service: { namespace: reference.namespace, name: reference.name },
      type: "ClusterSetIP",
      ports: [],
      clusters: [],
    },
  });
}

async function concerned(cluster: string): Promise<{ services: string[]; slices: string[] }> {
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  informers = createHubInformers(client, {}, systemDeps(silentLogger));
  const all = neededInformers(informers, { isBesideOthers: false });
  for (const it of all) {
    stack.use(it);
    it.start(stop.signal);
  }
  await Promise.all(all.map((it) => it.synced(stop.signal)));
  return {
    services: [...affectedServices(informers, cluster)].toSorted(),
    slices: [...affectedSlices(informers, cluster)].toSorted(),
  };
}

it("a change of a member affects what it exports, what it imports, what names it, and what is in its mailbox", async () => {
  for (const cluster of ["a", "b"]) seedExport(cluster, "shop/both");
  seedExport("a", "shop/own");
  seedExport("b", "shop/others");
  seedExport("b", "shop/meant", ["a", "c"]);
  seedExport("b", "asked/for");
  seedExport("b", "reported/told");
  seedExport("b", "allowed/let");
  seedExport("b", "forbidden/not");
  client.seed(INTERNAL_SERVICE_IMPORTS, {
    metadata: { namespace: mailboxOf("a"), name: "for" },
    spec: { serviceImportReference: referenceTo("asked/for", "a") },
  });
  client.seed(NAMESPACE_REPORTS, {
    metadata: { namespace: mailboxOf("a"), name: "a" },
    spec: { namespaces: ["reported"] },
  });
  const naming = (importers: string) => ({ annotations: { [ALLOWED_IMPORTERS_ANNOTATION]: importers } });
  client.seed(
    NAMESPACES,
    { metadata: { name: "allowed", ...naming("c, a") } },
    { metadata: { name: "forbidden", ...naming("c") } },
  );
  seedCopy(mailboxOf("a"), "left-over", "gone/service");
  seedCopy(VIEW_NAMESPACE, "others-of-b", "shop/others");
  expect(await concerned("a")).toEqual({
    services: [
      "allowed/let",
      "asked/for",
      "gone/service",
      "reported/told",
      "shop/both",
      "shop/meant",
      "shop/own",
    ],
    slices: [
      "both-of-a",
      "both-of-b",
      "for-of-b",
      "left-over",
      "let-of-b",
      "meant-of-b",
      "own-of-a",
      "told-of-b",
    ],
  });
});

it("concerns a member that has nothing yet nothing", async () => {
  seedExport("b", "shop/others");
  expect(await concerned("a")).toEqual({ services: [], slices: [] });
});
