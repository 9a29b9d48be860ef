import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Objects of the hub that users name: found with a message that lists the others, created or changed. */

/** Most names in a message. */
const MAX_SHOWN = 10;

/** @throws {FleetError} `OPTION_INVALID` with the names that exist. */
export async function getNamed<T extends KubeObject>(
  hub: KubeClient,
  of: Resource<T>,
  name: string,
  signal: AbortSignal,
): Promise<T> {
  const found = await hub.find(of, objectKey(undefined, name), { signal });
  if (found !== undefined) return found;
  const { items } = await hub.list(of, { signal });
  const known = items.slice(0, MAX_SHOWN).map((it) => it.metadata.name);
  const more = items.length > MAX_SHOWN ? `, and ${items.length - MAX_SHOWN} more` : "";
  const has = known.length === 0 ? "none" : `${known.join(", ")}${more}`;
  throw new FleetError(
    "OPTION_INVALID",
    `the hub has no ${of.kind} named ${JSON.stringify(name)}; it has ${has}`,
  );
}

interface Wanted {
  readonly name: string;
  /** Of a new object. */
  readonly spec: object;
  /** The merge patch of the spec of one that exists. Default: `spec`. */
  readonly change?: object;
}

/** Creates an object, or changes one of the name. */
export async function createOrChange<T extends KubeObject>(
  hub: KubeClient,
  of: Resource<T>,
  { name, spec, change = spec }: Wanted,
  signal: AbortSignal,
): Promise<{ readonly object: T; readonly isNew: boolean }> {
  try {
    const wanted: unknown = { metadata: { name }, spec };
    return { object: await hub.create(of, wanted as T, { signal }), isNew: true };
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
  const key = objectKey(undefined, name);
  return { object: await hub.mergePatch(of, key, { spec: change }, { signal }), isNew: false };
}
