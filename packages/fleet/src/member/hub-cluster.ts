import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import {
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  type InternalServiceImport,
  type MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Source } from "@fairlead/kube/types.ts";
import { mailboxIndex, serviceOfImport } from "./informers.ts";
import { isPresenceChanged, type Session } from "./session.ts";

/**
 * A cluster may be a hub and a member at once. The hub's controllers keep a ServiceImport of the fleet API there for
 * each service of the fleet, under the name that a member's own would have: these are the hub's alone. A member in
 * such a cluster makes none and writes to none: it asks for what a MultiClusterService names, and reads the answer in
 * its mailbox.
 */

/** Whether this cluster is a hub, too. */
export function isHubToo({ here }: Pick<Session, "here">): boolean {
  for (const _mailbox of here.namespaces.store.byIndex("mailbox", "")) return true;
  return false;
}

/** Enqueues the keys when the cluster becomes a hub, or stops being one. */
export function watchingHub({ here }: Session, keys: () => readonly ObjectKey[]): Source {
  return watchingChanges(here.namespaces, (change) => {
    const namespace = change.after ?? change.before;
    const isMailbox = namespace !== undefined && mailboxIndex(namespace).length > 0;
    return isMailbox && isPresenceChanged(change) ? keys() : [];
  });
}

/** The status of imports in the hub's own cluster: keys are services. */
export function watchingImportStatus(
  session: Session,
  keysOf: (service: ObjectKey) => readonly ObjectKey[],
): Source {
  return watchingChanges(session.mailbox.imports, ({ before, after }) => {
    const it: InternalServiceImport | undefined = after ?? before;
    return it === undefined || !isHubToo(session) ? [] : keysOf(serviceOfImport(it));
  });
}

/** What this member has of a service through the fleet API. */
export function fleetImportOf(session: Session, service: ObjectKey): FleetServiceImport | undefined {
  const { here, mailbox } = session;
  if (!isHubToo(session)) return here.fleetImports.store.get(service);
  const asked = [...mailbox.imports.store.byIndex("service", service)].find((it) => !isDeleting(it));
  if (asked === undefined) return undefined;
  const { namespace = "", name } = splitKey(service);
  return {
    apiVersion: `${FLEET_SERVICE_IMPORTS.group}/${FLEET_SERVICE_IMPORTS.version}`,
    kind: FLEET_SERVICE_IMPORTS.kind,
    metadata: { namespace, name },
    ...(asked.status === undefined ? {} : { status: asked.status }),
  };
}

/** The MultiClusterServices that ask for a service. */
export function askersOf({ here }: Session, service: ObjectKey): MultiClusterService[] {
  return [...here.multiClusterServices.store.byIndex("import", service)].filter((it) => !isDeleting(it));
}
