import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { ClientConfig } from "#admission/webhook/hooks.ts";
import type { Schema } from "#schema/types.ts";
import type { ApiObject } from "#values/object.ts";

/** `apiextensions.k8s.io/v1 CustomResourceDefinition`, as it looks once validation has passed it. */

export const CRD_GROUP = "apiextensions.k8s.io";
export const CRD_PLURAL = "customresourcedefinitions";
export const CRD_TABLE = `${CRD_PLURAL}.${CRD_GROUP}`;
export const CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io";

export interface CrdNames {
  readonly plural: string;
  readonly singular?: string;
  readonly kind: string;
  readonly listKind?: string;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
}

export interface PrinterColumn {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  readonly priority?: number;
  readonly jsonPath: string;
}

export interface CrdVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly deprecated?: boolean;
  readonly deprecationWarning?: string;
  readonly schema?: { readonly openAPIV3Schema?: Schema };
  readonly subresources?: {
    readonly status?: object;
    readonly scale?: {
      readonly specReplicasPath: string;
      readonly statusReplicasPath: string;
      readonly labelSelectorPath?: string;
    };
  };
  readonly additionalPrinterColumns?: readonly PrinterColumn[];
  readonly selectableFields?: readonly { readonly jsonPath: string }[];
}

export interface CrdSpec {
  readonly group: string;
  readonly names: CrdNames;
  readonly scope: "Namespaced" | "Cluster";
  readonly versions: readonly CrdVersion[];
  readonly conversion?: {
    readonly strategy?: string;
    readonly webhook?: {
      readonly clientConfig?: ClientConfig;
      readonly conversionReviewVersions?: readonly string[];
    };
  };
  readonly preserveUnknownFields?: boolean;
}

export interface CrdStatus {
  readonly conditions?: readonly CrdCondition[];
  readonly acceptedNames?: Partial<CrdNames>;
  readonly storedVersions?: readonly string[];
}

export type CrdCondition = Omit<Condition, "observedGeneration">;

export interface Crd extends ApiObject {
  spec: CrdSpec;
  status?: CrdStatus;
}

export function isEstablished(crd: ApiObject): boolean {
  const { conditions = [] } = (crd as Crd).status ?? {};
  return conditions.some((it) => it.type === "Established" && it.status === "True");
}
