import type { Node, Pod, Service } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { matcherOfPairs } from "@fairlead/kube/objects/selector.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import { type LabInformers, selectorKey } from "../informers.ts";
import { endpointGroups } from "./endpoints.ts";
import { MANAGED_BY, planSlices, targetOf } from "./plan.ts";

type Needs = Pick<LabInformers, "services" | "pods" | "nodes" | "slices">;

/** Keeps the EndpointSlices of every Service with a selector. */
export function endpointSliceController(client: KubeClient, informers: Needs, deps: RuntimeDeps): Controller {
  return createController(
    {
      name: "endpointslice",
      reconcile: untilEnding((key, signal) => reconcile(client, informers, { key, signal })),
      sources: [
        watching(informers.services),
        watching(informers.pods, (change) => servicesOfPod(informers.services, change)),
        watching(informers.slices, servicesOfSlice),
        watching(informers.nodes, (change) => servicesOfNode(informers, change)),
      ],
    },
    deps,
  );
}

async function reconcile(
  client: KubeClient,
  { services, pods, nodes, slices }: Needs,
  { key, signal }: { readonly key: ObjectKey; readonly signal: AbortSignal },
): Promise<void> {
  const service = services.store.get(key);
  // Without the Service the slices go with their owner; without a selector someone else writes them.
  if (service === undefined || !hasSelector(service)) return;
  const matches = matcherOfPairs(service.spec?.selector);
  const candidates = pods.store.byIndex("namespace", service.metadata.namespace ?? "");
  const matching = [...candidates].filter((pod) => matches(pod.metadata.labels));
  const nodeOf = (name: string): Node | undefined => nodes.store.get(objectKey(undefined, name));
  const groups = endpointGroups({ service, pods: matching, nodeOf });
  const plan = planSlices(
    targetOf(service),
    groups,
    [...slices.store.byIndex("service", key)].filter(isOurs),
  );
  // Additions first: a Service must not be without endpoints in between.
  for (const slice of plan.create) await client.create(ENDPOINT_SLICES, slice, { signal });
  for (const slice of plan.update) await client.update(ENDPOINT_SLICES, slice, { signal });
  for (const slice of plan.delete) {
    const { uid = "" } = slice.metadata;
    await client.delete(ENDPOINT_SLICES, keyOf(slice), { uid, signal });
  }
}

function hasSelector(service: Service): boolean {
  return Object.keys(service.spec?.selector ?? {}).length > 0 && service.spec?.type !== "ExternalName";
}

function isOurs(slice: EndpointSlice): boolean {
  const { deletionTimestamp, labels } = slice.metadata;
  return deletionTimestamp === undefined && labels?.[MANAGED_BY_LABEL] === MANAGED_BY;
}

function servicesOfSlice({ before, after }: Change<EndpointSlice>): ObjectKey[] {
  return [before, after].flatMap((slice) => {
    const name = slice?.metadata.labels?.[SERVICE_NAME_LABEL];
    return name === undefined ? [] : [objectKey(slice?.metadata.namespace, name)];
  });
}

/** The Services that select the pod, or did; none when nothing that an endpoint shows has changed. */
function servicesOfPod(services: Informer<Service>, { before, after }: Change<Pod>): ObjectKey[] {
  if (before !== undefined && after !== undefined && sameJson(facetsOf(before), facetsOf(after))) return [];
  return [before, after].flatMap((pod) => (pod === undefined ? [] : servicesSelecting(services, pod)));
}

function servicesSelecting(services: Informer<Service>, pod: Pod): ObjectKey[] {
  const { labels = {}, namespace } = pod.metadata;
  return Object.entries(labels).flatMap(([label, value]) =>
    [...services.store.byIndex("selector", selectorKey(namespace, label, value))]
      .filter((service) => matcherOfPairs(service.spec?.selector)(labels))
      .map((service) => keyOf(service)),
  );
}

/** All of a pod that its endpoints depend on. */
function facetsOf(pod: Pod): unknown {
  const ready = pod.status?.conditions?.find((it) => it.type === "Ready")?.status;
  const { labels, deletionTimestamp, uid } = pod.metadata;
  const { nodeName, hostname, subdomain } = pod.spec ?? {};
  const { phase, podIPs } = pod.status ?? {};
  return { labels, deletionTimestamp, uid, nodeName, hostname, subdomain, phase, podIPs, ready };
}

/** A node matters when it comes, goes or moves to another zone. */
function servicesOfNode({ pods, services }: Needs, { key, before, after }: Change<Node>): ObjectKey[] {
  if (before !== undefined && after !== undefined && sameJson(before.metadata.labels, after.metadata.labels))
    return [];
  return [...pods.store.byIndex("node", key)].flatMap((pod) => servicesSelecting(services, pod));
}
