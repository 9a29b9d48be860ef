import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { expect, it } from "vitest";
import { POLICY_CRDS } from "./crds.ts";

function at(kind: string, path: string): JsonSchema | undefined {
  const version = POLICY_CRDS.find((it) => it.spec.names.kind === kind)?.spec.versions[0];
  return path
    .split(".")
    .reduce<JsonSchema | undefined>(
      (schema, name) => (name === "[]" ? schema?.items : schema?.properties?.[name]),
      version?.schema.openAPIV3Schema,
    );
}

it("kinds of policies have the short names of their origin", () => {
  const names = POLICY_CRDS.map(({ spec }) => [spec.names.kind, spec.names.shortNames ?? []]);
  expect(Object.fromEntries(names)).toMatchObject({
    CiliumNetworkPolicy: ["cnp", "ciliumnp"],
    CiliumClusterwideNetworkPolicy: ["ccnp"],
  });
});

it.each([
  ["CiliumNetworkPolicy", "spec.ingress.[].toPorts.[].ports", { maxItems: 40 }],
  ["CiliumClusterwideNetworkPolicy", "spec.egressDeny.[].icmps.[].fields", { maxItems: 40 }],
  ["ClusterNetworkPolicy", "spec.ingress", { maxItems: 25 }],
  ["ClusterNetworkPolicy", "spec.egress.[].to", { minItems: 1, maxItems: 25 }],
  ["ClusterNetworkPolicy", "spec.egress.[].protocols", { maxItems: 25 }],
  ["ClusterNetworkPolicy", "spec.ingress.[].name", { maxLength: 100 }],
])("%s bounds %s as its origin does", (kind, path, bounds) => {
  expect(at(kind, path)).toMatchObject(bounds);
});
