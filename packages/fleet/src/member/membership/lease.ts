import { MEMBER_NAME_LABEL } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isOlderVersion } from "@fairlead/kube/api/meta/version.ts";
import {
  CUT_OFF_ANNOTATION,
  LOST_CLUSTERS_ANNOTATION,
  PROPAGATION_ANNOTATION,
  REFUSED_ANNOTATION,
  VERSION_ANNOTATION,
} from "#api/fairlead.dev/names.ts";
import { formatLost } from "#domain/lost-clusters.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { microTimestamp } from "@fairlead/kube/objects/conditions.ts";
import type { CallOptions } from "@fairlead/kube/types.ts";
import type { Probes } from "../probes/probes.ts";
import type { Stopwatch } from "../stopwatch.ts";
import { type HubSession, isLegacyHub } from "../session.ts";

/** Renewals that begin within a lease: two may be lost. */
const RENEWALS = 3;
/** How long a renewal may take: a slow hub is not an absent hub. Unit: paces; a lease has as many paces as renewals. */
const PATIENCE = 2;
/** Between two looks where nothing is renewed. Unit: seconds. */
const IDLE_SECONDS = 60;

/** How long changes of others take to arrive here goes with the renewals, and how other clusters answer. */
export type LeaseSession = HubSession & {
  readonly stopwatch: Pick<Stopwatch, "propagation">;
  readonly probes: Pick<Probes, "cutOff" | "lost" | "refused">;
};

export interface HubListener {
  /** Whether the hub has been silent from before the first renewal. */
  readonly wasSilent?: boolean;
  /** With the first renewal after one that failed. */
  readonly onBack: () => void;
  /** No renewal was taken for the length of a lease: the hub takes this member for lost, or is lost itself. */
  readonly onSilent: () => void;
  /** With the first renewal after that. */
  readonly onAnswer: (leaseMs: number) => void;
  /**
   * The version of a renewal is from before that of an earlier one: the hub was restored from a backup, and has lost what came after that.
   * Not noticed where the hub has taken more writes since its return than it lost.
   */
  readonly onRestored: () => void;
}

/**
 * Renews the member's Lease in its mailbox until `signal` aborts. At a fixed pace, however long a renewal took, and not
 * with back-off: a hub that comes back has to receive a renewal within one lease period.
 *
 * A legacy hub has no lease and gives no permission for one: there, only a successful request shows that it is back.
 *
 * @param listener - Notified when the hub becomes silent or is back.
 */
export async function keepLease(
  session: LeaseSession,
  listener: HubListener,
  signal: AbortSignal,
): Promise<void> {
  const { hub, deps } = session;
  let isAway = false;
  using silence = new Silence(deps.clock, listener);
  using _reachable = hub.onReachable(() => {
    if (isLegacyHub(session)) listener.onBack();
  });
  while (!signal.aborted) {
    const leaseSeconds = leaseOf(session);
    const paceMs = ((leaseSeconds ?? IDLE_SECONDS) * 1000) / RENEWALS;
    const nextMs = deps.clock.monotonic() + paceMs;
    try {
      silence.expect(leaseSeconds);
      if (leaseSeconds !== undefined) {
        silence.end(leaseSeconds, await renew(session, leaseSeconds, paceMs, signal));
      }
      if (isAway) {
        deps.log.info("the hub is back");
        listener.onBack();
      }
      isAway = false;
    } catch (error) {
      if (signal.aborted) return;
      if (!isAway) deps.log.warn("cannot renew the lease", { error: messageOf(error) });
      isAway = true;
    }
    try {
      // A renewal may take more than a pace: then the next is due.
      await pause(session, Math.max(0, nextMs - deps.clock.monotonic()), signal);
    } catch (error) {
      if (!hasCode(error, "ABORTED")) throw error;
    }
  }
}

/** Notices that no renewal was taken for the length of a lease, and that those that were are lost. */
class Silence implements Disposable {
  readonly #clock: Clock;
  readonly #listener: HubListener;
  #timer: Disposable | undefined;
  #isNoticed: boolean;
  /** The version of the last renewal. */
  #taken: string | undefined;

  constructor(clock: Clock, listener: HubListener) {
    this.#clock = clock;
    this.#listener = listener;
    this.#isNoticed = listener.wasSilent === true;
  }

