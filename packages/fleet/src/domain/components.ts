import type { ComponentsPin } from "#api/fairlead.dev/v1alpha1/updates.ts";

/** Which version of our own programs a member has to have. Pure. */

/** The ClusterMeshProfile that a member belongs to, with the version that is in force. */
export interface ProfileVersion {
  readonly name: string;
  readonly version: string | undefined;
}

/**
 * Until the profile names another version than it did when the member was pinned: then the profile follows, or a user has
 * decided otherwise.
 */
export function isPinInForce(pin: ComponentsPin, profile: ProfileVersion | undefined): boolean {
  return pin.profile === profile?.name && pin.over === profile.version;
}

/** Undefined: what is installed stays. */
export function componentsVersionOf(
  profile: ProfileVersion | undefined,
  pin: ComponentsPin | undefined,
): string | undefined {
  return pin !== undefined && isPinInForce(pin, profile) ? pin.version : profile?.version;
}
