import type { Metrics } from "@fairlead/base/metrics.ts";
import { RCODE } from "#wire/types.ts";

export type Transport = "udp" | "tcp";

/** Counts on the path of every query: plain numbers, which are converted to metrics when they are collected. */
export interface DnsMeters extends Disposable {
  asked(transport: Transport): void;
  answered(rcode: number): void;
}

const RCODE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(RCODE).map(([name, code]) => [code, name]),
);

export function createDnsMeters(metrics: Metrics): DnsMeters {
  const queries = metrics.counter({
    name: "fairlead_dns_requests_total",
    help: "Queries, by transport.",
    labels: ["proto"],
  });
  const responses = metrics.counter({
    name: "fairlead_dns_responses_total",
    help: "Answers, by response code.",
    labels: ["rcode"],
  });
  const asked = { udp: 0, tcp: 0 };
  const answered = new Map<number, number>();
  const hook = metrics.onRender(() => {
    for (const proto of ["udp", "tcp"] as const) {
      queries.add({ proto }, asked[proto]);
      asked[proto] = 0;
    }
    for (const [code, count] of answered) {
      responses.add({ rcode: RCODE_NAMES.get(code) ?? String(code) }, count);
    }
    answered.clear();
  });
  return {
    asked: (transport) => void asked[transport]++,
    answered: (rcode) => void answered.set(rcode, (answered.get(rcode) ?? 0) + 1),
    [Symbol.dispose]: () => hook[Symbol.dispose](),
  };
}
