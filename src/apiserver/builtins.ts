import { namespaceStrategy } from "./builtin/namespace.ts";
import { crdStrategy } from "./crd/strategy.ts";
import { define } from "./builtin/define.ts";
import type { ResourceDefinition, ReviewDefinition } from "./registry/types.ts";

export interface Builtins {
  readonly resources: readonly ResourceDefinition[];
  readonly reviews: readonly ReviewDefinition[];
}

export function builtins(): Builtins {
  return {
    resources: [
      define("v1", "Namespace", {
        plural: "namespaces",
        clusterScoped: true,
        shortNames: ["ns"],
        hasStatus: true,
        strategy: namespaceStrategy,
      }),
      define("v1", "ConfigMap", {
        plural: "configmaps",
        shortNames: ["cm"],
        strategy: { generation: "none" },
      }),
      define("apiextensions.k8s.io/v1", "CustomResourceDefinition", {
        plural: "customresourcedefinitions",
        clusterScoped: true,
        shortNames: ["crd", "crds"],
        hasStatus: true,
        strategy: crdStrategy,
      }),
      define("apps/v1", "Deployment", {
        plural: "deployments",
        shortNames: ["deploy"],
        hasStatus: true,
        hasScale: true,
      }),
    ],
    reviews: [],
  };
}
