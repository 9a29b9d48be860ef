import { type Clock, systemClock } from "./clock.ts";
import type { Health } from "./health.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { noMetrics } from "./metrics.none.ts";
import { type Rng, systemRng } from "./rng.ts";

/** The external dependencies of every part of the runtime. */
export interface RuntimeDeps {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Default: not reported. */
  readonly health?: Health;
  /** How many keys a controller works on at the same time, by its name, where that is not the controller's own choice. */
  readonly concurrency?: (controller: string) => number | undefined;
}

/** The real clock and chance, for composition roots. */
export function systemDeps(log: Logger, metrics: Metrics = noMetrics): RuntimeDeps {
  return { clock: systemClock, rng: systemRng, log, metrics };
}
