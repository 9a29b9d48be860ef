import { expect, it } from "vitest";
import { flowEnd, type FlowRecord, formatFlow, parseFlow } from "./flow-record.ts";

const FLOW: FlowRecord = {
  verdict: "denied",
  direction: "ingress",
  protocol: "TCP",
  from: flowEnd("fd00::1", undefined),
  to: flowEnd("10.0.0.2", "a/shop/web"),
  port: 80,
  policies: ["NetworkPolicy shop/web", "ClusterNetworkPolicy all"],
};

it.each<[string, FlowRecord]>([
  ["denied by default", FLOW],
  ["denied by a rule", { ...FLOW, policies: ["NetworkPolicy shop/web"], rule: "spec.ingress[0]" }],
  ["that no policy decides on", { ...FLOW, verdict: "allowed", direction: "egress", policies: [] }],
])("a flow %s is read as it was written, also from a combined event", (_, flow) => {
  const text = formatFlow(flow);
  expect(parseFlow(text)).toEqual(flow);
  expect(parseFlow(`(combined from similar events): ${text}`)).toEqual(flow);
});

it("a flow names a bounded number of policies", () => {
  const policies = Array.from({ length: 100 }, (_, at) => `NetworkPolicy shop/p${at}`);
  expect(parseFlow(formatFlow({ ...FLOW, policies }))?.policies).toEqual(policies.slice(0, 3));
});

it("other texts are not flows", () => {
  expect(parseFlow("Back-off restarting failed container")).toBeUndefined();
});
