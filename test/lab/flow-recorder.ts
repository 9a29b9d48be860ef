/** Writes down what each cluster of a lab knows of the endpoints of one service, and since when. */

import {
  type Endpoint,
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "#api/discovery/v1/types.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import type { KubeObject } from "#api/meta/types.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { systemClock } from "#base/clock.ts";
import { silentLogger } from "#base/log.ts";
import { systemDeps } from "#kube/deps.ts";
import { createInformer } from "#kube/informer.ts";
import type { Change, Informer, KubeClient } from "#kube/types.ts";
import type { EndpointChange } from "./flow-judge.ts";
import type { TestLab } from "./lab-fixture.ts";

interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** The endpoints that objects of one kind name, as they come and go. */
class Ledger {
  readonly changes: EndpointChange[] = [];
  /** Addresses, by the object that names them: one that another takes over does not go. */
  readonly #named = new Map<string, { readonly cluster: string; readonly addresses: ReadonlySet<string> }>();

  note(object: string, cluster: string, addresses: readonly string[]): void {
    const before = this.#all();
    if (addresses.length === 0) this.#named.delete(object);
    else this.#named.set(object, { cluster, addresses: new Set(addresses) });
    const after = this.#all();
    const atMs = systemClock.now();
    for (const [address, of] of before)
      if (!after.has(address)) this.changes.push({ atMs, address, cluster: of, isThere: false });
    for (const [address, of] of after)
      if (!before.has(address)) this.changes.push({ atMs, address, cluster: of, isThere: true });
  }

  #all(): ReadonlyMap<string, string> {
    const all = [...this.#named.values()];
    return new Map(
      all.flatMap(({ cluster, addresses }) => [...addresses].map((it) => [it, cluster] as const)),
    );
  }
}

const readyOf = (endpoints: readonly Endpoint[] = []): string[] =>
  endpoints.filter((it) => it.conditions?.ready !== false).flatMap((it) => it.addresses);

export class FlowRecorder implements AsyncDisposable {
  readonly #imported = new Map<string, Ledger>();
  readonly #own = new Ledger();
  readonly #view = new Ledger();
  readonly #informers: Informer<KubeObject>[] = [];
  readonly #stop = new AbortController();

  /** Its watches come back by themselves after their API server was away: what it missed is then late, never wrong. */
  static async start(lab: TestLab, members: readonly string[], service: Named): Promise<FlowRecorder> {
    const recorder = new FlowRecorder();
    for (const member of members) recorder.#followMember(await lab.client(member), member, service);
    recorder.#followView(await lab.client("hub"), service);
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

  #followMember(client: KubeClient, member: string, { namespace, name }: Named): void {
    const imported = new Ledger();
    this.#imported.set(member, imported);
    const slices = createInformer(client, ENDPOINT_SLICES, { namespace }, systemDeps(silentLogger));
    slices.subscribe(({ key, before, after }: Change<EndpointSlice>) => {
      const labels = (after ?? before)?.metadata.labels ?? {};
      const addresses = readyOf(after?.endpoints);
      if (labels[MCS_SERVICE_NAME_LABEL] === name)
        imported.note(key, labels[MCS_SOURCE_CLUSTER_LABEL] ?? "", addresses);
      else if (labels[SERVICE_NAME_LABEL] === name) this.#own.note(`${member} ${key}`, member, addresses);
    });
    this.#informers.push(slices);
  }

  #followView(client: KubeClient, { namespace, name }: Named): void {
    const options = { namespace: VIEW_NAMESPACE };
    const slices = createInformer(client, ENDPOINT_SLICE_IMPORTS, options, systemDeps(silentLogger));
    slices.subscribe(({ key, before, after }: Change<EndpointSliceImport>) => {
      const spec = (after ?? before)?.spec;
      const owner = spec?.ownerServiceReference;
      if (owner?.namespace !== namespace || owner.name !== name) return;
      this.#view.note(key, spec?.endpointSliceReference.clusterId ?? "", readyOf(after?.spec.endpoints));
    });
    this.#informers.push(slices);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#informers.map((it) => it[Symbol.asyncDispose]()));
  }
}
