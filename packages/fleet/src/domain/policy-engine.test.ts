import { expect, it } from "vitest";
import type { NodeAgentsView } from "./node-agents.ts";
import {
  crossClusterPolicy,
  engineAnnotations,
  engineReport,
  policyEngineOf,
  reportedEngineOf,
  sameNodePolicy,
} from "./policy-engine.ts";

const EVERYWHERE: NodeAgentsView = {
  areEverywhere: true,
  present: ["n"],
  missing: [],
  ofPlugin: [],
  unfiltered: [],
  failing: [],
  unrestored: [],
  support: [],
};
const NOWHERE: NodeAgentsView = { ...EVERYWHERE, areEverywhere: false, present: [], missing: ["n"] };

it.each<[string, object, string | undefined]>([
  ["Cilium by its condition", { reason: "CiliumIsUp" }, "Cilium"],
  ["Calico by its condition", { reason: "CalicoIsUp" }, "Calico"],
  ["Antrea by an annotation", { annotation: "node.antrea.io/wireguard-public-key" }, "Antrea"],
  ["kube-router by an annotation", { annotation: "kube-router.io/pod-cidr" }, "kube-router"],
  ["none by Flannel's condition", { reason: "FlannelIsUp" }, undefined],
  ["none by other annotations", { annotation: "flannel.alpha.coreos.com/backend-type" }, undefined],
])("nodes show %s", (_, { reason, annotation }: { reason?: string; annotation?: string }, expected) => {
  const annotations = annotation === undefined ? {} : engineAnnotations({ [annotation]: "x", other: "y" });
  const conditions =
    reason === undefined ? [] : [{ type: "NetworkUnavailable", status: "False" as const, reason }];
  const node = { metadata: { name: "n", annotations }, status: { conditions } };
  const found = policyEngineOf([{ metadata: { name: "m" } }, node]);
  expect(found?.name).toBe(expected);
  if (found !== undefined) expect(found.sign).toContain(`${reason ?? annotation}`);
  expect(annotations).not.toHaveProperty("other");
});

it("agents report engines that write nothing on Nodes, by their devices", () => {
  const node = (reason: string, message: string) => ({
    metadata: { name: "n" },
    status: {
      conditions: [{ type: "fairlead.dev/NetworkPolicy", status: "False" as const, reason, message }],
    },
  });
  expect(reportedEngineOf([node("NetworkPluginEnforces", engineReport("Weave Net"))])).toEqual({
    name: "Weave Net",
    sign: "devices that fairlead node found on the Node n",
  });
  expect(reportedEngineOf([node("NetworkPluginEnforces", "as an older agent says it")])?.name).toBe(
    "The network plugin",
  );
  expect(reportedEngineOf([node("Enforced", engineReport("Weave Net"))])).toBeUndefined();
});

it.each<[string, Parameters<typeof crossClusterPolicy>[0], string | undefined]>([
  [
    "nodes whose agents cannot write their rules",
    { mode: "flat", engine: undefined, agents: { ...EVERYWHERE, failing: ["n: no memory"] } },
    "False NodesFailing",
  ],
  ["nothing outside of networks", { mode: undefined, engine: undefined, agents: EVERYWHERE }, undefined],
  [
    "True where fairlead node enforces them",
    { mode: "flat", engine: undefined, agents: EVERYWHERE },
    "True Enforced",
  ],
  ["False without it", { mode: "flat", engine: undefined, agents: NOWHERE }, "False NoNodeAgents"],
  [
    "False without it in a parallel network",
    { mode: "parallel", engine: undefined, agents: NOWHERE },
    "False NoNodeAgents",
  ],
  [
    "False where a node has none",
    { mode: "flat", engine: undefined, agents: { ...EVERYWHERE, areEverywhere: false, missing: ["m"] } },
    "False NodesWithoutAgent",
  ],
  [
    "False where an agent found a plugin that Nodes do not show",
    { mode: "flat", engine: undefined, agents: { ...EVERYWHERE, ofPlugin: ["n"] } },
    "False NetworkPluginEnforces",
  ],
  [
    "False where the plugin does",
    { mode: "flat", engine: "Calico", agents: EVERYWHERE },
    "False NetworkPluginEnforces",
  ],
  [
    "True for fleet addresses, which the plugin does not see",
    { mode: "parallel", engine: "Calico", agents: EVERYWHERE },
    "True Enforced",
  ],
])("a member reports of policies across clusters: %s", (_, member, expected) => {
  const condition = crossClusterPolicy(member);
  expect(condition && `${condition.status} ${condition.reason}`).toBe(expected);
});

it.each<[string, Parameters<typeof sameNodePolicy>[0], string | undefined]>([
  ["nothing outside of networks", { mode: undefined, engine: undefined, agents: EVERYWHERE }, undefined],
  ["nothing without agents", { mode: "flat", engine: undefined, agents: NOWHERE }, undefined],
  ["nothing where the plugin enforces", { mode: "flat", engine: "Calico", agents: EVERYWHERE }, undefined],
  ["True where bridges are filtered", { mode: "flat", engine: undefined, agents: EVERYWHERE }, "True"],
  [
    "False where they are not, with some of the nodes",
    {
      mode: "parallel",
      engine: undefined,
      agents: { ...EVERYWHERE, unfiltered: ["n1", "n2", "n3", "n4", "n5"] },
    },
    "False On n1, n2, n3 and 2 others, packets",
  ],
])("a member reports of policies between pods of one node: %s", (_, member, expected) => {
  const condition = sameNodePolicy(member);
  const said = condition && `${condition.status} ${condition.message}`;
  expect(said?.slice(0, expected?.length)).toBe(expected);
});
