import { LEASES, type Lease } from "#api/coordination/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { isOlderVersion } from "#api/meta/version.ts";
import { abortError, delay } from "@fairlead/base/clock.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { Metrics } from "@fairlead/base/metrics.ts";
import { microTimestamp } from "#objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { CallOptions, KubeClient } from "#types.ts";

export interface LeaderElectionOptions {
  /** Where the Lease is. Default: where the others are. */
  readonly client?: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Unique among the candidates: host name and a random part. */
  readonly identity: string;
  /** Written on the Lease with each renewal. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** How long others wait before they take over from a silent leader. Unit: seconds. Default: 15. */
  readonly leaseSeconds?: number;
  /** How long the leader tries to renew before it gives up. Unit: seconds. Default: 10. */
  readonly renewSeconds?: number;
  /** Gap between tries. Unit: seconds. Default: 2. */
  readonly retrySeconds?: number;
  /**
   * Returns true if a holder excludes the same candidates as this one would: while such a holder renews the Lease, this
   * candidate leads without holding it. Default: never.
   */
  readonly isEquivalentHolder?: (holder: string) => boolean;
}

/** Annotation of a Lease: while it is there, no candidate leads. A leader stops, and then releases the Lease. Its value says why. */
export const PAUSED_ANNOTATION = "fairlead.dev/paused";

/** Source of the numbers and rules: client-go, tools/leaderelection. */
const DEFAULTS = {
  leaseSeconds: 15,
  renewSeconds: 10,
  retrySeconds: 2,
  annotations: {},
  isEquivalentHolder: () => false,
};

/** A program that stops does not wait longer than this for a server that does not answer. Unit: milliseconds. */
const RELEASE_LIMIT_MS = 5000;

/**
 * Waits until this candidate holds the Lease, runs `lead`, and renews the Lease while it runs. When the Lease is lost, the
 * signal passed to `lead` aborts and the call throws: the caller must stop leading. When `signal` aborts, the Lease is
 * released, so that the next candidate need not wait.
 *
 * Clocks of candidates are never compared: each counts from when it itself saw the Lease change.
 *
 * @throws {FleetError} `API_CONFLICT` when the Lease was lost; `ABORTED` when `signal` aborted before it was held.
 */
export function runAsLeader(
  parts: { readonly client: KubeClient; readonly options: LeaderElectionOptions; readonly deps: RuntimeDeps },
  signal: AbortSignal,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  return runAsLeaderOfAll({ ...parts, options: [parts.options] }, signal, lead);
}

/**
 * The same with several Leases, which are taken one after the other, so that two candidates never wait for each other.
 * All are looked at from the beginning: a leader of all that fell silent is followed after the time of one.
 */
export function runAsLeaderOfAll(
  parts: {
    readonly client: KubeClient;
    readonly options: readonly LeaderElectionOptions[];
    readonly deps: RuntimeDeps;
  },
  signal: AbortSignal,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const candidates = parts.options.map(
    (options) => new Candidate(options.client ?? parts.client, { ...DEFAULTS, ...options }, parts.deps),
  );
  return holdAll(candidates, parts.deps.metrics, signal, lead);
}

async function holdAll(
  [candidate, ...others]: readonly Candidate[],
  metrics: Metrics,
  signal: AbortSignal,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  if (candidate === undefined) return lead(signal);
  using status = masterStatus(metrics, candidate.name);
  await candidate.acquire(signal, others);
  status.lead();
  const lost = new AbortController();
  const ended = new AbortController();
  const renewing = candidate.keep(AbortSignal.any([signal, ended.signal])).then(
    () => undefined,
    (error: unknown) => {
      lost.abort(error);
      return error;
    },
  );
  try {
    await holdAll(others, metrics, AbortSignal.any([signal, lost.signal]), lead);
  } finally {
    ended.abort();
    await renewing;
    if (!lost.signal.aborted || candidate.isPaused) await candidate.release();
  }
  if (lost.signal.aborted) throw lost.signal.reason;
}

/** client-go's, by the name of the Lease. */
function masterStatus(metrics: Metrics, name: string): Disposable & { lead(): void } {
  const status = metrics.gauge({
    name: "leader_election_master_status",
    help: "1 if this process is the leader, 0 if it is on standby.",
    labels: ["name"],
  });
  status.set({ name }, 0);
  return { lead: () => status.set({ name }, 1), [Symbol.dispose]: () => status.set({ name }, 0) };
}

class Candidate {
  readonly #client: KubeClient;
  readonly #options: Required<Omit<LeaderElectionOptions, "client">>;
  readonly #deps: RuntimeDeps;
  /** The Lease as last seen, and when that was by our own monotonic clock. */
  #seen: Lease | undefined;
  #seenAtMs = 0;
  /** Whether a write that takes the Lease has no answer yet. */
  #isTaking = false;
  /** Whether the Lease is one from before what was seen of it: the server was restored from a backup. */
  #wasRestored = false;

