import { describe, expect, it } from "vitest";
import {
  CNI_PROPERTY,
  factProperties,
  factsOf,
  KUBERNETES_PROPERTY,
  MEMBER_SUPPORT_PROPERTY,
  NODE_SUPPORT_PROPERTY,
  OTHER_MESH_PROPERTY,
  reportedFacts,
} from "./cluster-facts.ts";

const NOW = "2026-01-02T00:00:00Z";
const SUPPORTED = "0.1.0 for Kubernetes 1.25-1.36";
/** Of the program itself. */
const OWN = { [MEMBER_SUPPORT_PROPERTY]: SUPPORTED };
const known = (value: string) => ({ value, observationTime: "2026-01-01T00:00:00Z" });

describe("the facts of a cluster", () => {
  const of = (groups: readonly string[], ciliumKinds: readonly string[] = [], hasCiliumMesh = false) =>
    Object.fromEntries(
      factsOf({
        version: "v1.34.1",
        groups: new Set(groups),
        ciliumKinds: new Set(ciliumKinds),
        hasCiliumMesh,
        nodeSupport: [],
        nodes: [],
      }),
    );

  it.each([
    ["a plain plugin", of(["apps"]), {}],
    ["CiliumNetworkPolicies without Cilium", of(["cilium.io"], ["ciliumnetworkpolicies"]), {}],
    ["Cilium", of(["cilium.io"], ["ciliumnodes"]), { [CNI_PROPERTY]: "Cilium" }],
    ["Calico", of(["crd.projectcalico.org"]), { [CNI_PROPERTY]: "Calico" }],
    ["Antrea", of(["crd.antrea.io"]), { [CNI_PROPERTY]: "Antrea" }],
    ["Submariner", of(["submariner.io"]), { [OTHER_MESH_PROPERTY]: "Submariner" }],
    ["Cilium Cluster Mesh", of([], [], true), { [OTHER_MESH_PROPERTY]: "Cilium Cluster Mesh" }],
  ])("show %s", (_what, found, facts) => {
    expect(found).toEqual({ ...OWN, [KUBERNETES_PROPERTY]: "v1.34.1", ...facts });
  });

  it("keep the time of their observation, and are removed when they are not true any more", () => {
    const facts = factsOf({
      version: "v2",
      groups: new Set(),
      ciliumKinds: new Set(),
      hasCiliumMesh: false,
      nodeSupport: [],
      nodes: [],
    });
    const before = { [KUBERNETES_PROPERTY]: known("v2"), [OTHER_MESH_PROPERTY]: known("Submariner") };
    const own = { [MEMBER_SUPPORT_PROPERTY]: { value: SUPPORTED, observationTime: NOW } };
    expect(factProperties(facts, before, NOW)).toEqual({
      ...own,
      [KUBERNETES_PROPERTY]: known("v2"),
      [OTHER_MESH_PROPERTY]: null,
    });
    expect(factProperties(facts, undefined, NOW)).toEqual({
      ...own,
      [KUBERNETES_PROPERTY]: { value: "v2", observationTime: NOW },
    });
  });

  it("are kept by the hub if they are short and plain", () => {
    const properties = {
      [KUBERNETES_PROPERTY]: known("v1.34.1+k3s1"),
      [CNI_PROPERTY]: known("x".repeat(65)),
      [OTHER_MESH_PROPERTY]: known("\u001B[31mred"),
      [MEMBER_SUPPORT_PROPERTY]: known(SUPPORTED),
      [NODE_SUPPORT_PROPERTY]: known("x".repeat(513)),
      other: known("x"),
    };
    expect(reportedFacts(properties)).toEqual({
      [KUBERNETES_PROPERTY]: known("v1.34.1+k3s1"),
      [MEMBER_SUPPORT_PROPERTY]: known(SUPPORTED),
    });
    expect(reportedFacts(undefined)).toEqual({});
  });
});
