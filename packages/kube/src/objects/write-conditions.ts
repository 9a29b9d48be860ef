import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { Condition, KubeObject } from "#api/meta/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { applyIfChanged } from "./apply.ts";
import { type NewCondition, setCondition } from "./conditions.ts";
import { ignoreNotFound } from "./not-found.ts";
import type { Applied, KubeClient } from "#types.ts";

type WithConditions = KubeObject & { status?: { conditions?: readonly Condition[] } };

export interface WriteConditions<T extends WithConditions> {
  readonly object: T;
  /** Types of conditions that belong to this manager alone. Conditions of other types stay as they are. */
  readonly own: ReadonlySet<string>;
  /** All conditions of `own` types that the object should have. */
  readonly next: readonly NewCondition[];
  /** Further fields of the status that belong to this manager. */
  readonly rest?: object;
  readonly fieldManager: string;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/**
 * Applies conditions to the status of an object, with its generation as `observedGeneration`; no request if nothing changes. Conditions of
 * `own` types that are not wanted any more are removed whole, also where another agent wrote them: server-side apply removes only
 * the fields that its manager owns, and the server refuses the remainder as incomplete.
 *
 * @returns The object as the server has it then, `object` itself if nothing changed; undefined if it was deleted in the meantime.
 */
export async function writeConditions<T extends WithConditions>(
  client: KubeClient,
  of: Resource<T>,
  request: WriteConditions<T>,
): Promise<T | undefined> {
  const { object, rest, own, next, fieldManager, signal } = request;
  const hasOwn = next.length > 0 || (object.status?.conditions ?? []).some((it) => own.has(it.type));
  if (!hasOwn && rest === undefined) return object;
  const { namespace, name } = object.metadata;
  const status = { ...rest, conditions: nextConditions(request) };
  const metadata = { name, ...defined({ namespace }) };
  const apply = (current: T): Promise<T> =>
    applyIfChanged(client, of, {
      current,
      desired: { metadata, status } as unknown as Applied<T>,
      fieldManager,
      subresource: "status",
      ...defined({ signal }),
    });
  try {
    return await dropConditions(client, of, {
      ...request,
      object: await applyOrClear(apply, client, of, request),
    });
  } catch (error) {
    ignoreNotFound(error);
    return undefined;
  }
}

/** The conditions of `own` types that are wanted; those that do not change are the same objects. */
function nextConditions<T extends WithConditions>({
  object,
  own,
  next,
  clock,
}: WriteConditions<T>): Condition[] {
  const { generation } = object.metadata;
  const wanted = new Set(next.map((it) => it.type));
  let conditions = (object.status?.conditions ?? []).filter((it) => own.has(it.type) && wanted.has(it.type));
  for (const it of next)
    conditions = setCondition(
      conditions,
      generation === undefined ? it : { ...it, observedGeneration: generation },
      clock,
    );
  return conditions;
}

/** Removes the conditions of others that make the server refuse the status, if it does. */
async function applyOrClear<T extends WithConditions>(
  apply: (current: T) => Promise<T>,
  client: KubeClient,
  of: Resource<T>,
  request: WriteConditions<T>,
): Promise<T> {
  try {
    return await apply(request.object);
  } catch (error) {
    if (!hasCode(error, "API_INVALID")) throw error;
    const cleared = await dropConditions(client, of, request);
    if (cleared === request.object) throw error;
    return apply(cleared);
  }
}

/** @returns The object as the server has it then; the same object if there is nothing to remove. */
async function dropConditions<T extends WithConditions>(
  client: KubeClient,
  of: Resource<T>,
  { object, own, next, signal }: WriteConditions<T>,
): Promise<T> {
  const before = object.status?.conditions ?? [];
  const wanted = new Set(next.map((it) => it.type));
  const conditions = before.filter((it) => !own.has(it.type) || wanted.has(it.type));
  if (conditions.length === before.length) return object;
  const { namespace, name, resourceVersion } = object.metadata;
  // A merge patch replaces the list as a whole, so it must be the list that was read.
  const patch = { metadata: { resourceVersion }, status: { conditions } };
  return client.mergePatch(of, objectKey(namespace, name), patch, {
    subresource: "status",
    ...defined({ signal }),
  });
}
