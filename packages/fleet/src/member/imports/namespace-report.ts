import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isReservedNamespace, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { byText } from "@fairlead/base/text.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { isParallel, nodeBlocksNeeded } from "../fleet-addresses.ts";
import { progressOf } from "../fleet-progress.ts";
import { membershipOf, type Session } from "../session.ts";

/** Reports to the hub the namespaces of the cluster; the hub then sends the services that are exported in them. */
export function createNamespaceReport(session: Session): Controller {
  const { here, mailbox, fleet, mesh, ranges, hub, cluster, deps } = session;
  const key = objectKey(mailboxOf(cluster), cluster);
  const always = (): ObjectKey[] => [key];
  const whenParallel = (): ObjectKey[] => (isParallel(session) ? [key] : []);
  const controller = createController(
    {
      name: "member-namespaces",
      sources: [
        watching(here.namespaces, always),
        watching(fleet.reports, always),
        watching(mailbox.internalMembers, always),
        // Which blocks of addresses are needed.
        ...(mesh === undefined || ranges === undefined
          ? []
          : [
              watchingChanges(mesh.blocks, always),
              watchingChanges(mesh.gateways, always),
              watchingChanges(ranges.nodes, always),
              watchingChanges(mailbox.sliceExports, whenParallel),
            ]),
      ],
      async reconcile(_key, signal) {
        // A legacy hub does not have this kind.
        if (!fleet.isModern) return;
        const membership = membershipOf(session);
        const current = fleet.reports.store.get(objectKey(undefined, cluster));
        if (membership === "leave" && current !== undefined)
          await hub.delete(NAMESPACE_REPORTS, key, { signal });
        if (membership !== "join") return;
        await applyIfChanged(hub, NAMESPACE_REPORTS, {
          current,
          desired: {
            metadata: { namespace: mailboxOf(cluster), name: cluster },
            spec: {
              namespaces: usableNamespaces(session),
              ...defined({
                view: fleet.view,
                nodeBlocks: nodeBlocksNeeded(session),
                fleetAddresses: progressOf(session),
              }),
            },
          },
          fieldManager: MEMBER_MANAGER,
          signal,
        });
      },
    },
    deps,
  );
  fleet.onChange = () => controller.enqueue(key);
  return controller;
}

/** Namespaces into which services can be imported, sorted. */
function usableNamespaces({ here }: Session): string[] {
  return [...here.namespaces.store.list()]
    .filter((it) => !isDeleting(it) && it.status?.phase !== "Terminating")
    .map((it) => it.metadata.name)
    .filter((name) => !isReservedNamespace(name))
    .toSorted(byText);
}

/** Whether a namespace exists and takes new objects. */
export function hasNamespace({ here }: Session, name: string): boolean {
  // No cluster is without any: they may not be read, and the write shows it.
  if (here.namespaces.store.size === 0) return true;
  const namespace = here.namespaces.store.get(objectKey(undefined, name));
  return namespace !== undefined && !isDeleting(namespace) && namespace.status?.phase !== "Terminating";
}
