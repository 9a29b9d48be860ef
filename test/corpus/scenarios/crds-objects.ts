import { definition, WIDGETS } from "../definitions.ts";
import { area, post, scenario } from "../scenario.ts";

export const scenarios = area("crds", [
  scenario("a custom resource is created", [
    definition(),
    post(WIDGETS, {
      apiVersion: "$id.example.com/v1",
      kind: "Widget",
      metadata: { name: "a" },
      spec: { x: 1 },
    }),
  ]),
]);
