import type { Logger } from "@fairlead/base/log.ts";
import type { Group } from "#policy/state.ts";

/** How many policies a line names. */
const MAX_NAMED = 10;

/** Which pods have no rules of their own, since those of their namespace are too many for a node. */
export function warnOfClosed(groups: readonly Group[], log: Logger): void {
  for (const { way, tiers, isClosed } of groups) {
    if (isClosed !== true) continue;
    const policies = tiers.flatMap((it) => it.deniedBy ?? []).map((it) => `${it.kind} ${it.name}`);
    log.warn(
      "pods are closed: the policies of their namespace have too many rules for a node together, for so many pods",
      { direction: way, policies: policies.slice(0, MAX_NAMED).join(", ") },
    );
  }
}
