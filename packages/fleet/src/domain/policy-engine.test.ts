import { expect, it } from "vitest";
import { crossClusterPolicy, engineAnnotations, policyEngineOf } from "./policy-engine.ts";

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
  expect(policyEngineOf([{ metadata: { name: "m" } }, node])).toBe(expected);
  expect(annotations).not.toHaveProperty("other");
});

it.each<[string, Parameters<typeof crossClusterPolicy>[0], string | undefined]>([
  ["nothing outside of networks", { mode: undefined, engine: undefined, hasNodeAgents: true }, undefined],
  [
    "True where fairlead node enforces them",
    { mode: "flat", engine: undefined, hasNodeAgents: true },
    "True Enforced",
  ],
  ["False without it", { mode: "flat", engine: undefined, hasNodeAgents: false }, "False NoNodeAgents"],
  [
    "False where the plugin does",
    { mode: "flat", engine: "Calico", hasNodeAgents: true },
    "False NetworkPluginEnforces",
  ],
  [
    "True for fleet addresses, which the plugin does not see",
    { mode: "parallel", engine: "Calico", hasNodeAgents: true },
    "True Enforced",
  ],
])("a member reports of policies across clusters: %s", (_, member, expected) => {
  const condition = crossClusterPolicy(member);
  expect(condition && `${condition.status} ${condition.reason}`).toBe(expected);
});
