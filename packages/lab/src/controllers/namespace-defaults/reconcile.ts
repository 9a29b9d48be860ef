import { CONFIG_MAPS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, KubeClient } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import { type LabInformers, ROOT_CA_NAME } from "../informers.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";

type Needs = Pick<LabInformers, "namespaces" | "serviceAccounts" | "rootCas">;

/**
 * Gives every namespace its ServiceAccount `default` and the ConfigMap with which pods check the API server.
 * Source: pkg/controller/serviceaccount, pkg/controller/certificates/rootcacertpublisher.
 */
export function namespaceDefaultsController(
  parts: { readonly client: KubeClient; readonly informers: Needs; readonly rootCa: string },
  deps: RuntimeDeps,
): Controller {
  const { client, informers, rootCa } = parts;
  const byNamespace = ({ before, after }: Change<KubeObject>): ObjectKey[] => [
    objectKey(undefined, (after ?? before)?.metadata.namespace ?? ""),
  ];
  return createController(
    {
      name: "namespace-defaults",
      sources: [
        watching(informers.namespaces),
        watching(informers.serviceAccounts, byNamespace),
        watching(informers.rootCas, byNamespace),
      ],
      reconcile: untilEnding(async (namespace, signal) => {
        const object = informers.namespaces.store.get(namespace);
        if (object === undefined || isDeleting(object)) return undefined;
        try {
          if (informers.serviceAccounts.store.get(objectKey(namespace, "default")) === undefined)
            await client.create(SERVICE_ACCOUNTS, { metadata: { namespace, name: "default" } }, { signal });
          await publishRootCa({ client, informers, rootCa }, namespace, signal);
        } catch (error) {
          // Another client has created it in the meantime.
          if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
        }
        return undefined;
      }),
    },
    deps,
  );
}

async function publishRootCa(
  parts: { readonly client: KubeClient; readonly informers: Needs; readonly rootCa: string },
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  const present = parts.informers.rootCas.store.get(objectKey(namespace, ROOT_CA_NAME));
  const data = { "ca.crt": parts.rootCa };
  if (present === undefined) {
    await parts.client.create(CONFIG_MAPS, { metadata: { namespace, name: ROOT_CA_NAME }, data }, { signal });
    return;
  }
  if (present.data?.["ca.crt"] === parts.rootCa) return;
  await parts.client.update(CONFIG_MAPS, { ...present, data }, { signal });
}
