import { isObject } from "@fairlead/base/json.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeClient } from "#types.ts";

/** One request that may be permitted. */
export interface AccessAttributes {
  readonly verb: string;
  readonly of: Pick<Resource, "group" | "plural">;
  readonly subresource?: string;
  readonly namespace?: string | undefined;
  readonly name?: string;
}

/** Asks the API server whether the client's user has a permission (SelfSubjectAccessReview), which every user may ask. */
export async function isPermitted(
  client: KubeClient,
  { verb, of, subresource, namespace, name }: AccessAttributes,
  signal: AbortSignal,
): Promise<boolean> {
  const review = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: {
      resourceAttributes: { verb, group: of.group, resource: of.plural, subresource, namespace, name },
    },
  };
  const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  const answer = await client.request("POST", path, review, { signal });
  const status = isObject(answer) ? answer["status"] : undefined;
  return isObject(status) && status["allowed"] === true;
}
