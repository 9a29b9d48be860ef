import { defined } from "@fairlead/base/defined.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { keyOf, objectKey, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { addFinalizer, isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { WORK_FINALIZER, WORK_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  APPLIED_WORKS,
  type AppliedWork,
  type Work,
  WORKS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { waitingStatus } from "#placement/work/conditions.ts";
import { restoredProblem } from "#placement/work/restored.ts";
import { idOf } from "#placement/work/manifest.ts";
import { ensureAppliedWork } from "./applied-work.ts";
import { HealthRules } from "#placement/work/health.ts";
import { Kinds } from "./kinds.ts";
import { knownStatus, WorkMemories } from "./memory.ts";
import type { PassParts, WorkSession } from "./parts.ts";
import { passOver } from "./pass.ts";
import type { PlacingProblems } from "./problems.ts";
import { isAbandoned, leaveWork, removeWork } from "./remove.ts";
import { writeStatus } from "./status.ts";
import { Requests } from "./requests.ts";
import { identitiesOf, OF_OBJECT, sharingChanged } from "./sharing.ts";

/** Works that are worked on at a time: more than may hang, as long as most do not. */
const CONCURRENCY = 16;
/** How long a Work waits for further changes, for each of its manifests, and at most. Unit: milliseconds. */
const DELAY_MS = 1;
const MAX_DELAY_MS = 500;
/** Index of Works by the namespaces of the objects in them. */
const OF_NAMESPACE = "namespace";
/** Index of Works by the groups of the kinds in them. */
const OF_GROUP = "group";

/** The Works in the mailbox of a member. */
export function createWorkInformer(
  hub: KubeClient,
  mailbox: string,
  deps: RuntimeDeps,
  problems?: PlacingProblems,
): Informer<Work> {
  return createInformer(
    hub,
    WORKS,
    {
      namespace: mailbox,
      ...defined({ onUnreadable: problems?.onUnreadable("Work") }),
      indexes: {
        [OF_OBJECT]: (it) => identitiesOf(it).map(idOf),
        [OF_NAMESPACE]: (it) => [...new Set(identitiesOf(it).map(({ namespace }) => namespace))],
        [OF_GROUP]: (it) => [...new Set(identitiesOf(it).map(({ group }) => group))],
      },
    },
    deps,
  );
}

export function createAppliedWorkInformer(
  local: KubeClient,
  deps: RuntimeDeps,
  problems?: PlacingProblems,
): Informer<AppliedWork> {
  const onUnreadable = problems?.onUnreadable("AppliedWork");
  return createInformer(
    local,
    APPLIED_WORKS,
    { fieldManager: WORK_MANAGER, ...defined({ onUnreadable }) },
    deps,
  );
}

/** Applies the Works of the mailbox in this cluster. Both informers are the caller's to start and stop. */
export function createWorkApplier(session: WorkSession): Controller {
  return new WorkApplier(session).controller;
}

class WorkApplier {
  readonly controller: Controller;
  readonly #session: WorkSession;
  readonly #kinds: Kinds;
  readonly #requests: Requests;
  readonly #health: HealthRules;
  readonly #memories = new WorkMemories();
  /** Works that an object of changed, and that wait for further changes. */
  readonly #soon = new Set<ObjectKey>();

