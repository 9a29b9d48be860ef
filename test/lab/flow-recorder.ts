/** Writes down what each cluster of a lab knows of the endpoints of one service, and since when. */

import {
  type Endpoint,
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { viewNamespaceOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import type { EndpointChange } from "./flow-judge.ts";
import { FleetAddresses } from "./fleet-addresses.ts";
import { PARALLEL_PROFILE } from "./parallel-lab.ts";
import type { TestLab } from "../support/lab-fixture.ts";

interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** The state of an endpoint in an object, to explain where a flow went. */
export interface Said {
  readonly atMs: number;
  readonly address: string;
  readonly what: string;
}

type NamedEndpoints = { readonly cluster: string; readonly endpoints: ReadonlyMap<string, State> };
type State = "ready" | "serving and terminating" | "not ready";

/**
 * The endpoints that objects of one kind offer to proxies, as they come and go: the ready ones, or where none is ready
 * those that still serve while they terminate (KEP-1669). Of IPv4, by which all flows go.
 */
class Ledger {
  readonly changes: EndpointChange[] = [];
  readonly said: Said[] = [];
  /** Endpoints, by the object that names them: one that another takes over does not go. */
  readonly #named = new Map<string, NamedEndpoints>();
  readonly #of: "one service" | "a service of each cluster";

  constructor(of: "one service" | "a service of each cluster") {
    this.#of = of;
  }

  note(object: string, cluster: string, endpoints: readonly Endpoint[] = []): void {
    const atMs = systemClock.now();
    const former = this.#all();
    const states = new Map(
      endpoints.flatMap((it) => it.addresses.filter((at) => at.includes(".")).map((at) => [at, stateOf(it)])),
    );
    const known = this.#named.get(object)?.endpoints ?? new Map<string, State>();
    for (const address of new Set([...known.keys(), ...states.keys()])) {
      const what = states.get(address) ?? "not named";
      if (what !== known.get(address)) this.said.push({ atMs, address, what: `${what} in ${object}` });
    }
    if (states.size === 0) this.#named.delete(object);
    else this.#named.set(object, { cluster, endpoints: states });
    const after = this.#all();
    for (const [address, offeredBy] of former)
      if (!after.has(address)) this.changes.push({ atMs, address, cluster: offeredBy, isThere: false });
    for (const [address, offeredBy] of after)
      if (!former.has(address)) this.changes.push({ atMs, address, cluster: offeredBy, isThere: true });
  }

  /** Addresses that are offered, with their clusters. */
  #all(): ReadonlyMap<string, string> {
    const groups = Map.groupBy(this.#named.values(), (it) => (this.#of === "one service" ? "" : it.cluster));
    return new Map([...groups.values()].flatMap((it) => offered(it)));
  }
}

function offered(
  objects: readonly NamedEndpoints[],
): readonly (readonly [address: string, cluster: string])[] {
  const all = objects.flatMap(({ cluster, endpoints }) =>
    [...endpoints].map(([address, state]) => ({ address, cluster, state })),
  );
  const isAnyReady = all.some((it) => it.state === "ready");
  return all
    .filter((it) => it.state === (isAnyReady ? "ready" : "serving and terminating"))
    .map(({ address, cluster }) => [address, cluster]);
}

function stateOf({ conditions }: Endpoint): State {
  if (conditions?.ready !== false) return "ready";
  return conditions.serving === true && conditions.terminating === true
    ? "serving and terminating"
    : "not ready";
}

export class FlowRecorder implements AsyncDisposable {
  readonly #imported = new Map<string, Ledger>();
  readonly #own = new Ledger("a service of each cluster");
  readonly #view = new Ledger("one service");
  /** What proxies had, by importer. */
  readonly #tables = new Map<string, { readonly atMs: number; readonly endpoints: string }[]>();
  readonly #informers: Informer<KubeObject>[] = [];
  readonly #addresses = new Map<string, FleetAddresses>();
  readonly #stop = new AbortController();

  /** Its watches come back by themselves after their API server was away: what it missed is then late, never wrong. */
  static async start(lab: TestLab, members: readonly string[], service: Named): Promise<FlowRecorder> {
    const recorder = new FlowRecorder();
    for (const member of members) await recorder.#followMember(lab, member, service);
    await recorder.#followView(lab, service);
    const { signal } = recorder.#stop;
    for (const it of recorder.#informers) it.start(signal);
    await Promise.all(recorder.#informers.map((it) => it.synced(signal)));
    return recorder;
  }

  get imported(): ReadonlyMap<string, readonly EndpointChange[]> {
    return new Map([...this.#imported].map(([member, { changes }]) => [member, changes]));
  }

  get own(): readonly EndpointChange[] {
    return this.#own.changes;
  }

  get view(): readonly EndpointChange[] {
    return this.#view.changes;
  }

  /** The address by which clients meet a pod; undefined if it is the pod's own. */
  fleetAddressOf(member: string, namespace: string, pod: string): string | undefined {
    return this.#addresses.get(member)?.ofPod(namespace, pod);
  }

  /** The states of an address in an interval, as the importer, the hub and its own cluster have it. */
  saidOf(
    address: string,
    importer: string,
    range: { readonly fromMs: number; readonly untilMs: number },
  ): readonly string[] {
    const of = (where: string, ledger: Ledger | undefined): readonly string[] =>
      (ledger?.said ?? [])
        .filter((it) => it.address === address && it.atMs >= range.fromMs && it.atMs <= range.untilMs)
        .map((it) => `${it.atMs - range.untilMs} ms ${where}: ${it.what}`);
    return [
      ...of("importer", this.#imported.get(importer)),
      ...of("hub", this.#view),
      ...of("own cluster", this.#own),
      ...(this.#tables.get(importer) ?? [])
        .filter((it) => it.atMs >= range.fromMs && it.atMs <= range.untilMs)
        .map((it) => `${it.atMs - range.untilMs} ms proxy: ${it.endpoints}`),
    ];
  }

  /** Writes down what the proxy of an importer's first node has for the Service, when it is something else. */
  noteTable(importer: string, endpoints: readonly string[]): void {
    const known = this.#tables.get(importer) ?? [];
    const text = endpoints.toSorted().join(" ");
    if (known.at(-1)?.endpoints !== text) known.push({ atMs: systemClock.now(), endpoints: text });
    this.#tables.set(importer, known);
  }

  async #followMember(lab: TestLab, member: string, { namespace, name }: Named): Promise<void> {
    const imported = new Ledger("one service");
    this.#imported.set(member, imported);
    const client = await lab.client(member);
    const slices = createInformer(client, ENDPOINT_SLICES, { namespace }, systemDeps(silentLogger));
    const note = ({ key, before, after }: Change<EndpointSlice>): void => {
      const labels = (after ?? before)?.metadata.labels ?? {};
      const source = labels[MCS_SOURCE_CLUSTER_LABEL] ?? "";
      const isOwn = labels[SERVICE_NAME_LABEL] === name;
      // As they are in the cluster. For others, and for pods that ask, they have fleet addresses in a parallel network.
      const endpoints = after && (isOwn || source === member ? addresses.of(after) : after.endpoints);
      if (labels[MCS_SERVICE_NAME_LABEL] === name) imported.note(key, source, endpoints);
      else if (isOwn) this.#own.note(`${member} ${key}`, member, endpoints);
    };
    const addresses = await FleetAddresses.start(lab, member, () => {
      for (const it of slices.store.list()) note({ key: keyOf(it), before: it, after: it });
    });
    this.#addresses.set(member, addresses);
    slices.subscribe(note);
    this.#informers.push(slices);
  }

  async #followView(lab: TestLab, { namespace, name }: Named): Promise<void> {
    const isFlat = lab.topology.spec.topology === "flat";
    const options = { namespace: isFlat ? VIEW_NAMESPACE : viewNamespaceOf(PARALLEL_PROFILE) };
    const client = await lab.client("hub");
    const slices = createInformer(client, ENDPOINT_SLICE_IMPORTS, options, systemDeps(silentLogger));
    slices.subscribe(({ key, before, after }: Change<EndpointSliceImport>) => {
      const spec = (after ?? before)?.spec;
      const owner = spec?.ownerServiceReference;
      if (owner?.namespace !== namespace || owner.name !== name) return;
      this.#view.note(key, spec?.endpointSliceReference.clusterId ?? "", after?.spec.endpoints);
    });
    this.#informers.push(slices);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all(
      [...this.#informers, ...this.#addresses.values()].map((it) => it[Symbol.asyncDispose]()),
    );
  }
}
