import type { CounterMetric, GaugeMetric, Metrics } from "@fairlead/base/metrics.ts";

/** The metrics of the API server, listed in docs/apiserver.md. */
export interface ServerMeters {
  /** By `code`: connections that ended in the middle of a request, or sent what is not HTTP. */
  readonly clientErrors: CounterMetric;
  /** By `reason`: requests that were answered 429, and watches and answers that were ended. */
  readonly rejected: CounterMetric;
  /** By `request_kind`. */
  readonly inflight: GaugeMetric;
}

export function createServerMeters(metrics: Metrics): ServerMeters {
  return {
    clientErrors: metrics.counter({
      name: "fairlead_apiserver_client_errors_total",
      help: "Connections that ended in the middle of a request, or sent malformed HTTP.",
      labels: ["code"],
    }),
    rejected: metrics.counter({
      name: "fairlead_apiserver_rejected_requests_total",
      help: "Requests rejected because a limit was reached, and connections closed because the client did not read them.",
      labels: ["reason"],
    }),
    inflight: metrics.gauge({
      name: "apiserver_current_inflight_requests",
      help: "Requests in flight.",
      labels: ["request_kind"],
    }),
  };
}
