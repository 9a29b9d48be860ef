import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { type GoValues, goCommand, goText } from "@fairlead/base/program/go-command.ts";
import { MEMBER_MANAGER_FLAGS, runMemberManagers } from "#member/managers.ts";

const FLAGS = {
  ...MEMBER_MANAGER_FLAGS,
  "metrics-bind-address": goText(":8090", "address of the member side's /metrics; 0: disabled"),
  "health-probe-bind-address": goText(
    ":8091",
    "address of the member side's /healthz and /readyz; 0: disabled",
  ),
} as const;

/** MultiClusterServices of a member, as fleet-networking's program of this name is called. */
export function command(): ReturnType<typeof goCommand> {
  const description =
    "create load balancers for MultiClusterServices, in place of fleet-networking's manager";
  return goCommand({ name: "mcs-controller-manager", description, flags: FLAGS }, run);
}

function run(flags: GoValues<typeof FLAGS>): Promise<void> {
  return runMemberManagers({
    name: "mcs-controller-manager",
    role: "mcs",
    leases: LEASES_OF.mcs,
    flags,
    metricsFlag: "--metrics-bind-address",
    metricsAddress: flags["metrics-bind-address"],
    probeFlag: "--health-probe-bind-address",
    probeAddress: flags["health-probe-bind-address"],
  });
}