  constructor(
    client: KubeClient,
    options: Required<Omit<LeaderElectionOptions, "client">>,
    deps: RuntimeDeps,
  ) {
    this.#client = client;
    this.#options = options;
    this.#deps = { ...deps, log: deps.log.child({ lease: `${options.namespace}/${options.name}` }) };
  }

  get name(): string {
    return this.#options.name;
  }

  get isPaused(): boolean {
    return this.#seen !== undefined && isPaused(this.#seen);
  }

  /** @param others - Candidates for the next Leases: how long their holders have been silent is counted in the meantime. */
  async acquire(signal: AbortSignal, others: readonly Candidate[]): Promise<void> {
    this.#deps.log.info("waiting for leadership", { identity: this.#options.identity });
    try {
      let told = "";
      while (!(await this.#tryOnce(signal))) {
        const paused = this.#seen?.metadata.annotations?.[PAUSED_ANNOTATION] ?? "";
        if (paused !== told) this.#deps.log.info("paused", { lease: this.name, why: paused });
        told = paused;
        // One that cannot be looked at now is looked at in the next round.
        await Promise.all(others.map((it) => it.#look(signal).catch(() => {})));
        await this.#pause(signal);
      }
    } catch (error) {
      if (this.#isTaking) await this.release();
      throw error;
    }
    this.#deps.log.info("leading", { identity: this.#options.identity });
  }

  /**
   * Renews until `signal` aborts. Throws when it could not for `renewSeconds`, when someone else holds the Lease or it is paused, and
   * when the server was restored from a backup: what the leader knows of it may not be there any more.
   */
  async keep(signal: AbortSignal): Promise<void> {
    let renewedAtMs = this.#deps.clock.monotonic();
    for (;;) {
      try {
        await this.#pause(signal);
      } catch {
        return;
      }
      // The deadline holds for the request too: a hanging one must not keep us leading.
      const leftMs = renewedAtMs + this.#options.renewSeconds * 1000 - this.#deps.clock.monotonic();
      const isRenewed = leftMs > 0 && (await this.#within(leftMs, signal));
      if (signal.aborted) return;
      if (isRenewed) renewedAtMs = this.#deps.clock.monotonic();
      else if (this.#deps.clock.monotonic() - renewedAtMs >= this.#options.renewSeconds * 1000)
        throw this.#lost();
      if (this.isPaused) throw this.#lost();
      // A Lease that was deleted is taken again; one that someone else holds is not.
      if (this.#seen !== undefined && !this.#isOurs() && !this.#isHeldByEquivalent(this.#seen))
        throw this.#lost();
      if (this.#wasRestored) throw this.#lost("the API server was restored from a backup: beginning again");
    }
  }

  /**
   * Releases the Lease: an empty holder, and a duration of a second as client-go writes it. A write that was under way when its signal
   * aborted may have arrived: the Lease is then read and released as it is.
   */
  async release(): Promise<void> {
    const limit = new AbortController();
    using _timer = this.#deps.clock.after(RELEASE_LIMIT_MS, () => limit.abort());
    try {
      if (this.#isTaking) await this.#look(limit.signal);
      while (this.#isOurs() && this.#seen !== undefined) {
        if (await this.#tryRelease(this.#seen, limit.signal)) return;
        await this.#look(limit.signal);
      }
    } catch (error) {
      this.#deps.log.warn("cannot release the lease", { error: messageOf(error) });
    }
  }

  /** Returns false if the Lease has changed. */
  async #tryRelease(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const now = microTimestamp(this.#deps.clock.now());
    const spec = {
      ...lease.spec,
      holderIdentity: "",
      leaseDurationSeconds: 1,
      renewTime: now,
      acquireTime: now,
    };
    try {
      await this.#client.update(LEASES, { ...lease, spec }, { signal });
    } catch (error) {
      if (hasCode(error, "API_CONFLICT")) return false;
      throw error;
    }
    this.#deps.log.info("no longer leading");
    return true;
  }

  /** Without an answer in half of the time, the connection may be dead: tries again on a new one. */
  async #within(limitMs: number, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#deps;
    const over = new AbortController();
    using _timer = clock.after(limitMs, () =>
      over.abort(new FleetError("TIMED_OUT", `no answer for ${Math.round(limitMs)} ms`)),
    );
    const within = AbortSignal.any([signal, over.signal]);
    try {
      const first = this.#tryOnce(within, limitMs / 2);
      const late = delay(clock, limitMs / 2, within).then(
        () => true,
        () => false,
      );
      const isLate = await Promise.race([first.then(() => false), late]);
      if (!isLate) return await first;
      const both = [first, this.#tryOnce(within)];
      return await Promise.any(
        both.map(async (it) => (await it) || Promise.reject(new Error("not renewed"))),
      );
    } catch {
      return false;
    } finally {
      over.abort();
    }
  }

  /** One attempt to take or renew the Lease. False when someone else holds it or the server did not take ours. */
  async #tryOnce(signal: AbortSignal, silentAfterMs?: number): Promise<boolean> {
    try {
      // The holder knows the Lease: it writes without reading first, and reads only when that fails.
      if (this.#isOurs() && this.#seen !== undefined) {
        const silence = silentAfterMs === undefined ? {} : { silentAfterMs };
        return await this.#write(this.#seen, { signal, ...silence });
      }
      return await this.#readAndTake(signal);
    } catch (error) {
      if (hasCode(error, "API_CONFLICT", "API_ALREADY_EXISTS", "API_NOT_FOUND"))
        await this.#look(signal).catch(() => {});
      else if (!signal.aborted) this.#deps.log.warn("cannot renew the lease", { error: messageOf(error) });
      return false;
    }
  }

  async #readAndTake(signal: AbortSignal): Promise<boolean> {
    const lease = await this.#look(signal);
    if (lease === undefined) {
      const { namespace, name, annotations } = this.#options;
      const fresh: Lease = { metadata: { namespace, name, annotations }, spec: this.#spec(undefined) };
      this.#isTaking = true;
      this.#note(await this.#client.create(LEASES, fresh, { signal }));
      return true;
    }
    const holder = lease.spec?.holderIdentity ?? "";
    const silentMs = this.#deps.clock.monotonic() - this.#seenAtMs;
    const limitMs = (lease.spec?.leaseDurationSeconds ?? this.#options.leaseSeconds) * 1000;
    if (isPaused(lease)) return false;
    const isFree = holder === "" || holder === this.#options.identity || silentMs > limitMs;
    return isFree ? this.#write(lease, { signal }) : this.#isHeldByEquivalent(lease);
  }

  async #look(signal: AbortSignal): Promise<Lease | undefined> {
    const lease = await this.#client.find(LEASES, objectKey(this.#options.namespace, this.#options.name), {
      signal,
    });
    this.#wasRestored ||= isOlderVersion(
      lease?.metadata.resourceVersion,
      this.#seen?.metadata.resourceVersion,
    );
    if (lease === undefined) this.#seen = undefined;
    // Only a change counts as a sign of life: the record, not the object around it.
    else if (JSON.stringify(lease.spec) !== JSON.stringify(this.#seen?.spec)) this.#note(lease);
    else this.#seen = lease;
    return lease;
  }

  async #write(lease: Lease, options: CallOptions): Promise<boolean> {
    const annotations = { ...lease.metadata.annotations, ...this.#options.annotations };
    const metadata = { ...lease.metadata, annotations };
    this.#isTaking = true;
    this.#note(await this.#client.update(LEASES, { ...lease, metadata, spec: this.#spec(lease) }, options));
    return true;
  }

  #spec(before: Lease | undefined): NonNullable<Lease["spec"]> {
    const now = microTimestamp(this.#deps.clock.now());
    const isSameHolder = before?.spec?.holderIdentity === this.#options.identity;
    const transitions = before?.spec?.leaseTransitions ?? 0;
    return {
      holderIdentity: this.#options.identity,
      leaseDurationSeconds: this.#options.leaseSeconds,
      acquireTime: isSameHolder ? (before.spec?.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: before === undefined || isSameHolder ? transitions : transitions + 1,
    };
  }

  #note(lease: Lease): void {
    this.#isTaking = false;
    this.#seen = lease;
    this.#seenAtMs = this.#deps.clock.monotonic();
  }

  #isOurs(): boolean {
    return this.#seen?.spec?.holderIdentity === this.#options.identity;
  }

  #isHeldByEquivalent(lease: Lease): boolean {
    return this.#options.isEquivalentHolder(lease.spec?.holderIdentity ?? "");
  }

  #lost(why?: string): FleetError {
    const { namespace, name } = this.#options;
    const paused = this.isPaused
      ? `the lease ${namespace}/${name} is paused: ${this.#seen?.metadata.annotations?.[PAUSED_ANNOTATION]}`
      : undefined;
    const message = why ?? paused ?? `the lease ${namespace}/${name} was lost`;
    return new FleetError("API_CONFLICT", message, { retriable: true });
  }

  /** client-go's jitter of 1.2. */
  #pause(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(abortError(signal));
    const waitMs = this.#options.retrySeconds * 1000 * (1 + 1.2 * this.#deps.rng.random());
    return delay(this.#deps.clock, waitMs, signal);
  }
}

function isPaused({ metadata }: Lease): boolean {
  return metadata.annotations?.[PAUSED_ANNOTATION] !== undefined;
}
