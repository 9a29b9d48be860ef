import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { ROOT_CA_CONFIG_MAP } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isRelated, isSameBundle } from "@fairlead/base/pki/bundle.ts";
import { HUB_KEYS } from "#api/fairlead.dev/hub-secret.ts";
import type { RenewalParts } from "./renewal.ts";
import { storeInHubSecret } from "./store.ts";

/**
 * The bundle to know the hub by from now on; undefined: as before. One that has nothing in common with the present one
 * is not believed: a rotation has a time in which both authorities are in it.
 */
export function nextAuthority(
  present: string | undefined,
  published: string | undefined,
): string | undefined {
  if (present === undefined || published === undefined) return undefined;
  if (!isRelated(present, published) || isSameBundle(present, published)) return undefined;
  return published;
}

/**
 * Follows a hub that gets a new authority, for as long as `signal` does not abort. The word of it comes over a
 * connection that was checked against the old one.
 */
export async function followAuthority(
  { hub, local, holder, deps }: RenewalParts,
  signal: AbortSignal,
): Promise<void> {
  const { access } = holder;
  if (!access.followCa) return;
  const namespace = mailboxOf(access.cluster);
  const key = objectKey(namespace, ROOT_CA_CONFIG_MAP);
  await using published = createInformer(
    hub,
    CONFIG_MAPS,
    { namespace, fieldSelector: `metadata.name=${ROOT_CA_CONFIG_MAP}` },
    deps,
  );
  let coming: string | undefined;
  const take = async (ca: string): Promise<void> => {
    try {
      // Store the CA first: any later write to the Secret then includes it.
      await storeInHubSecret(local, { [HUB_KEYS.ca]: ca }, signal);
      deps.log.info("the CA of the hub changed, stored the new one");
    } catch (error) {
      // The Secret still has the old CA: the next watch event, or the next start, tries again.
      deps.log.warn("cannot store the new CA of the hub", { error: messageOf(error) });
    }
    if (coming === ca) holder.set({ ...holder.access, ca });
  };
  const look = (): void => {
    const ca = nextAuthority(holder.access.ca, published.store.get(key)?.data?.["ca.crt"]);
    if (ca === undefined || ca === coming) return;
    coming = ca;
    void take(ca);
  };
  using _watch = published.subscribe(look);
  published.start(signal);
  await untilAborted(signal);
}
