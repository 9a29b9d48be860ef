import { expect, it } from "vitest";
import { formatDeniedFlow, POLICY_DENIED } from "#domain/denied-flow.ts";
import { type CoreEvent, EVENTS } from "@fairlead/kube/api/core/v1/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { deniedLines } from "./log.ts";

const FLOW = {
  way: "egress",
  protocol: "UDP",
  from: { address: "10.0.0.1", pod: "a/shop/web" },
  to: { address: "10.0.0.2" },
  port: 53,
} as const;

function event(name: string, more: Partial<CoreEvent>): CoreEvent {
  return {
    metadata: { namespace: "shop", name },
    involvedObject: { kind: "Pod", namespace: "shop", name: "web" },
    reason: POLICY_DENIED,
    message: formatDeniedFlow(FLOW),
    ...more,
  };
}

it("lists denied connections with both ends, in the order of their times", async () => {
  const client = new FakeKubeClient();
  client.seed(
    EVENTS,
    event("second", { lastTimestamp: "2026-01-01T00:00:02Z", count: 3 }),
    event("first", { lastTimestamp: "2026-01-01T00:00:01Z" }),
    event("other", { reason: "BackOff", message: "Back-off restarting" }),
  );
  expect(await deniedLines(client, AbortSignal.timeout(5000))).toEqual([
    { time: "2026-01-01T00:00:01Z", count: 1, ...FLOW },
    { time: "2026-01-01T00:00:02Z", count: 3, ...FLOW },
  ]);
});
