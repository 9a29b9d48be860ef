import { expect, it } from "vitest";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { attachReason, type AttachScope, exportedPods } from "./selection.ts";

const pod = (label?: string, more: Partial<Pod> = {}, namespace = "work"): Pod => ({
  metadata: {
    namespace,
    name: "web",
    uid: "uid-web",
    ...(label === undefined ? {} : { labels: { "fairlead.dev/attach": label } }),
  },
  ...more,
});
const scope: AttachScope = {
  mode: "selected",
  namespaceLabel: undefined,
  isImporting: false,
  exported: new Set(),
};
const everything: AttachScope = {
  mode: "all",
  namespaceLabel: "true",
  isImporting: true,
  exported: new Set(["uid-web"]),
};
const hostNetwork = { spec: { hostNetwork: true, containers: [] } };

it.each<[string, Pod, Partial<AttachScope>, string | undefined]>([
  ["without any reason", pod(), {}, undefined],
  ["with the label", pod("true"), {}, "label"],
  ["in a namespace with the label", pod(), { namespaceLabel: "true" }, "label"],
  ["with the label false in a namespace with the label", pod("false"), { namespaceLabel: "true" }, undefined],
  ["with the label in a namespace with the label false", pod("true"), { namespaceLabel: "false" }, "label"],
  ["with a label of another value", pod("yes"), {}, undefined],
  ["behind an export", pod(), { exported: new Set(["uid-web"]) }, "export"],
  ["behind an export, with another UID", pod(), { exported: new Set(["uid-old"]) }, undefined],
  ["in a namespace that imports", pod(), { isImporting: true }, "import"],
  ["in mode all", pod(), { mode: "all" }, "all"],
  ["of the system in mode all", pod(undefined, {}, "kube-system"), { mode: "all" }, undefined],
  ["of Fairlead in mode all", pod(undefined, {}, "fleet-system"), { mode: "all" }, undefined],
  ["of the system with the label", pod("true", {}, "kube-system"), {}, "label"],
  ["that starts", pod("true", { status: { phase: "Pending" } }), {}, "label"],
  ["with the label false, for every reason", pod("false"), everything, undefined],
  ["in a namespace with the label false", pod(), { ...everything, namespaceLabel: "false" }, undefined],
  ["on the host network, for every reason", pod("true", hostNetwork), everything, undefined],
  [
    "that succeeded, for every reason",
    pod("true", { status: { phase: "Succeeded" } }),
    everything,
    undefined,
  ],
  ["that failed, for every reason", pod("true", { status: { phase: "Failed" } }), everything, undefined],
])("a pod %s", (_, it, more, reason) => {
  expect(attachReason(it, { ...scope, ...more })).toBe(reason);
});

it("pods behind an export are those of its slices, ready or not", () => {
  const slice = (service: string, ...uids: readonly string[]): EndpointSlice => ({
    metadata: { namespace: "work", name: service, labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    endpoints: [
      ...uids.map((uid) => ({
        addresses: ["10.0.0.1"],
        targetRef: { kind: "Pod", uid },
        conditions: { ready: false },
      })),
      { addresses: ["10.0.0.2"], targetRef: { kind: "Node", uid: "uid-node" } },
      { addresses: ["10.0.0.3"] },
    ],
  });
  const slices = [slice("web", "a", "b"), slice("web", "c"), slice("db", "d")];
  expect(exportedPods(slices, (namespace, name) => `${namespace}/${name}` === "work/web")).toEqual(
    new Set(["a", "b", "c"]),
  );
});
