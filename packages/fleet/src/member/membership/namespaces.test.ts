import { expect, it } from "vitest";
import type { Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { MAX_TRACKED, planNamespaces } from "./namespaces.ts";

const many = (count: number): Namespace[] =>
  Array.from({ length: count }, (_, at) => ({ metadata: { name: `n${String(at).padStart(3, "0")}` } }));

it.each([
  [MAX_TRACKED, MAX_TRACKED, "True", "Succeeded"],
  [MAX_TRACKED + 1, MAX_TRACKED, "False", "Degraded"],
])("of %i namespaces %i are reported", (there, reported, status, reason) => {
  const { namespaces, conditions } = planNamespaces(many(there));
  expect(namespaces?.size).toBe(reported);
  expect(conditions).toMatchObject([{ type: "NamespaceCollectionSucceeded", status, reason }]);
});

it("a namespace that was placed is reported with its Work", () => {
  const owner = {
    apiVersion: "placement.kubernetes-fleet.io/v1beta1",
    kind: "AppliedWork",
    name: "p-work",
    uid: "u",
  };
  const placed: Namespace = { metadata: { name: "placed", ownerReferences: [owner] } };
  expect([...(planNamespaces([placed, ...many(1)]).namespaces ?? [])]).toEqual([
    ["n000", ""],
    ["placed", "p-work"],
  ]);
});
