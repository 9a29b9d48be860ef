import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { watchingChanges } from "@fairlead/kube/controller/source.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Controller, Informer } from "@fairlead/kube/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { isMembershipChanged, membershipOf, placedOnLeave, type Session } from "../session.ts";
import { createAppliedWorkInformer, createWorkApplier } from "./applier.ts";

/** Applies what is placed on this cluster: the Works of its mailbox. Each kind is watched by what reads it. */
export function createWorks(session: Session): readonly Controller[] {
  const { local, hub, works, compileHealth, placing, deps } = session;
  if (works === undefined) return [];
  const appliedWorks = createAppliedWorkInformer(local, deps, placing);
  const membership = (): ReturnType<typeof membershipOf> => membershipOf(session);
  const all = (): ObjectKey[] => [...works.store.list()].map(keyOf);
  const sources = [
    watchingChanges(session.mailbox.internalMembers, (change) => (isMembershipChanged(change) ? all() : [])),
  ];
  const controller = createWorkApplier({
    local,
    hub,
    works,
    appliedWorks,
    membership,
    placedOnLeave: () => placedOnLeave(session),
    sources,
    problems: placing,
    compileHealth,
    deps,
  });
  return [inBackground(controller, [works, appliedWorks], session)];
}

/** A hub that serves no Works, or does not let this member read them yet, must not hold up the others. */
function inBackground(
  controller: Controller,
  informers: readonly Pick<Informer<KubeObject>, typeof Symbol.asyncDispose>[],
  { deps }: Session,
): Controller {
  return {
    ...controller,
    start(signal) {
      controller.start(signal).catch((error: unknown) => {
        if (!signal.aborted) deps.log.error("cannot apply what is placed", { error: messageOf(error) });
      });
      return Promise.resolve();
    },
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await Promise.all(informers.map((it) => it[Symbol.asyncDispose]()));
    },
  };
}
