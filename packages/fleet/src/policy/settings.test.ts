import { expect, it } from "vitest";
import type { CidrMatch } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { compileCiliumPolicy } from "./compile/cilium.ts";
import { policySettings } from "./settings.ts";

it.each<[CidrMatch[] | undefined, boolean, boolean]>([
  [undefined, false, false],
  [["nodes"], true, false],
  [["pods"], false, true],
  [["nodes", "pods"], true, true],
])(
  "CIDRs of Cilium's kinds match what policyCIDRMatchMode lists: %j",
  (policyCIDRMatchMode, matchesNodes, matchesPods) => {
    const terms = policyCIDRMatchMode === undefined ? {} : { policyCIDRMatchMode };
    const spec = { endpointSelector: {}, egress: [{ toCIDR: ["10.0.0.0/8"] }] };
    const { policies } = compileCiliumPolicy({ metadata: { name: "p" }, spec }, policySettings("a", terms), {
      cidrGroups: [],
      services: [],
    });
    expect(policies[0]?.egress?.rules[0]?.peers).toMatchObject([{ kind: "cidr", matchesNodes, matchesPods }]);
  },
);
