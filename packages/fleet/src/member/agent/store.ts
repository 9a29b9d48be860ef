import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Changes keys of the Secret that names the hub; undefined removes a key. */
export async function storeInHubSecret(
  local: KubeClient,
  fields: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<void> {
  await local.mergePatch(SECRETS, KEY, { data: encoded(fields) }, { signal });
}

/**
 * As above, by what the Secret says at this moment: two programs of a member may be at it at once.
 *
 * @param plan - Given the present fields, says what to change; undefined: nothing.
 */
export async function changeHubSecret(
  local: KubeClient,
  plan: (field: (name: string) => string) => Readonly<Record<string, string | undefined>> | undefined,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const secret = await local.get(SECRETS, KEY, { signal });
    const fields = plan((name) => Buffer.from(secret.data?.[name] ?? "", "base64").toString("utf8"));
    if (fields === undefined) return;
    const { resourceVersion } = secret.metadata;
    try {
      await local.mergePatch(
        SECRETS,
        KEY,
        { metadata: { resourceVersion }, data: encoded(fields) },
        { signal },
      );
      return;
    } catch (error) {
      if (!hasCode(error, "API_CONFLICT")) throw error;
    }
  }
}

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET);

function encoded(fields: Readonly<Record<string, string | undefined>>): Record<string, string | null> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, text]) => [
      name,
      text === undefined ? null : Buffer.from(text, "utf8").toString("base64"),
    ]),
  );
}
