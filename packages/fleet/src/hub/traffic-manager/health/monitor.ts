import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { EndpointHealth } from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { delay } from "@fairlead/base/clock.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { CounterMetric } from "@fairlead/base/metrics.ts";
import type { Monitor } from "../profile.ts";
import type { Check } from "./checks.ts";

/** An endpoint to check. It is well when one of its hosts answers. */
export interface MonitoredEndpoint {
  readonly name: string;
  readonly hosts: readonly string[];
  /** What was found last, by an earlier run of the program. */
  readonly last: EndpointHealth | undefined;
}

/** Checks under way at a time: what is checked is far away, and each may take 10 s. */
const MAX_AT_A_TIME = 64;
/** Checks of one endpoint are this much apart from the interval, so that many do not keep step. Unit: share of it. */
const JITTER = 0.1;

interface Watched {
  readonly hosts: readonly string[];
  readonly monitor: Monitor;
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

interface State {
  health: EndpointHealth;
  failures: number;
}

/**
 * Checks endpoints of profiles, and says when one changes sides: after more failures in a row than its profile tolerates,
 * and back with the first success. One that was never checked may serve, as in Azure Traffic Manager.
 */
export class HealthMonitor implements AsyncDisposable {
  readonly #deps: RuntimeDeps;
  readonly #check: Check;
  readonly #onChange: (profile: ObjectKey) => void;
  readonly #watched = new Map<ObjectKey, Map<string, Watched>>();
  readonly #states = new Map<string, State>();
  readonly #ending = new Set<Promise<void>>();
  readonly #waiting: (() => void)[] = [];
  readonly #counts: (result: "success" | "failure") => void;
  #free = MAX_AT_A_TIME;

  constructor(check: Check, onChange: (profile: ObjectKey) => void, deps: RuntimeDeps) {
    this.#check = check;
    this.#onChange = onChange;
    this.#deps = deps;
    const total = createCheckCounter(deps);
    this.#counts = (result) => total.add({ result });
  }

  /** What is known of an endpoint; `last` where it was not checked yet. */
  healthOf(endpoint: string, last: EndpointHealth | undefined): EndpointHealth {
    return this.#states.get(endpoint)?.health ?? last ?? "CheckingEndpoint";
  }

  /** Makes `endpoints` all that is checked for a profile. Checks that stay the same are not interrupted. */
  follow(profile: ObjectKey, monitor: Monitor | undefined, endpoints: readonly MonitoredEndpoint[]): void {
    const previous = this.#watched.get(profile) ?? new Map<string, Watched>();
    const after = new Map<string, Watched>();
    for (const endpoint of monitor === undefined ? [] : endpoints) {
      const known = previous.get(endpoint.name);
      const isSame =
        known !== undefined && sameJson(known.hosts, endpoint.hosts) && sameJson(known.monitor, monitor);
      after.set(endpoint.name, isSame ? known : this.#begin(profile, monitor as Monitor, endpoint));
    }
    for (const [name, watched] of previous) {
      if (after.get(name) === watched) continue;
      this.#end(watched);
      if (!after.has(name)) this.#states.delete(name);
    }
    if (after.size === 0) this.#watched.delete(profile);
    else this.#watched.set(profile, after);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const endpoints of this.#watched.values()) for (const it of endpoints.values()) this.#end(it);
    this.#watched.clear();
    await Promise.all(this.#ending);
  }

  #begin(profile: ObjectKey, monitor: Monitor, endpoint: MonitoredEndpoint): Watched {
    const stop = new AbortController();
    const { name, hosts, last } = endpoint;
    if (!this.#states.has(name)) {
      // A degraded endpoint stays degraded until it passes its checks: a restart must not send clients to it.
      const health = last ?? "CheckingEndpoint";
      const failures = health === "Degraded" ? monitor.toleratedNumberOfFailures + 1 : 0;
      this.#states.set(name, { health, failures });
    }
    const done = this.#rounds({ profile, name, hosts, monitor }, stop.signal);
    return { hosts, monitor, stop, done };
  }

  #end({ stop, done }: Watched): void {
    stop.abort();
    const ending = done.finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async #rounds(
    of: {
      readonly profile: ObjectKey;
      readonly name: string;
      readonly hosts: readonly string[];
      readonly monitor: Monitor;
    },
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, rng } = this.#deps;
    const intervalMs = of.monitor.intervalInSeconds * 1000;
    while (!signal.aborted) {
      const answered = await this.#turn(() => this.#ask(of.hosts, of.monitor, signal));
      if (signal.aborted) return;
      this.#note(of, answered);
      const waitMs = intervalMs * (1 - JITTER / 2 + JITTER * rng.random());
      await delay(clock, waitMs, signal).catch(() => {});
    }
  }

  /** One host that answers is proof enough. */
  async #ask(hosts: readonly string[], monitor: Monitor, signal: AbortSignal): Promise<boolean> {
    const late = new AbortController();
    using _timer = this.#deps.clock.after(monitor.timeoutInSeconds * 1000, () => late.abort());
    const running = AbortSignal.any([signal, late.signal]);
    const answers = await Promise.all(hosts.map((host) => this.#check(host, monitor, running)));
    return answers.includes(true);
  }

  #note(
    of: { readonly profile: ObjectKey; readonly name: string; readonly monitor: Monitor },
    answered: boolean,
  ): void {
    this.#counts(answered ? "success" : "failure");
    const state = this.#states.get(of.name);
    if (state === undefined) return;
    state.failures = answered ? 0 : state.failures + 1;
    const before = state.health;
    if (answered) state.health = "Online";
    else if (state.failures > of.monitor.toleratedNumberOfFailures) state.health = "Degraded";
    if (state.health === before) return;
    this.#deps.log.info("endpoint health changed", { endpoint: of.name, health: state.health, before });
    this.#onChange(of.profile);
  }

  async #turn<T>(act: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

export function createCheckCounter({ metrics }: RuntimeDeps): CounterMetric {
  return metrics.counter({
    name: "fairlead_traffic_manager_checks_total",
    help: "Checks of endpoints behind TrafficManagerProfiles, by result.",
    labels: ["result"],
  });
}