  /** A renewal begins: from the first one on the hub has the length of a lease. */
  expect(leaseSeconds: number | undefined): void {
    if (leaseSeconds === undefined) this[Symbol.dispose]();
    else if (this.#timer === undefined) this.#arm(leaseSeconds);
  }

  end(leaseSeconds: number, version: string | undefined): void {
    this.#arm(leaseSeconds);
    if (this.#isNoticed) this.#listener.onAnswer(leaseSeconds * 1000);
    this.#isNoticed = false;
    if (isOlderVersion(version, this.#taken)) this.#listener.onRestored();
    this.#taken = version;
  }

  #arm(leaseSeconds: number): void {
    this[Symbol.dispose]();
    this.#timer = this.#clock.after(leaseSeconds * 1000, () => {
      this.#isNoticed = true;
      this.#listener.onSilent();
    });
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}

/** How long the lease lives that the hub wants of this member now; undefined: it wants none. Unit: seconds. */
function leaseOf({ mailbox, cluster }: HubSession): number | undefined {
  const internalMember = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
  return internalMember?.spec.state === "Join" ? internalMember.spec.leaseDurationSeconds : undefined;
}

/**
 * Until the next renewal, until the InternalMemberCluster changes (the first one must not wait for a whole pause), or until the hub is
 * reached again.
 */
async function pause(
  { hub, mailbox, deps }: HubSession,
  pauseMs: number,
  signal: AbortSignal,
): Promise<void> {
  const changed = new AbortController();
  using _reachable = hub.onReachable(() => changed.abort());
  using _watch = mailbox.internalMembers.subscribe(({ before, after }) => {
    if (
      before?.spec.leaseDurationSeconds !== after?.spec.leaseDurationSeconds ||
      before?.spec.state !== after?.spec.state
    )
      changed.abort();
  });
  await delay(deps.clock, pauseMs, AbortSignal.any([signal, changed.signal]));
}

/**
 * If no answer came within a pace, the hub may be slow or the connection dead: the request is sent again on a new
 * connection, and the first answer counts.
 *
 * @returns The version of the Lease.
 */
async function renew(
  session: LeaseSession,
  leaseSeconds: number,
  paceMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { clock } = session.deps;
  const over = new AbortController();
  const limitMs = PATIENCE * paceMs;
  using _timer = clock.after(limitMs, () =>
    over.abort(new FleetError("TIMED_OUT", `no answer for ${Math.round(limitMs)} ms`)),
  );
  const options = { signal: AbortSignal.any([signal, over.signal]), silentAfterMs: paceMs };
  const once = (): Promise<string | undefined> => writeLease(session, leaseSeconds, options);
  try {
    const first = once();
    const late = delay(clock, paceMs, options.signal).then(() => true);
    const isLate = await Promise.race([first.then(() => false), late]);
    return await (isLate ? Promise.any([first, once()]) : first);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  } finally {
    over.abort();
  }
}

async function writeLease(
  { hub, cluster, deps, stopwatch, probes }: LeaseSession,
  leaseSeconds: number,
  options: CallOptions,
): Promise<string | undefined> {
  const namespace = mailboxOf(cluster);
  const spec = {
    holderIdentity: cluster,
    leaseDurationSeconds: leaseSeconds,
    renewTime: microTimestamp(deps.clock.now()),
  };
  // Write the label each time: the hub ignores a Lease without it.
  const labels = { [MEMBER_NAME_LABEL]: cluster };
  const version = { [VERSION_ANNOTATION]: VERSION };
  const reports = {
    [PROPAGATION_ANNOTATION]: stopwatch.propagation() ?? null,
    [CUT_OFF_ANNOTATION]: probes.cutOff.join() || null,
    [LOST_CLUSTERS_ANNOTATION]: formatLost(probes.lost) ?? null,
    [REFUSED_ANNOTATION]: probes.refused.join() || null,
  };
  try {
    const metadata = { labels, annotations: { ...version, ...reports } };
    const taken = await hub.mergePatch(LEASES, objectKey(namespace, cluster), { metadata, spec }, options);
    return taken.metadata.resourceVersion;
  } catch (error) {
    if (!hasCode(error, "API_NOT_FOUND")) throw error;
    const metadata = { namespace, name: cluster, labels, annotations: version };
    return (await hub.create(LEASES, { metadata, spec }, options)).metadata.resourceVersion;
  }
}
