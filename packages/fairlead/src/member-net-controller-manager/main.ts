import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { type GoValues, goBool, goCommand, goText } from "@fairlead/base/program/go-command.ts";
import { MEMBER_MANAGER_FLAGS, runMemberManagers } from "#member/managers.ts";

const FLAGS = {
  ...MEMBER_MANAGER_FLAGS,
  "member-metrics-bind-address": goText(":8090", "address of the member side's /metrics; 0: disabled"),
  "member-health-probe-bind-address": goText(
    ":8091",
    "address of the member side's /healthz and /readyz; 0: disabled",
  ),
  "enable-traffic-manager-feature": goBool(true, "no effect: the export fields for it are always sent"),
  "cloud-config": goText("", "no effect: no cloud is used"),
} as const;

/** Exports and imports of a member, as fleet-networking's program of this name is called. */
export function command(): ReturnType<typeof goCommand> {
  const description = "export and import services of this member, in place of fleet-networking's manager";
  return goCommand({ name: "member-net-controller-manager", description, flags: FLAGS }, run);
}

function run(flags: GoValues<typeof FLAGS>): Promise<void> {
  return runMemberManagers({
    name: "member-net-controller-manager",
    role: "member-net",
    leases: LEASES_OF.memberNet,
    flags,
    metricsFlag: "--member-metrics-bind-address",
    metricsAddress: flags["member-metrics-bind-address"],
    probeFlag: "--member-health-probe-bind-address",
    probeAddress: flags["member-health-probe-bind-address"],
  });
}
