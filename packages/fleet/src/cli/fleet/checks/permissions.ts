import { type AccessAttributes, isPermitted } from "@fairlead/kube/client/access-review.ts";
import type { Side } from "../steps.ts";
import type { Finding } from "./finding.ts";

/** A permission in words: "create secrets in fleet-system". */
function nameOf({ verb, of, subresource, namespace, name }: AccessAttributes): string {
  const kind = [of.plural, of.group].filter((it) => it !== "").join(".");
  const what = subresource === undefined ? kind : `${kind}/${subresource}`;
  const named = name === undefined ? "" : ` ${name}`;
  return `${verb} ${what}${named}${namespace === undefined ? "" : ` in ${namespace}`}`;
}

/** Reviews each permission that the command needs (SelfSubjectAccessReview), and names those that are missing. */
export async function checkPermissions(
  { who, client }: Side,
  needed: readonly AccessAttributes[],
  signal: AbortSignal,
): Promise<Finding> {
  const each = new Map(needed.map((it) => [nameOf(it), it]));
  const answers = await Promise.all(
    [...each].map(async ([name, it]) => ({ name, isAllowed: await isPermitted(client, it, signal) })),
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
