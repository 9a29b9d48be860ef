import { randomBytes } from "node:crypto";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { headOf, type UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import { answerProbe, Prober } from "../control/probe.ts";
import type { ControlPorts } from "./control-ports.ts";
import { wireGuardPort } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { GatewayKeys, Pair } from "./devices.ts";
import {
  DEAD_MS,
  type DirectPath,
  HOLD_OFF_MS,
  isSameEndpoint,
  PROBE_MS,
  STABLE_ANSWERS,
} from "./path-choice.ts";

/** Probes of candidates that do not answer: often at first, because both sides have to open their NATs. Unit: milliseconds. */
const SEARCH_MS = { first: 500, longest: 10_000 };
const LATE_MS = 1.5 * PROBE_MS;
/** Share of a new round trip in the smoothed one (RFC 6298). */
const RTT_SHARE = 1 / 8;

export interface DirectPathsOptions {
  readonly ports: Pick<ControlPorts, "send">;
  readonly clock: Clock;
  readonly log: Logger;
  /** A path began or ceased to answer. */
  readonly onChange: () => void;
}

interface Probing {
  readonly pair: Pair;
  readonly own: {
    readonly from: number;
    readonly to: number;
    readonly epoch: number;
    readonly key: Uint8Array;
  };
  readonly prober: Prober<{ readonly endpoint: UdpEndpoint; readonly atMs: number }>;
  readonly stop: AbortController;
  candidates: readonly UdpEndpoint[];
  readonly paths: Map<string, DirectPath>;
}

/** Probes the addresses at which remote gateways may be reached directly, from the UDP ports of the tunnels. */
export class DirectPaths implements AsyncDisposable {
  readonly #options: DirectPathsOptions;
  readonly #probings = new Map<string, Probing>();
  readonly #runs = new Set<Promise<void>>();

  constructor(options: DirectPathsOptions) {
    this.#options = options;
  }

  update(
    pairs: readonly Pair[],
    own: { readonly index: number; readonly ordinal: number; readonly keys: GatewayKeys },
  ): void {
    const idOf = (pair: Pair): string =>
      [pair.id, own.index, pair.remote.index, pair.remoteKey, own.keys.get(pair.epoch)].join(" ");
    const wanted = new Map(pairs.map((pair) => [idOf(pair), pair]));
    for (const [id, { stop }] of this.#probings)
      if (!wanted.has(id)) {
        stop.abort();
        this.#probings.delete(id);
      }
    for (const [id, pair] of wanted) {
      const candidates = candidatesOf(pair, own.ordinal);
      const known = this.#probings.get(id);
      if (known !== undefined) known.candidates = candidates;
      else this.#begin(id, pair, { ...own, candidates });
    }
  }

  /** The living paths of a pair. */
  of(pair: Pair): readonly DirectPath[] {
    const found = [...this.#probings.values()].find((it) => it.pair.id === pair.id);
    return [...(found?.paths.values() ?? [])];
  }

  /** Whether one of them has answered of late. */
  isAlive(pair: Pair): boolean {
    const now = this.#options.clock.monotonic();
    return this.of(pair).some((it) => now - it.answeredAtMs < DEAD_MS);
  }

  receive(bytes: Uint8Array, port: number, source: UdpEndpoint): void {
    const head = headOf(bytes);
    if (head?.kind !== "probe" && head?.kind !== "probe-reply") return;
    const remote = head.kind === "probe" ? head.from : head.to;
    for (const probing of this.#probings.values()) {
      const { pair } = probing;
      if (pair.port === port && pair.epoch === head.epoch && pair.remote.index === remote)
        this.#take(probing, head.kind, { bytes, source });
    }
  }

  #take(
    probing: Probing,
    kind: "probe" | "probe-reply",
    { bytes, source }: { readonly bytes: Uint8Array; readonly source: UdpEndpoint },
  ): void {
    const { pair, own, prober } = probing;
    if (kind === "probe") {
      const answer = answerProbe(bytes, own, source);
      if (answer !== undefined) this.#options.ports.send(pair.port, source, answer);
    } else {
      const answer = prober.receive(bytes);
      if (answer !== undefined) this.#onAnswer(probing, answer.tag);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { stop } of this.#probings.values()) stop.abort();
    this.#probings.clear();
    await Promise.all(this.#runs);
  }

  #begin(
    id: string,
    pair: Pair,
    own: { readonly index: number; readonly keys: GatewayKeys; readonly candidates: readonly UdpEndpoint[] },
  ): void {
    const head = { from: own.index, to: pair.remote.index ?? 0, epoch: pair.epoch };
    let key: Uint8Array;
    try {
      key = controlKey("probe", own.keys.get(pair.epoch) ?? "", pair.remoteKey);
    } catch (error) {
      this.#options.log.warn("cannot probe a gateway", { gateway: pair.id, error: messageOf(error) });
      return;
    }
    const probing: Probing = {
      pair,
      own: { ...head, key },
      prober: new Prober({ ...head, key, nonce: () => randomBytes(16) }),
      stop: new AbortController(),
      candidates: own.candidates,
      paths: new Map(),
    };
    this.#probings.set(id, probing);
    const run = this.#run(probing).finally(() => this.#runs.delete(run));
    this.#runs.add(run);
  }

  #onAnswer(
    { paths }: Probing,
    { endpoint, atMs }: { readonly endpoint: UdpEndpoint; readonly atMs: number },
  ): void {
    const now = this.#options.clock.monotonic();
    const id = `${endpoint.address} ${endpoint.port}`;
    const before = paths.get(id);
    const isAlive = before !== undefined && now - before.answeredAtMs < DEAD_MS;
    const rttMs = now - atMs;
    const answers = isAlive ? before.answers + 1 : 1;
    paths.set(id, {
      ...before,
      endpoint,
      answeredAtMs: now,
      answers,
      rttMs: isAlive ? before.rttMs + (rttMs - before.rttMs) * RTT_SHARE : rttMs,
    });
    // The counts at which the choice may change.
    if (answers <= STABLE_ANSWERS) this.#options.onChange();
  }

  async #run(probing: Probing): Promise<void> {
    const { clock } = this.#options;
    const { signal } = probing.stop;
    let searchMs = SEARCH_MS.first;
    let searchedAtMs = Number.NEGATIVE_INFINITY;
    let turnedAtMs = clock.monotonic();
    while (!signal.aborted) {
      const now = clock.monotonic();
      forgiveDelay(probing, now - turnedAtMs);
      turnedAtMs = now;
      this.#endDeadPaths(probing, now);
      const isSearchDue = now - searchedAtMs >= searchMs;
      if (isSearchDue) {
        searchedAtMs = now;
        searchMs = Math.min(2 * searchMs, SEARCH_MS.longest);
      }
      // A path that answers is kept, whatever candidates the other gateway names.
      const living = [...probing.paths.values()].filter((it) => it.answers > 0).map((it) => it.endpoint);
      const others = isSearchDue ? probing.candidates.filter((it) => !isLiving(probing, it)) : [];
      const due = [...living, ...others];
      for (const endpoint of due) this.#probe(probing, endpoint, now);
      await delay(clock, PROBE_MS, signal).catch(() => {});
    }
  }

  #probe({ pair, prober }: Probing, endpoint: UdpEndpoint, atMs: number): void {
    this.#options.ports.send(pair.port, endpoint, prober.request({ endpoint, atMs }));
  }

  #endDeadPaths({ paths }: Probing, now: number): void {
    for (const [id, path] of paths)
      if (path.answers > 0 && now - path.answeredAtMs >= DEAD_MS) {
        if (path.answers >= STABLE_ANSWERS) paths.set(id, { ...path, answers: 0, failedAtMs: now });
        else paths.delete(id);
        this.#options.onChange();
      } else if (path.failedAtMs !== undefined && now - path.failedAtMs >= HOLD_OFF_MS) {
        const { failedAtMs: _, ...rest } = path;
        if (path.answers > 0) paths.set(id, rest);
        else paths.delete(id);
        this.#options.onChange();
      }
  }
}

/** The answers of a turn that begins late are still in the socket: its delay does not make paths dead. */
function forgiveDelay({ paths }: Probing, elapsedMs: number): void {
  if (elapsedMs <= LATE_MS) return;
  for (const [id, path] of paths)
    paths.set(id, { ...path, answeredAtMs: path.answeredAtMs + elapsedMs - PROBE_MS });
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

function isLiving({ paths }: Probing, endpoint: UdpEndpoint): boolean {
  return [...paths.values()].some((it) => it.answers > 0 && isSameEndpoint(it.endpoint, endpoint));
}
