import type { Controller } from "@fairlead/kube/types.ts";
import type { Session } from "../session.ts";

/** Applies what is placed on this cluster: the Works of its mailbox. Each kind is watched by what reads it. */
export function createWorks(_session: Session): readonly Controller[] {
  return [];
}
