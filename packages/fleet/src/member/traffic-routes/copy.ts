import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { TRAFFIC_ROUTES } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { keyOf, type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { isLegacy, membershipOf, type Session } from "../session.ts";
import { ViewSource } from "../view-source.ts";

/**
 * Copies TrafficRoutes of the hub's view into `fleet-system`, where this cluster's DNS servers read them: they need no
 * way to the hub, and answer while it is away. Keys are names of routes in `fleet-system`, and the key of the InternalMemberCluster.
 */
export function createTrafficRoutes(session: Session): Controller {
  const { local, mailbox, cluster, events, deps } = session;
  const routes = createInformer(
    local,
    TRAFFIC_ROUTES,
    {
      namespace: FLEET_SYSTEM_NAMESPACE,
      labelSelector: `${MANAGED_BY_LABEL}=${MANAGED_BY}`,
      fieldManager: MEMBER_MANAGER,
    },
    deps,
  );
  const internalMemberKey = objectKey(mailboxOf(cluster), cluster);
  const source = new ViewSource(session, [TRAFFIC_ROUTES], {
    onChange: (_of, name) => controller.enqueue(objectKey(FLEET_SYSTEM_NAMESPACE, name)),
    onSynced: () => controller.enqueue(internalMemberKey),
  });

  async function follow(): Promise<void> {
    const internalMember = mailbox.internalMembers.store.get(internalMemberKey);
    // An absent InternalMemberCluster ends nothing.
    if (internalMember === undefined) return;
    const isJoined = !isLegacy(internalMember) && internalMember.spec.state === "Join";
    const readsView = isJoined && internalMember.spec.view !== undefined;
    await source.follow(readsView ? VIEW_NAMESPACE : undefined);
    for (const it of routes.store.list()) controller.enqueue(keyOf(it));
  }

  /** Where the hub's word is not known, what it said last stays. */
  async function copy(key: ObjectKey, signal: AbortSignal): Promise<void> {
    if (membershipOf(session) === "none" || !source.isKnown) return;
    const { name } = splitKey(key);
    const wanted = source.find(TRAFFIC_ROUTES, name);
    const current = routes.store.get(key);
    if (wanted === undefined) {
      if (current !== undefined) await local.delete(TRAFFIC_ROUTES, key, { signal });
      return;
    }
    const labels = { [MANAGED_BY_LABEL]: MANAGED_BY };
    const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name, labels };
    const desired = { metadata, spec: wanted.spec };
    const by = { fieldManager: MEMBER_MANAGER, events, signal };
    await applyIfChanged(local, TRAFFIC_ROUTES, { current, desired, ...by });
  }

  const controller = createController(
    {
      name: "member-traffic-routes",
      reconcile: (key, signal) => (key === internalMemberKey ? follow() : copy(key, signal)),
      concurrency: 2,
      sources: [watching(mailbox.internalMembers), watching(routes)],
    },
    deps,
  );
  return {
    name: controller.name,
    start: (signal) => controller.start(signal),
    enqueue: (key) => controller.enqueue(key),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await source[Symbol.asyncDispose]();
      await routes[Symbol.asyncDispose]();
    },
  };
}
