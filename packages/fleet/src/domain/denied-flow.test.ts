import { expect, it } from "vitest";
import { type DeniedFlow, formatDeniedFlow, parseDeniedFlow } from "./denied-flow.ts";

const FLOW: DeniedFlow = {
  way: "ingress",
  protocol: "TCP",
  from: { address: "fd00::1" },
  to: { address: "10.0.0.2", pod: "a/shop/web" },
  port: 80,
};

it.each<[string, DeniedFlow]>([
  ["without a rule", FLOW],
  ["with a rule", { ...FLOW, way: "egress", policy: "NetworkPolicy shop/web" }],
])("a denied flow %s is read as it was written, also from a combined event", (_, flow) => {
  const text = formatDeniedFlow(flow);
  expect(parseDeniedFlow(text)).toEqual(flow);
  expect(parseDeniedFlow(`(combined from similar events): ${text}`)).toEqual(flow);
});

it("other texts are not denied flows", () => {
  expect(parseDeniedFlow("Back-off restarting failed container")).toBeUndefined();
});
