import { defined } from "@fairlead/base/defined.ts";
import type { Pod, PodTemplateSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { apiVersionOf } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";

/** What every controller does alike when it makes something of a template. */

export function ownerReferenceTo(of: Resource, owner: KubeObject): OwnerReference {
  const { name, uid = "" } = owner.metadata;
  return {
    apiVersion: apiVersionOf(of),
    kind: of.kind,
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Longest prefix of a generated name. Source: apiserver, pkg/storage/names. */
const MAX_PREFIX = 58;

/** The object of the template with its own name, which is known before the request, so that it can be waited for. */
export function podOfTemplate(
  owner: OwnerReference,
  template: PodTemplateSpec | undefined,
  at: { readonly namespace: string | undefined; readonly prefix: string; readonly suffix: string },
): Pod {
  const { metadata = {}, spec } = template ?? {};
  const { labels = {}, annotations = {}, finalizers = [] } = metadata;
  const generateName = at.prefix;
  return {
    metadata: {
      name: `${at.prefix.slice(0, MAX_PREFIX)}${at.suffix}`,
      generateName,
      namespace: at.namespace ?? "",
      labels,
      annotations,
      ownerReferences: [owner],
      ...(finalizers.length === 0 ? {} : { finalizers }),
    },
    ...defined({ spec }),
  };
}
