import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { planForLegacyHub } from "./legacy-hub.ts";
import { isExportedBy, planExport } from "./plan.ts";
import type { ExportView } from "./view.ts";

const at = "2026-01-01T00:00:00Z";
const service = (annotations: Record<string, string>, spec: Service["spec"] = {}): Service => ({
  metadata: { namespace: "work", name: "hello", creationTimestamp: at, annotations },
  spec: { type: "ClusterIP", clusterIP: "10.0.0.1", ports: [{ name: "http", port: 80 }], ...spec },
});
const GLOBAL = { "service.cilium.io/global": "true" };
const view = (annotations: Record<string, string>, more: Partial<ExportView> = {}): ExportView => ({
  namespace: "work",
  name: "hello",
  fleet: undefined,
  mcs: undefined,
  service: service(annotations),
  current: undefined,
  ...more,
});
const onHub = (
  ...conditions: readonly (readonly [string, "True" | "False", string])[]
): InternalServiceExport => ({
  metadata: { name: "work-hello" },
  status: {
    conditions: conditions.map(([type, status, reason]) => ({
      type,
      status,
      reason,
      message: "ports differ",
      lastTransitionTime: at,
    })),
  },
});
const said = (of: ExportView): string[] | undefined =>
  planExport(of).global?.map((it) => `${it.status}:${it.reason}`);
const groupsOf = (of: ExportView): string[] | undefined => planExport(of).spec?.doors?.map((it) => it.group);

describe("the export of a global Service", () => {
  it("is not sent to a legacy hub, which does not know such exports, and says so", () => {
    const plan = planForLegacyHub(planExport(view(GLOBAL)), undefined);
    expect({ spec: plan.spec, hasEndpoints: plan.hasEndpoints }).toEqual({
      spec: undefined,
      hasEndpoints: false,
    });
    expect(plan.global).toMatchObject([{ status: "False", reason: "Refused" }]);
    const object = { metadata: { namespace: "work", name: "hello", creationTimestamp: at } };
    expect(planForLegacyHub(planExport(view(GLOBAL, { fleet: object })), undefined).spec).toEqual({
      ports: [{ name: "http", protocol: "TCP", port: 80 }],
      type: "ClusterIP",
      weight: 1,
    });
    const withdrawn = {
      metadata: { ...object.metadata, annotations: { "networking.fleet.azure.com/weight": "0" } },
    };
    expect(planForLegacyHub(planExport(view(GLOBAL, { fleet: withdrawn })), undefined).spec).toBeUndefined();
  });

  it("is as old as the Service, and is one of several if there are ServiceExports, too", () => {
    expect(planExport(view(GLOBAL)).spec?.doors).toEqual([{ group: "service.cilium.io", createdAt: at }]);
    const object = { metadata: { namespace: "work", name: "hello", creationTimestamp: at } };
    expect(groupsOf(view(GLOBAL, { mcs: object, fleet: object }))).toEqual([
      "networking.fleet.azure.com",
      "multicluster.x-k8s.io",
      "service.cilium.io",
    ]);
  });

  it.each([
    ["is not global", view({}), undefined],
    [
      "shares",
      view(GLOBAL, { current: onHub(["fairlead.dev/Accepted", "True", "Accepted"]) }),
      ["True:Shared"],
    ],
    ["waits for the hub", view(GLOBAL), ["Unknown:Pending"]],
    ["does not share", view({ ...GLOBAL, "service.cilium.io/shared": "false" }), ["True:ImportOnly"]],
    ["is in a local namespace", view(GLOBAL, { isGlobalNamespace: false }), ["False:NamespaceNotGlobal"]],
    [
      "has no endpoints",
      view(GLOBAL, { service: service(GLOBAL, { type: "ExternalName" }) }),
      ["False:ServiceIneligible"],
    ],
    ["is in a reserved namespace", view(GLOBAL, { namespace: "fleet-system" }), ["False:ServiceIneligible"]],
    [
      "needs agents that are not there",
      view(
        {
          ...GLOBAL,
          "service.cilium.io/shared": "false",
          "service.cilium.io/affinity": "remote",
          "service.cilium.io/type": "NodePort",
        },
        { hasNodeAgents: false },
      ),
      ["False:InvalidAnnotation,NodeAgentsMissing"],
    ],
    [
      "has weights that no proxy knows",
      view({ ...GLOBAL, "service.cilium.io/shared": "false" }, { hasNodeAgents: false, hasWeights: true }),
      ["False:NodeAgentsMissing"],
    ],
    [
      "has agents for its weights",
      view({ ...GLOBAL, "service.cilium.io/shared": "false" }, { hasNodeAgents: true, hasWeights: true }),
      ["True:ImportOnly"],
    ],
    [
      "has other ports than imports through other APIs",
      view(GLOBAL, {
        current: onHub(
          ["fairlead.dev/Accepted", "True", "Accepted"],
          ["multicluster.x-k8s.io/Conflict", "True", "PortConflict,TypeConflict"],
        ),
      }),
      ["False:PortConflict"],
    ],
    ["was refused", view(GLOBAL, { refused: "the quota is used up" }), ["False:Refused"]],
    ["leaves with its cluster", view(GLOBAL, { left: "a" }), undefined],
  ])("says that the Service %s", (_, of, expected) => {
    expect(said(of)).toEqual(expected);
    expect(isExportedBy(of)).toBe(planExport(of).spec !== undefined);
  });
});
