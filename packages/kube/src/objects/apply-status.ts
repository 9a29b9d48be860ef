import { objectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { Condition, KubeObject } from "#api/meta/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { applyIfChanged, type ApplyIfChanged } from "./apply.ts";
import type { Applied, KubeClient } from "#types.ts";

type WithConditions = KubeObject & { status?: { conditions?: readonly Condition[] } };

export interface ApplyStatus<T extends WithConditions> extends Omit<
  ApplyIfChanged<T>,
  "subresource" | "current"
> {
  readonly current: T;
  /** With all conditions that this manager wants. */
  readonly desired: Applied<T> & {
    readonly status: { readonly conditions: readonly { readonly type: string }[] };
  };
  /** Types of conditions that are this manager's alone, whoever wrote them before. */
  readonly ownTypes: ReadonlySet<string>;
}

/**
 * Applies a status, and removes conditions of `ownTypes` that are not wanted any more whole, also where another agent wrote them: server-side
 * apply takes away only what its manager owns, and what stays of such a condition is refused as incomplete.
 */
export async function applyStatus<T extends WithConditions>(
  client: KubeClient,
  of: Resource<T>,
  request: ApplyStatus<T>,
): Promise<void> {
  const { current } = request;
  const apply = (object: T): Promise<T> =>
    applyIfChanged(client, of, { ...request, current: object, subresource: "status" });
  const drop = (object: T): Promise<T> => dropConditions(client, of, { ...request, current: object });
  let after: T;
  try {
    after = await apply(current);
  } catch (error) {
    if (!hasCode(error, "API_INVALID")) throw error;
    const cleared = await drop(current);
    if (cleared === current) throw error;
    after = await apply(cleared);
  }
  await drop(after);
}

/** The object as the server has it then; `current` itself where there is nothing to remove. */
async function dropConditions<T extends WithConditions>(
  client: KubeClient,
  of: Resource<T>,
  { current, desired, ownTypes, signal }: ApplyStatus<T>,
): Promise<T> {
  const before = current.status?.conditions ?? [];
  const wanted = new Set(desired.status.conditions.map((it) => it.type));
  const conditions = before.filter((it) => !ownTypes.has(it.type) || wanted.has(it.type));
  if (conditions.length === before.length) return current;
  const { namespace, name, resourceVersion } = current.metadata;
  // A merge patch replaces the list as a whole: not one that somebody has written since.
  const patch = { metadata: { resourceVersion }, status: { conditions } };
  return client.mergePatch(of, objectKey(namespace, name), patch, {
    subresource: "status",
    ...(signal === undefined ? {} : { signal }),
  });
}
