/** What people do by kubectl, by the API: a process for each costs as much as a hundred requests, on both ends. */

import { DEPLOYMENTS, type Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES, type Pod, PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { resource, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { eventuallyOne } from "./waiting.ts";

const OPTIONS = { fieldManager: "test" } as const;

interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** Objects of any kind that the server has, one after the other. */
export async function applyObjects(client: KubeClient, objects: readonly object[]): Promise<void> {
  for (const it of objects as readonly KubeObject[]) {
    const of = await findResource(client, it);
    const namespace = it.metadata.namespace ?? "default";
    const metadata = of.namespaced ? { ...it.metadata, namespace } : it.metadata;
    await client.apply(of, { ...it, metadata }, OPTIONS);
  }
}

async function findResource(
  client: KubeClient,
  { apiVersion = "", kind = "" }: KubeObject,
): Promise<Resource> {
  const path = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const { resources } = (await client.request("GET", path)) as {
    readonly resources: readonly {
      readonly name: string;
      readonly kind: string;
      readonly namespaced: boolean;
    }[];
  };
  const found = resources.find((it) => it.kind === kind && !it.name.includes("/"));
  if (found === undefined) throw new Error(`the server has no kind ${kind} in ${apiVersion}`);
  return resource(apiVersion, kind, found.name, found.namespaced ? "Namespaced" : "Cluster");
}

/** A namespace in which pods can be made: they are refused until it has the account of that name. */
export async function makeNamespace(client: KubeClient, name: string): Promise<void> {
  await client.apply(NAMESPACES, { metadata: { name } }, OPTIONS);
  await eventuallyOne(client, SERVICE_ACCOUNTS, objectKey(name, "default"));
}

/** Scales a Deployment, and waits until all of its pods are available. */
export async function scale(client: KubeClient, metadata: Named, replicas: number): Promise<void> {
  await setReplicas(client, metadata, replicas);
  await eventuallyOne(client, DEPLOYMENTS, objectKey(metadata.namespace, metadata.name), isRolledOut);
}

/** An apply may be sent again where a connection broke: its server may have just been restarted. */
export async function setReplicas(client: KubeClient, metadata: Named, replicas: number): Promise<void> {
  await client.apply(DEPLOYMENTS, { metadata, spec: { replicas } }, { fieldManager: "scale" });
}

/** As `kubectl rollout status` has it. */
function isRolledOut({ metadata, spec, status }: Deployment): boolean {
  const wanted = spec?.replicas ?? 1;
  const counts = [status?.replicas, status?.updatedReplicas, status?.availableReplicas];
  return (
    (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
    counts.every((it) => (it ?? 0) === wanted)
  );
}

export async function untilReady(client: KubeClient, { namespace, name }: Named): Promise<Pod> {
  const isReady = ({ status }: Pod): boolean => findCondition(status?.conditions, "Ready")?.status === "True";
  return eventuallyOne(client, PODS, objectKey(namespace, name), isReady);
}

/** @param annotation - null removes it. */
export async function annotate(
  client: KubeClient,
  of: Resource,
  { namespace, name }: Named,
  annotation: Readonly<Record<string, string | null>>,
): Promise<void> {
  await client.mergePatch(of, objectKey(namespace, name), { metadata: { annotations: annotation } });
}
