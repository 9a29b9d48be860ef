import { isIPv6 } from "node:net";
import { bootstrapObjects } from "#catalog/bootstrap.ts";
import { fieldsAt, itemsAt } from "@fairlead/base/fields.ts";
import type { ServiceAllocations } from "#builtin/service/allocations.ts";
import { MASTERS_GROUP } from "#values/authorizer.ts";
import { splitApiVersion } from "#schema/definitions.ts";
import { timestamp } from "#registry/metadata.ts";
import type { Registry } from "#registry/registry.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import type { WriteRequest } from "#registry/write.ts";
import { StatusError } from "./status.ts";

/** The server itself, as the author of what it makes. */
const SELF: UserInfo = { name: "system:apiserver", groups: [MASTERS_GROUP] };
const MANAGER = "kube-apiserver";

export interface BootstrapOptions {
  readonly allocations: ServiceAllocations;
  readonly advertiseAddress: string;
  readonly port: number;
  /** PEM of each authority that signs client certificates. */
  readonly clientCa: readonly string[];
}

/** Objects that depend on the port or the authority, which may change between starts. */
const KEPT: ReadonlySet<string> = new Set(["Service", "ConfigMap"]);

/** Makes what every cluster has, where it is missing, and says where the API server is reached now. */
export async function bootstrap(registry: Registry, options: BootstrapOptions): Promise<void> {
  for (const object of bootstrapObjects(options)) {
    await (KEPT.has(object.kind) ? keep(registry, object) : ensure(registry, object));
  }
  await markRangesReady(registry);
  for (const object of ownEndpoints(options)) await keep(registry, object);
}

/** The ranges of Services are in use from the start; a kube-apiserver says so a moment later. */
async function markRangesReady(registry: Registry): Promise<void> {
  const ranges = registry.reader.get("networking.k8s.io", "servicecidrs", undefined, "kubernetes");
  const isMarked = itemsAt(fieldsAt(ranges, "status"), "conditions").some((it) => it["type"] === "Ready");
  if (ranges === undefined || isMarked) return;
  const request = { ...requestFor(definitionOf(registry, ranges), ranges), subresource: "status" };
  await registry.change(request, (entry, { tx }) => {
    if (entry === undefined) return undefined;
    const ready = {
      type: "Ready",
      status: "True",
      lastTransitionTime: timestamp(tx.nowMs),
      reason: "",
      message: "Kubernetes default Service CIDR is ready",
    };
    return { input: structuredClone({ ...entry.object, status: { conditions: [ready] } }) };
  });
}

function definitionOf({ catalog }: Registry, object: ApiObject): ResourceDefinition {
  const { group, version } = splitApiVersion(object.apiVersion);
  const plural = catalog.ofKind(group, object.kind)?.plural ?? "";
  const definition = catalog.resource(group, version, plural);
  if (definition === undefined) throw new Error(`${object.apiVersion} ${object.kind} is not served`);
  return definition;
}

function requestFor(definition: ResourceDefinition, { metadata }: ApiObject): WriteRequest {
  return {
    definition,
    namespace: metadata.namespace,
    name: metadata.name,
    subresource: "",
    user: SELF,
    dryRun: false,
    fieldManager: MANAGER,
    warn: () => {},
  };
}

async function ensure(registry: Registry, object: ApiObject): Promise<void> {
  const definition = definitionOf(registry, object);
  const { namespace, name } = object.metadata;
  if (registry.reader.get(definition.group, definition.plural, namespace, name) !== undefined) return;
  try {
    await registry.create(requestFor(definition, object), object);
  } catch (error) {
    if (error instanceof StatusError && error.status.reason === "AlreadyExists") return;
    throw error;
  }
}

/** As `ensure`, but the object is brought to the wanted state where it differs. */
async function keep(registry: Registry, wanted: ApiObject): Promise<void> {
  const definition = definitionOf(registry, wanted);
  await ensure(registry, structuredClone(wanted));
  await registry.change(requestFor(definition, wanted), (entry) => {
    if (entry === undefined) return undefined;
    const { labels } = wanted.metadata;
    const metadata = { ...entry.object.metadata, ...(labels === undefined ? {} : { labels: { ...labels } }) };
    return { input: structuredClone({ ...entry.object, ...wanted, metadata }) };
  });
}

/** Where the Service `kubernetes` leads: this server. A loopback address leads nowhere from inside the cluster. */
function ownEndpoints({ advertiseAddress, port }: BootstrapOptions): ApiObject[] {
  if (advertiseAddress.startsWith("127.") || advertiseAddress === "::1") return [];
  const name = "kubernetes";
  const ports = [{ name: "https", port, protocol: "TCP" }];
  return [
    {
      apiVersion: "v1",
      kind: "Endpoints",
      metadata: { name, namespace: "default", labels: { "endpointslice.kubernetes.io/skip-mirror": "true" } },
      subsets: [{ addresses: [{ ip: advertiseAddress }], ports }],
    },
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name, namespace: "default", labels: { "kubernetes.io/service-name": name } },
      addressType: isIPv6(advertiseAddress) ? "IPv6" : "IPv4",
      endpoints: [{ addresses: [advertiseAddress], conditions: { ready: true } }],
      ports,
    },
  ];
}
