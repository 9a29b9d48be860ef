import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { printText } from "@fairlead/base/print.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { findMember } from "@fairlead/fleet/cli/fleet/clusters.ts";
import {
  labelMember,
  parseLabelChange,
  renderMember,
  renderMembers,
  updateGroupChange,
} from "@fairlead/fleet/cli/fleet/members.ts";
import type { ListOutput, ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { type Matcher, parseSelector } from "@fairlead/kube/objects/selector.ts";
import { type HubFlags, onHub } from "#shared/on-hub.ts";
import { printResult } from "#shared/output.ts";

type WithResult = HubFlags & { readonly output: ResultOutput };

export function list(
  flags: HubFlags & { readonly output: ListOutput; readonly selector?: string | undefined },
): Promise<void> {
  return onHub("member list", flags, async ({ hub, deps, signal }) => {
    const matches = flags.selector === undefined ? () => true : selectorOf(flags.selector);
    const { items } = await hub.list(MEMBER_CLUSTERS, { signal });
    const found = items.filter((it) => matches(it.metadata.labels));
    printText(renderMembers(found, flags.output, clockOfServer(hub, deps.clock).now()));
  });
}

function selectorOf(text: string): Matcher {
  try {
    return parseSelector(text);
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--selector: ${messageOf(cause)}`, { cause });
  }
}

export function show(name: string, flags: WithResult): Promise<void> {
  return onHub("member show", flags, async ({ hub, deps, signal }) => {
    const member = await findMember(hub, name, signal);
    printText(renderMember(member, flags.output, clockOfServer(hub, deps.clock).now()));
  });
}

export function update(
  name: string,
  flags: WithResult & {
    readonly labels?: readonly string[] | undefined;
    readonly updateGroup?: string | undefined;
  },
): Promise<void> {
  return onHub("member update", flags, async ({ hub, deps, signal }) => {
    const labels = {
      ...parseLabelChange("--labels", flags.labels ?? []),
      ...updateGroupChange("--update-group", flags.updateGroup),
    };
    if (Object.keys(labels).length === 0)
      throw new FleetError("OPTION_INVALID", "pass --labels or --update-group");
    const { member, changed } = await labelMember(hub, { name, labels }, signal);
    deps.progress(`member ${name}: ${changed ? "changed" : "nothing to change"}`);
    printResult(member, flags.output);
  });
}
