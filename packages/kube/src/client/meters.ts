import type { Metrics } from "@fairlead/base/metrics.ts";
import type { FairLimiter } from "./limiter.ts";
import type { ServerClock } from "./server-clock.ts";

/** The metrics of a client's requests to one server. Names and labels are client-go's if it has them. */
export interface ClientMeters extends Disposable {
  answered(method: string, code: string): void;
  took(method: string, ms: number): void;
  waited(ms: number): void;
  /** @param flowSchema - Uid of the FlowSchema that the request fell under; few, and given by the server. */
  throttled(flowSchema: string): void;
}

interface Watched {
  readonly limiter: FairLimiter;
  readonly serverClock: ServerClock;
  /** Unit: milliseconds since the Unix epoch. */
  readonly now: () => number;
}

export function createClientMeters(metrics: Metrics, host: string, watched: Watched): ClientMeters {
  const requests = metrics.counter({
    name: "rest_client_requests_total",
    help: "Requests to the API server, by code, method and host.",
    labels: ["code", "method", "host"],
  });
  const durations = metrics.histogram({
    name: "rest_client_request_duration_seconds",
    help: "Duration of requests to the API server, except watches.",
    labels: ["verb", "host"],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  });
  const waits = metrics.histogram({
    name: "rest_client_rate_limiter_duration_seconds",
    help: "How long writes wait for the rate limiter.",
    labels: ["host"],
    buckets: [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
  });
  const named = (suffix: string, help: string) => ({
    name: `fairlead_client_${suffix}`,
    help,
    labels: ["host"],
  });
  const throttled = metrics.counter({
    ...named("throttled_total", "Requests that the server put off, by its FlowSchema."),
    labels: ["host", "flow_schema"],
  });
  const limit = metrics.gauge(named("inflight_limit", "Writes that may be under way at a time."));
  const inFlight = metrics.gauge(named("inflight_requests", "Writes under way."));
  const queued = metrics.gauge(named("queued_requests", "Writes that wait for their turn."));
  const offset = metrics.gauge(
    named("server_clock_offset_seconds", "How far the server's clock is ahead of this machine's."),
  );
  const error = metrics.gauge(named("server_clock_error_seconds", "How far that may be off."));
  const hook = metrics.onRender(() => {
    const { state } = watched.limiter;
    limit.set({ host }, state.limit);
    inFlight.set({ host }, state.inFlight);
    queued.set({ host }, state.queued);
    const { time } = watched.serverClock;
    if (time === undefined) return;
    offset.set({ host }, (time.nowMs - watched.now()) / 1000);
    error.set({ host }, time.errorMs / 1000);
  });
  return {
    answered: (method, code) => requests.add({ code, method, host }),
    took: (method, ms) => durations.observe({ verb: method, host }, ms / 1000),
    waited: (ms) => waits.observe({ host }, ms / 1000),
    throttled: (flowSchema) => throttled.add({ host, flow_schema: flowSchema }),
    [Symbol.dispose]: () => hook[Symbol.dispose](),
  };
}
