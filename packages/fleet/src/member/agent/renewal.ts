import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { GaugeMetric, Metrics } from "@fairlead/base/metrics.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { AccessHolder } from "./holder.ts";
import type { Life } from "#api/fairlead.dev/hub-secret.ts";

export interface RenewalParts {
  readonly hub: KubeClient;
  readonly local: KubeClient;
  readonly holder: AccessHolder;
  readonly deps: RuntimeDeps;
}

export interface Renewal {
  /** For the log: "token", "certificate". */
  readonly what: string;
  /** How much of a life passes before it is renewed, 0 to 1: the rest is time for a hub that is away. */
  share(): number;
  /** Life of what the holder has now; undefined for what does not end. */
  life(): Life | undefined;
  /** Gets a new one, into the holder and the Secret. */
  renew(signal: AbortSignal): Promise<void>;
}

const RETRY_MS = { min: 1000, max: 60_000 };
/** Timers hold at most 2^31 - 1 ms; waking up early does no harm. */
const LONGEST_WAIT_MS = 3_600_000;

/** When the member's credentials expire. Without a value if they do not expire, or if this program does not renew them. */
export function credentialExpiry(metrics: Metrics): GaugeMetric {
  return metrics.gauge({
    name: "fairlead_hub_credential_expiry_timestamp_seconds",
    help: "When the certificate or token for the hub expires, unless it is renewed before.",
  });
}

/** Renews for as long as `signal` does not abort. */
export async function keepRenewed(
  renewal: Renewal,
  deps: Pick<RuntimeDeps, "clock" | "log" | "metrics">,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = deps;
  let retryMs = RETRY_MS.min;
  let renewedAtMs = -Infinity;
  for (;;) {
    const life = renewal.life();
    if (life === undefined || signal.aborted) return;
    credentialExpiry(deps.metrics).set({}, life.untilMs / 1000);
    const waitMs = (life.untilMs - life.fromMs) * renewal.share();
    await waitUntil(clock, life.fromMs + waitMs, signal).catch(ignoreAbort);
    // By a clock that is far off everything new is old already: what is new lives for a while all the same.
    const restMs = renewedAtMs + waitMs / 2 - clock.monotonic();
    if (restMs > 0) await delay(clock, Math.min(restMs, LONGEST_WAIT_MS), signal).catch(ignoreAbort);
    if (signal.aborted) return;
    // Another process may have renewed it: the watch of the Secret updates the holder.
    if (restMs > LONGEST_WAIT_MS || renewal.life()?.untilMs !== life.untilMs) continue;
    try {
      await renewal.renew(signal);
      renewedAtMs = clock.monotonic();
      log.info(`renewed the ${renewal.what} for the hub`);
      retryMs = RETRY_MS.min;
    } catch (error) {
      if (signal.aborted) return;
      log.warn(`cannot renew the ${renewal.what} for the hub, retrying`, { error: messageOf(error) });
      await delay(clock, retryMs, signal).catch(ignoreAbort);
      retryMs = Math.min(RETRY_MS.max, retryMs * 2);
    }
  }
}

function ignoreAbort(error: unknown): void {
  if (!hasCode(error, "ABORTED")) throw error;
}

async function waitUntil(clock: Clock, atMs: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const leftMs = atMs - clock.now();
    if (leftMs <= 0) return;
    await delay(clock, Math.min(leftMs, LONGEST_WAIT_MS), signal);
  }
}
