import { NAMESPACES, type Pod, PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { ensureNamespace } from "./fleet.ts";

/** What users and kubelets write, for tests of policies without nodes. */

export interface PodFacts {
  readonly namespace?: string;
  readonly labels: Record<string, string>;
  readonly address: string;
}

/** A pod that runs and has an address. */
export async function runPod(client: KubeClient, name: string, facts: PodFacts): Promise<Pod> {
  const { namespace = "work", labels, address } = facts;
  await ensureNamespace(client, namespace);
  const account = objectKey(namespace, "default");
  if ((await client.find(SERVICE_ACCOUNTS, account)) === undefined)
    await client.create(SERVICE_ACCOUNTS, { metadata: { namespace, name: "default" } });
  await client.create(PODS, {
    metadata: { namespace, name, labels },
    spec: {
      nodeName: "n1",
      containers: [{ name: "main", image: "echo", ports: [{ name: "http", containerPort: 8080 }] }],
    },
  });
  const status = { phase: "Running" as const, podIP: address, podIPs: [{ ip: address }] };
  return client.mergePatch(PODS, objectKey(namespace, name), { status }, { subresource: "status" });
}

/** A policy that admits pods with these labels to all pods of its namespace. */
export async function admit(
  client: KubeClient,
  name: string,
  { namespace = "work", labels }: Pick<PodFacts, "namespace" | "labels">,
): Promise<void> {
  await ensureNamespace(client, namespace);
  await client.create(NETWORK_POLICIES, {
    metadata: { namespace, name },
    spec: { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: labels } }] }] },
  });
}

export async function setGlobal(client: KubeClient, namespace: string, value: string | null): Promise<void> {
  const metadata = { annotations: { "clustermesh.cilium.io/global": value } };
  await client.mergePatch(NAMESPACES, objectKey(undefined, namespace), { metadata });
}
