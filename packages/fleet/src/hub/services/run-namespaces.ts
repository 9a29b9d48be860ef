import { isNamespaceOfRun, RUN_LABEL } from "#api/fairlead.dev/names.ts";
import { NAMESPACES, type Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { type HubInformers, namespaceOfExport } from "../informers.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly deps: RuntimeDeps;
}

/**
 * Deletes the namespaces that the hub made for the services of `fairlead verify`, whose runs have a new name each. All other
 * namespaces of exported services stay: people may have annotated them, or keep objects there. Keys are namespaces.
 */
export function createRunNamespaces({ client, informers, deps }: Parts): Controller {
  const ofRuns = (names: readonly string[]) =>
    names.filter(isNamespaceOfRun).map((it) => objectKey(undefined, it));
  return createController(
    {
      name: "verify-namespace",
      sources: [
        watching(informers.namespaces, ({ key }) => ofRuns([key])),
        watchingChanges(
          informers.exports,
          both((it) => ofRuns(namespaceOfExport(it))),
        ),
        watchingChanges(
          informers.serviceImports,
          both(({ metadata }) => ofRuns([metadata.namespace ?? ""])),
        ),
      ],
      async reconcile(key, signal) {
        const namespace = informers.namespaces.store.get(key);
        if (namespace === undefined || !isLeftByRun(namespace, informers)) return;
        const { uid } = namespace.metadata;
        await client
          .delete(NAMESPACES, key, { signal, ...(uid === undefined ? {} : { uid }) })
          .catch((error: unknown) => {
            if (!hasCode(error, "API_FORBIDDEN")) return ignoreNotFound(error);
            // Of the original managers' permissions, none is for this.
            deps.log.warn("a namespace that was made for a run of verify stays, as it may not be deleted", {
              namespace: namespace.metadata.name,
            });
          });
      },
    },
    deps,
  );
}

/** Those with the label are the command's, which deletes them itself: the hub's cluster may be checked, too. */
function isLeftByRun(namespace: Namespace, { exports, serviceImports }: HubInformers): boolean {
  const { name, labels } = namespace.metadata;
  if (isDeleting(namespace) || labels?.[RUN_LABEL] !== undefined) return false;
  if (exports.store.byIndex("namespace", name)[Symbol.iterator]().next().done !== true) return false;
  return ![...serviceImports.store.list()].some((it) => it.metadata.namespace === name);
}
