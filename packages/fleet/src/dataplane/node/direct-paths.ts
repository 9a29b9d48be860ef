import { type KeyObject, randomBytes } from "node:crypto";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { headOf, type UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import { answerProbe, Prober } from "../control/probe.ts";
import type { ControlPorts } from "./control-ports.ts";
import { wireGuardPort } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { type NodeKeys, headId, type Pair } from "./devices.ts";
import { type DirectPath, isLivingPath, PROBE_MS } from "./path-choice.ts";
import { CandidateSearch } from "./candidate-search.ts";
import { ProbedPaths } from "./probed-paths.ts";

const LATE_MS = 1.5 * PROBE_MS;

export interface DirectPathsOptions {
  readonly ports: Pick<ControlPorts, "send">;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether the pair's tunnel carries traffic, by this path as far as is known: others are probed seldom. */
  readonly isUsed: (pair: Pair, endpoint: UdpEndpoint) => boolean;
  /** A path began or ceased to answer. */
  readonly onChange: () => void;
}

interface Probing {
  readonly pair: Pair;
  readonly own: {
    readonly from: number;
    readonly to: number;
    readonly epoch: number;
    readonly key: KeyObject;
  };
  readonly prober: Prober<{ readonly endpoint: UdpEndpoint; readonly atMs: number }>;
  readonly paths: ProbedPaths;
}

/** Probes the addresses at which remote gateways may be reached directly, from the UDP ports of the tunnels. */
export class DirectPaths implements AsyncDisposable {
  readonly #options: DirectPathsOptions;
  /** By what their keys depend on. */
  readonly #probings = new Map<string, Probing>();
  /** By cluster. */
  readonly #searches = new Map<string, CandidateSearch<Probing>>();
  #byPair: ReadonlyMap<string, Probing> = new Map();
  /** By port, epoch and index of the other gateway. */
  #byHead: ReadonlyMap<string, Probing> = new Map();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(options: DirectPathsOptions) {
    this.#options = options;
  }

  update(
    pairs: readonly Pair[],
    own: { readonly index: number; readonly ordinal: number; readonly keys: NodeKeys },
  ): void {
    const idOf = (pair: Pair): string =>
      [pair.id, own.index, pair.remote.index, pair.remoteKey, own.keys.get(pair.epoch)].join(" ");
    const wanted = new Map(pairs.map((pair) => [idOf(pair), pair]));
    for (const id of this.#probings.keys()) if (!wanted.has(id)) this.#probings.delete(id);
    for (const [id, pair] of wanted) {
      const probing = this.#probings.get(id) ?? this.#create(pair, own);
      if (probing === undefined) continue;
      probing.paths.candidates = candidatesOf(pair, own.ordinal);
      this.#probings.set(id, probing);
    }
    const all = [...this.#probings.values()];
    this.#byPair = new Map(all.map((it) => [it.pair.id, it]));
    this.#byHead = new Map(
      all.map((it) => [headId(it.pair.port, it.pair.epoch, it.pair.remote.index ?? 0), it]),
    );
    this.#updateSearches(all);
    if (all.length > 0) this.#running ??= this.#run();
  }

  /** What a member has used up counts when it comes back, too. */
  #updateSearches(all: readonly Probing[]): void {
    const nowMs = this.#options.clock.monotonic();
    const byCluster = Map.groupBy(all, (it) => it.pair.remote.cluster);
    for (const cluster of byCluster.keys())
      if (!this.#searches.has(cluster)) this.#searches.set(cluster, new CandidateSearch(nowMs));
    for (const [cluster, search] of this.#searches) {
      search.gateways = byCluster.get(cluster) ?? [];
      if (search.isOver(nowMs)) this.#searches.delete(cluster);
    }
  }

  /** The paths of a pair that answer, and those that failed of late. */
  of(pair: Pair): readonly DirectPath[] {
    return this.#byPair.get(pair.id)?.paths.list() ?? [];
  }

  /** Whether one of them has answered of late. */
  isAlive(pair: Pair): boolean {
    const now = this.#options.clock.monotonic();
    return this.of(pair).some((it) => isLivingPath(it, now));
  }

  receive(bytes: Uint8Array, port: number, source: UdpEndpoint): void {
    const head = headOf(bytes);
    if (head?.kind !== "probe" && head?.kind !== "probe-reply") return;
    const remote = head.kind === "probe" ? head.from : head.to;
    const probing = this.#byHead.get(headId(port, head.epoch, remote));
    if (probing !== undefined) this.#take(probing, head.kind, { bytes, source });
  }

  #take(
    probing: Probing,
    kind: "probe" | "probe-reply",
    { bytes, source }: { readonly bytes: Uint8Array; readonly source: UdpEndpoint },
  ): void {
    const { pair, own, prober, paths } = probing;
    if (kind === "probe") {
      const answer = answerProbe(bytes, own, source);
      if (answer !== undefined) this.#options.ports.send(pair.port, source, answer);
      return;
    }
    const tag = prober.receive(bytes)?.tag;
    if (tag === undefined) return;
    if (paths.answered(tag.endpoint, tag.atMs, this.#options.clock.monotonic())) this.#options.onChange();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #create(pair: Pair, own: { readonly index: number; readonly keys: NodeKeys }): Probing | undefined {
    const head = { from: own.index, to: pair.remote.index ?? 0, epoch: pair.epoch };
    try {
      const key = controlKey("probe", own.keys.get(pair.epoch) ?? "", pair.remoteKey);
      const prober: Probing["prober"] = new Prober({ ...head, key, nonce: () => randomBytes(16) });
      const before = this.#byPair.get(pair.id)?.paths;
      return { pair, own: { ...head, key }, prober, paths: new ProbedPaths(before) };
    } catch (error) {
      this.#options.log.warn("cannot probe a gateway", { gateway: pair.id, error: messageOf(error) });
      return undefined;
    }
  }

  async #run(): Promise<void> {
    const { clock, isUsed, onChange } = this.#options;
    const { signal } = this.#stop;
    let turnedAtMs = clock.monotonic();
    while (!signal.aborted) {
      const now = clock.monotonic();
      const elapsedMs = now - turnedAtMs;
      turnedAtMs = now;
      let isChanged = false;
      for (const probing of this.#probings.values()) {
        if (elapsedMs > LATE_MS) probing.paths.forgive(elapsedMs - PROBE_MS);
        if (probing.paths.judge(now)) isChanged = true;
        for (const endpoint of probing.paths.due(now, (it) => isUsed(probing.pair, it)))
          this.#probe(probing, endpoint, now);
      }
      for (const search of this.#searches.values())
        for (const { gateway, endpoint } of search.due(now)) this.#probe(gateway, endpoint, now);
      if (isChanged) onChange();
      await delay(clock, PROBE_MS, signal).catch(() => {});
    }
  }

  #probe({ pair, prober }: Probing, endpoint: UdpEndpoint, atMs: number): void {
    this.#options.ports.send(pair.port, endpoint, prober.request({ endpoint, atMs }));
  }
}

/** Where the remote gateway's device for this gateway's ordinal may be reached. */
function candidatesOf({ remote, epoch }: Pair, ordinal: number): readonly UdpEndpoint[] {
  const found = new Map<string, UdpEndpoint>();
  for (const { address, basePort = remote.basePort } of remote.candidates ?? []) {
    if (basePort === undefined) continue;
    const port = wireGuardPort(basePort, ordinal, epoch);
    found.set(`${address} ${port}`, { address, port });
  }
  return [...found.values()];
}
