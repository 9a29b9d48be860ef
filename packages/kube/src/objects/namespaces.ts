import { NAMESPACES } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { KubeClient } from "#types.ts";

/**
 * Makes a namespace where it is missing. Programs may read the one that they are installed in, and need no right to make
 * any.
 *
 * @throws {FleetError} `API_FORBIDDEN` when it is missing and may not be made.
 */
export async function ensureNamespace(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  try {
    if ((await client.find(NAMESPACES, objectKey(undefined, name), { signal })) !== undefined) return;
  } catch (error) {
    // Without permission to read it, assume that the installation created it.
    if (hasCode(error, "API_FORBIDDEN")) return;
    throw error;
  }
  try {
    await client.create(NAMESPACES, { metadata: { name } }, { signal });
  } catch (cause) {
    if (hasCode(cause, "API_FORBIDDEN"))
      throw new FleetError(
        "API_FORBIDDEN",
        `cannot create namespace ${name}: forbidden; run "kubectl create namespace ${name}"`,
        { cause },
      );
    if (!hasCode(cause, "API_ALREADY_EXISTS")) throw cause;
  }
}
