import { sameJson } from "@fairlead/base/json.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Labels } from "@fairlead/kube/objects/selector.ts";
import type { Change, Controller, Informer, ReconcileResult } from "@fairlead/kube/types.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { checkSelectors, problemText, type SelectionInput } from "#placement/selection/check.ts";
import type { Selectable } from "#placement/selection/content.ts";
import type { KindName, KindTable } from "#placement/selection/kinds.ts";
import { neededKinds, select, type Selection } from "#placement/selection/select.ts";
import { type Discover, withDefinitions } from "#placement/selection/discovery.ts";
import { Interests } from "./interests.ts";
import { KindWatches, type WatchesParts } from "./watches.ts";

/** While a group is broken, and for what comes without a CustomResourceDefinition. Unit: milliseconds. */
const REDISCOVER_BROKEN_MS = 5_000;
const REDISCOVER_MS = 300_000;
const DISCOVERY = objectKey(undefined, "discovery");

export interface ResourcesParts extends WatchesParts {
  readonly definitions: Informer<CustomResourceDefinition>;
  readonly discover: Discover;
}

/** The objects that placements may select: the kinds that the API server serves, and watches of those that are selected. */
export class Resources implements AsyncDisposable {
  readonly #parts: ResourcesParts;
  readonly #watches: KindWatches;
  readonly #interests = new Interests();
  /** Placements that were checked. */
  readonly #placements = new Set<ObjectKey>();
  #kinds: KindTable | undefined;
  /** A placement is due: what it selects changed. */
  onChange: (placement: ObjectKey) => void = () => {};

  constructor(parts: ResourcesParts) {
    this.#parts = parts;
    this.#watches = new KindWatches(parts, {
      onReady: (placement) => this.onChange(placement),
      onChange: (of, change) => this.#onObject(of, change),
    });
  }

  /** Keeps the kinds up to date. */
  createDiscovery(): Controller {
    const definitions = watching(this.#parts.definitions, () => [DISCOVERY]);
    return createController(
      {
        name: "placement-discovery",
        reconcile: (_, signal) => this.#discover(signal),
        maxRetryMs: REDISCOVER_BROKEN_MS,
        sources: [
          {
            informer: this.#parts.definitions,
            subscribe(enqueue) {
              // Also where there are no definitions.
              enqueue(DISCOVERY);
              return definitions.subscribe(enqueue);
            },
          },
        ],
      },
      this.#parts.deps,
    );
  }

  async #discover(signal: AbortSignal): Promise<ReconcileResult> {
    const { discover, definitions, deps } = this.#parts;
    const before = this.#kinds;
    const kinds = withDefinitions(await discover(before, signal), definitions.store.list());
    this.#kinds = kinds;
    if (before === undefined || !isSame(before, kinds)) {
      for (const { group, problem } of kinds.groups)
        if (problem !== undefined && before?.isBroken(group) !== true)
          deps.log.warn("an API group cannot be read; what is placed of it stays as it is", {
            group,
            problem,
          });
      this.#enqueueAll();
    }
    return { requeueAfterMs: kinds.broken.size > 0 ? REDISCOVER_BROKEN_MS : REDISCOVER_MS };
  }

  /** Begins to watch what the placement selects, or says what is wrong with its selectors. Undefined while too little is known. */
  check(key: ObjectKey, placement: Placement): { readonly problem?: string } | undefined {
    this.#placements.add(key);
    const input = this.#inputOf(placement);
    if (input === undefined) return undefined;
    const problems = checkSelectors(input);
    if (problems.length > 0) {
      this.#interests.delete(key);
      this.#watches.want(key, []);
      return { problem: problemText(problems) };
    }
    this.#interests.set(key, input);
    this.#watches.want(key, neededKinds(input).kinds);
    return {};
  }

  /** What a placement selects now; undefined while too little is known. */
  select(
    placement: Placement,
  ): { readonly input: SelectionInput; readonly selection: Selection } | undefined {
    const input = this.#inputOf(placement);
    if (input === undefined) return undefined;
    return { input, selection: select(input, (of) => this.#watches.objects(of)) };
  }

  /** What the API server serves; undefined while that is not known. */
  get kinds(): KindTable | undefined {
    return this.#kinds;
  }

  /** How much longer to wait for kinds that are still to be read. Unit: milliseconds. */
  patienceMs(kinds: readonly KindName[]): number {
    return Math.max(0, ...kinds.map((it) => this.#watches.patienceMs(it)));
  }

  forget(key: ObjectKey): void {
    this.#placements.delete(key);
    this.#interests.delete(key);
    this.#watches.want(key, []);
  }

  /** The kinds that are watched, as "group/version/Kind". */
  get watched(): readonly string[] {
    return this.#watches.kinds;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watches[Symbol.asyncDispose]();
  }

  #inputOf({ metadata, spec }: Placement): SelectionInput | undefined {
    if (this.#kinds === undefined) return undefined;
    return { namespace: metadata.namespace, spec, kinds: this.#kinds, rules: this.#parts.rules };
  }

  #onObject(of: Resource, change: Change<Selectable>): void {
    for (const it of this.#interests.affected(of, change, (name) => this.#labelsOf(name))) this.onChange(it);
  }

  #labelsOf(namespace: string): Labels {
    const namespaces = this.#kinds?.find({ group: "", version: "v1", kind: "Namespace" });
    if (namespaces === undefined) return undefined;
    return this.#watches.objects(namespaces)?.get(objectKey(undefined, namespace))?.metadata.labels;
  }

  #enqueueAll(): void {
    for (const it of this.#placements) this.onChange(it);
  }
}

/** Whether two tables say the same, in whatever words of what is broken. */
function isSame(a: KindTable, b: KindTable): boolean {
  const [one, other] = [a, b].map(({ groups }) =>
    groups.map(({ problem, ...rest }) => ({ ...rest, isBroken: problem !== undefined })),
  );
  return sameJson(one, other);
}
