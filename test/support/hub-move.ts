/** Two hubs with a program each, which is elected, and a witness of what is withdrawn in members while a fleet moves. */

import { untilAborted } from "@fairlead/base/abortable.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { HUB_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { moveHub, type MoveOptions } from "@fairlead/fleet/cli/hub-move/move.ts";
import type { Side } from "@fairlead/fleet/cli/fleet/steps.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { APPLIED_WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { runAsLeader } from "@fairlead/kube/election/leader.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { configAs } from "./access.ts";
import { addressesOf, connectProgram, Restartable, type TestCluster, testDeps } from "./fleet.ts";

/** As of a hub, and shorter: 5 s between two snapshots were a quarter of these tests. Creation times have whole seconds. */
const PACE = { minIntervalMs: 1000, collectMs: 100 };

/** "fairlead hub", with a leader that looks at its Lease more often, and makes snapshots more often. */
export function electedHub({ name, config }: TestCluster, leaseSeconds: number): Restartable {
  const deps = testDeps(name);
  return new Restartable(async (signal) => {
    await using client = connectProgram(configAs(HUB_ACCESS, config), deps);
    const options = {
      namespace: "fleet-system",
      name: "fairlead-hub",
      identity: `${name}_fairlead-hub-1`,
      retrySeconds: 0.1,
    };
    while (!signal.aborted)
      await runAsLeader({ client, options, deps }, signal, async (leading) => {
        await using _hub = await startHub(
          client,
          { placement: true, selecting: PACE, leaseSeconds },
          deps,
          leading,
        );
        await untilAborted(leading);
      }).catch(() => {});
  });
}

const MARK = "test/mark";

/** What was withdrawn or deleted in a member, of what it had when the watch began. */
export class Witness implements AsyncDisposable {
  readonly seen: string[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[] = [];
  readonly #marks: ((mark: string) => Promise<void>)[] = [];
  #round = 0;

  static async of(name: string, client: KubeClient, namespaces: readonly string[]): Promise<Witness> {
    const witness = new Witness();
    const kinds: readonly Resource[] = [
      ENDPOINT_SLICES,
      SERVICES,
      CONFIG_MAPS,
      DEPLOYMENTS,
      NAMESPACES,
      APPLIED_WORKS,
    ];
    for (const kind of kinds) await witness.#watch(name, client, kind, namespaces);
    return witness;
  }

  async #watch(name: string, client: KubeClient, of: Resource, namespaces: readonly string[]): Promise<void> {
    const { items, metadata } = await client.list(of);
    const isMeant = (it: KubeObject): boolean => {
      const { namespace } = it.metadata;
      return namespace === undefined
        ? of !== NAMESPACES || namespaces.includes(it.metadata.name)
        : namespaces.includes(namespace);
    };
    const addresses = (it: KubeObject): readonly string[] =>
      of === ENDPOINT_SLICES ? addressesOf([it as EndpointSlice]) : [];
    const known = new Map(items.filter(isMeant).map((it) => [keyOf(it), addresses(it)]));
    const signal = this.#stop.signal;
    const first = items.find(isMeant);
    const received = new Map<string, () => void>();
    if (first !== undefined)
      this.#marks.push(async (mark) => {
        const seen = Promise.withResolvers<void>();
        received.set(mark, seen.resolve);
        await client.mergePatch(of, keyOf(first), { metadata: { annotations: { [MARK]: mark } } });
        await seen.promise;
        await client.mergePatch(of, keyOf(first), { metadata: { annotations: { [MARK]: null } } });
      });
    const watch = async (): Promise<void> => {
      for await (const { type, object } of client.watch(
        of,
        { resourceVersion: metadata.resourceVersion },
        signal,
      )) {
        if (type === "ERROR" || type === "BOOKMARK" || !known.has(keyOf(object))) continue;
        received.get(object.metadata.annotations?.[MARK] ?? "")?.();
        const now = addresses(object);
        const gone = (known.get(keyOf(object)) ?? []).filter((it) => !now.includes(it));
        if (type === "DELETED") this.seen.push(`${name}: ${of.kind} ${keyOf(object)} deleted`);
        else if (gone.length > 0) this.seen.push(`${name}: ${of.kind} ${keyOf(object)} lost ${gone.join()}`);
        known.set(keyOf(object), now);
      }
    };
    this.#running.push(watch().catch(() => {}));
  }

  /** Resolves when each watch has received all that happened until now. */
  async caughtUp(): Promise<void> {
    this.#round += 1;
    await Promise.all(this.#marks.map((it) => it(String(this.#round))));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }
}

const WRITES = new Set(["create", "update", "mergePatch", "jsonPatch", "apply", "delete"]);

/** A process that ends after so many writes: none of its calls is answered any more. */
export class Mortal {
  #left: number;
  readonly #end = new AbortController();
  constructor(writes: number) {
    this.#left = writes;
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  get isDead(): boolean {
    return this.#end.signal.aborted;
  }

  of(client: KubeClient): KubeClient {
    return new Proxy(client, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        const call = (...args: unknown[]): unknown => {
          const isWrite =
            typeof name === "string" && (WRITES.has(name) || (name === "request" && args[0] !== "GET"));
          if (isWrite && this.isDead) return Promise.reject(new FleetError("ABORTED", "killed"));
          const result: unknown = Reflect.apply(value, target, args);
          if (!isWrite || !(result instanceof Promise)) return result;
          return result.then((it: unknown) => {
            this.#left -= 1;
            if (this.#left <= 0) this.#end.abort(new FleetError("ABORTED", "killed"));
            if (this.isDead) throw new FleetError("ABORTED", "killed");
            return it;
          });
        };
        return call;
      },
    });
  }
}

export function moveBetween(
  from: TestCluster,
  to: TestCluster,
  more: Partial<MoveOptions> & { readonly mortal?: Mortal } = {},
): ReturnType<typeof moveHub> {
  const { mortal, ...options } = more;
  const side = ({ name, client }: TestCluster): Side => ({ who: name, client: mortal?.of(client) ?? client });
  return moveHub({
    from: side(from),
    to: side(to),
    configs: { from: from.config, to: to.config },
    timeoutMs: 60_000,
    // That of a command that was killed: the next one does not wait for its Leases.
    identity: "test",
    progress: () => {},
    deps: testDeps("move"),
    signal: mortal?.signal ?? AbortSignal.timeout(120_000),
    ...options,
  });
}
