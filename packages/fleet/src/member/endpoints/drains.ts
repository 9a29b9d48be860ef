import {
  type DrainedCluster,
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import { serviceOfImported } from "../informers.ts";
import type { Session } from "../session.ts";
import { namesOf } from "./sources.ts";

/** Tracks which drains are applied: those since whose request every slice that they may affect was reconciled. */
export class Drains {
  readonly #session: Session;
  #asked: readonly DrainedCluster[] | undefined;
  /** Names of slices that wait for a reconcile, and since which revision of the requested drains. */
  readonly #pending = new Map<ObjectKey, number>();
  #revision = 0;
  /** Called when nothing waits any more. */
  onDone: () => void = () => {};

  constructor(session: Session) {
    this.#session = session;
  }

  /** The revision of the requested drains that a reconcile which begins now applies. */
  get revision(): number {
    return this.#revision;
  }

  /** @returns The names of all slices that a change of the InternalMemberCluster may affect. */
  follow({ after }: Change<InternalMemberCluster>): ObjectKey[] {
    if (after === undefined) return [];
    const asked = after.spec.drained ?? [];
    if (sameJson(asked, this.#asked)) return [];
    const before = this.#asked ?? after.status?.drained ?? [];
    this.#asked = asked;
    this.#revision += 1;
    const names = this.#namesOfServicesIn(changedClusters(before, asked));
    for (const name of names) this.#pending.set(name, this.#revision);
    if (this.#pending.size === 0) this.onDone();
    return names;
  }

  /** @param revision - The revision when the reconcile began: one that began before the request may not have seen it. */
  passed(name: ObjectKey, revision: number): void {
    const since = this.#pending.get(name);
    if (since === undefined || since > revision) return;
    this.#pending.delete(name);
    if (this.#pending.size === 0) this.onDone();
  }

  isCarriedOut(asked: readonly DrainedCluster[]): boolean {
    return this.#pending.size === 0 && sameJson(asked, this.#asked);
  }

  #namesOfServicesIn(clusters: ReadonlySet<string>): ObjectKey[] {
    if (clusters.size === 0) return [];
    // A drained cluster sends its own requests elsewhere, also for a global Service that it does not share.
    const isOwn = clusters.has(this.#session.cluster);
    return [...this.#session.fleet.importedServices.list()]
      .filter(({ spec }) => isOwn || spec.clusters.some((it) => clusters.has(it.cluster)))
      .flatMap((it) => namesOf(this.#session, serviceOfImported(it)));
  }
}

/** Clusters that are drained, or are so in another way, in one of two lists only. */
export function changedClusters(
  before: readonly DrainedCluster[],
  after: readonly DrainedCluster[],
): ReadonlySet<string> {
  const texts = (all: readonly DrainedCluster[]) => new Set(all.map((it) => `${it.mode} ${it.cluster}`));
  return new Set(
    [...texts(before).symmetricDifference(texts(after))].map((it) => it.slice(it.indexOf(" ") + 1)),
  );
}

/** Reports to the hub the drains that this cluster has applied: one write for each, however many services there are. */
export function createDrainReport(session: Session, drains: Drains): Controller {
  const { hub, mailbox, cluster, deps } = session;
  const key = objectKey(mailboxOf(cluster), cluster);
  const controller = createController(
    {
      name: "member-drains",
      sources: [watching(mailbox.internalMembers, () => [key])],
      async reconcile(_key, signal) {
        const internalMember = mailbox.internalMembers.store.get(key);
        const asked = internalMember?.spec.drained ?? [];
        if (internalMember === undefined || !drains.isCarriedOut(asked)) return;
        if (sameJson(asked, internalMember.status?.drained ?? [])) return;
        const status = { drained: asked.length === 0 ? null : asked };
        await hub.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, { status }, { subresource: "status", signal });
        deps.log.info("applied drains", {
          drained: asked.map((it) => it.cluster),
        });
      },
    },
    deps,
  );
  drains.onDone = () => controller.enqueue(key);
  return controller;
}
