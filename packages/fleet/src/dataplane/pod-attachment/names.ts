import { shortHash } from "#api/fairlead.dev/cluster-names.ts";

/**
 * Name, in the fleet namespace, of the device that leads to a pod: at most 13 of Linux's 15 characters, with 55 bits of hash.
 * Names of other devices there have a dash, which is not in base32.
 */
export function vethName(podUID: string): string {
  return `fl${shortHash(podUID, 11)}`;
}

/** Whether a device of the fleet namespace is one of them. */
export function isVethName(name: string): boolean {
  return /^fl[0-9a-v]{11}$/.test(name);
}
