import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Side } from "../steps.ts";
import type { Finding } from "./finding.ts";

export interface Needed {
  readonly verb: string;
  readonly of: Pick<Resource, "group" | "plural">;
  readonly subresource?: string;
  readonly namespace?: string | undefined;
  readonly name?: string;
}

/** A permission in words: "create secrets in fleet-system". */
function nameOf({ verb, of, subresource, namespace, name }: Needed): string {
  const kind = [of.plural, of.group].filter((it) => it !== "").join(".");
  const what = subresource === undefined ? kind : `${kind}/${subresource}`;
  const named = name === undefined ? "" : ` ${name}`;
  return `${verb} ${what}${named}${namespace === undefined ? "" : ` in ${namespace}`}`;
}

/** Reviews each permission that the command needs (SelfSubjectAccessReview), and names those that are missing. */
export async function checkPermissions(
  { who, client }: Side,
  needed: readonly Needed[],
  signal: AbortSignal,
): Promise<Finding> {
  const each = new Map(needed.map((it) => [nameOf(it), it]));
  const answers = await Promise.all(
    [...each].map(async ([name, it]) => ({ name, isAllowed: await mayI(client, it, signal) })),
  );
  const missing = answers.filter((it) => !it.isAllowed).map((it) => it.name);
  const check = "permissions" as const;
  if (missing.length === 0)
    return { check, status: "ok", message: `all ${each.size} required permissions are granted in ${who}` };
  return {
    check,
    status: "failed",
    message: `missing permissions in ${who}: ${missing.join(", ")}; use a context that has them, or have an administrator grant them`,
  };
}

async function mayI(client: Side["client"], needed: Needed, signal: AbortSignal): Promise<boolean> {
  const { verb, of, subresource, namespace, name } = needed;
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
