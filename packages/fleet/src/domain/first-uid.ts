import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FIRST_UID_ANNOTATION } from "#api/fairlead.dev/names.ts";

/** The UID that an object had on the first hub of its fleet: what others remember of it, such as the upgrades of members. */
export function firstUid({ metadata: { annotations, uid } }: KubeObject): string | undefined {
  return annotations?.[FIRST_UID_ANNOTATION] ?? uid;
}