  constructor(session: WorkSession) {
    const { local, works, appliedWorks, deps, requestTimeoutMs } = session;
    this.#session = session;
    this.#kinds = new Kinds(local, deps, (...change) => this.#onChange(...change));
    this.#health = new HealthRules(session.compileHealth);
    this.#requests = new Requests(
      deps.clock,
      requestTimeoutMs === undefined ? {} : { timeoutMs: requestTimeoutMs },
    );
    const controller = createController(
      {
        name: "work",
        reconcile: (key, signal) => this.#reconcile(key, signal),
        sources: [
          watching(works),
          watchingChanges(works, (change) => sharingChanged(works, change)),
          watchingChanges(appliedWorks, ({ before, after }) => workOf(after ?? before)),
          ...session.sources,
        ],
        concurrency: CONCURRENCY,
      },
      deps,
    );
    const kinds = this.#kinds;
    this.controller = {
      name: controller.name,
      start: (signal) => controller.start(signal),
      enqueue: (key) => controller.enqueue(key),
      idle: (signal) => controller.idle(signal),
      async [Symbol.asyncDispose]() {
        await controller[Symbol.asyncDispose]();
        await kinds[Symbol.asyncDispose]();
      },
    };
  }

  /** An object of a kind in use changed: the Works that have it are looked at, and those that may have waited for it. */
  #onChange(of: Resource, key: ObjectKey, isPresence: boolean): void {
    const { store } = this.#session.works;
    const { namespace, name } = splitKey(key);
    const { group, kind } = of;
    for (const work of store.byIndex(OF_OBJECT, idOf({ group, kind, namespace, name })))
      this.#enqueueSoon(work);
    if (isSameKind(of, NAMESPACES) && isPresence) this.#makeDue(store.byIndex(OF_NAMESPACE, name));
    if (!isSameKind(of, CUSTOM_RESOURCE_DEFINITIONS)) return;
    // The name of a definition is that of its resource, a dot, and that of its group.
    const ofGroup = name.slice(name.indexOf(".") + 1);
    this.#kinds.forget(ofGroup);
    this.#makeDue(store.byIndex(OF_GROUP, ofGroup));
  }

  /** A Work with many objects waits for further changes, because a pass looks at all of them. */
  #enqueueSoon(work: Work): void {
    const key = keyOf(work);
    if (this.#soon.has(key)) return;
    this.#soon.add(key);
    const manifests = work.spec.workload?.manifests?.length ?? 0;
    this.#session.deps.clock.after(Math.min(manifests * DELAY_MS, MAX_DELAY_MS), () => {
      this.#soon.delete(key);
      this.controller.enqueue(key);
    });
  }

  #makeDue(works: Iterable<Work>): void {
    for (const work of works) {
      this.#memories.makeDue(keyOf(work));
      this.controller.enqueue(keyOf(work));
    }
  }

  async #reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const session = this.#session;
    const membership = session.membership();
    const work = session.works.store.get(key);
    if (work === undefined || membership !== "join") this.#forget(key);
    // A Work that vanished says nothing: a hub that lost its data must not empty the cluster.
    if (work === undefined || membership === "none") return session.problems?.leave(key);
    const parts = { session, kinds: this.#kinds, requests: this.#requests, health: this.#health, signal };
    if (membership === "leave") return this.#leave(parts, work);
    if (isDeleting(work)) {
      this.#forget(key);
      return removeWork(parts, work, isAbandoned(work) ? "Orphan" : "Delete");
    }
    const held = await addFinalizer(session.hub, WORKS, work, { finalizer: WORK_FINALIZER, signal });
    const problem = restoredProblem(
      held,
      session.appliedWorks.store.get(objectKey(undefined, held.metadata.name)),
    );
    if (problem !== undefined) return this.#wait(held, problem, signal);
    const owner = await ensureAppliedWork(session, held, signal);
    // The end of its deletion makes the Work due.
    if (owner === undefined) return;
    const pass = { ...parts, work: held, owner, strategy: work.spec.applyStrategy ?? {} };
    return passOver(pass, this.#memories.of(key, held));
  }

  async #leave(parts: PassParts, work: Work): Promise<ReconcileResult> {
    const { problems } = this.#session;
    try {
      const result = await leaveWork(parts, work);
      problems?.leave(keyOf(work));
      return result;
    } catch (error) {
      if (!parts.signal.aborted) problems?.leave(keyOf(work), error);
      throw error;
    }
  }

  async #wait(work: Work, message: string, signal: AbortSignal): Promise<void> {
    const memory = this.#memories.of(keyOf(work), work);
    const before = knownStatus(work, memory);
    const { generation = 0 } = work.metadata;
    const { clock, log } = this.#session.deps;
    const status = waitingStatus({ before, message, generation, clock });
    if (await writeStatus(this.#session, { work, memory, status }, signal))
      log.warn("a Work waits", { work: work.metadata.name, why: message });
  }

  #forget(key: ObjectKey): void {
    this.#memories.forget(key);
    this.#kinds.use(key, []);
  }
}

function isSameKind(a: Resource, b: Pick<Resource, "group" | "kind">): boolean {
  return a.group === b.group && a.kind === b.kind;
}

function workOf(it: AppliedWork | undefined): ObjectKey[] {
  return it === undefined ? [] : [objectKey(it.spec.workNamespace, it.spec.workName)];
}
