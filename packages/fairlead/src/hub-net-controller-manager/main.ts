import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import {
  type GoValues,
  goBool,
  goCommand,
  goDuration,
  goText,
  goTexts,
  goVerbosity,
  levelOf,
} from "@fairlead/base/program/go-command.ts";
import { runHub } from "#hub/run.ts";
import {
  RFC2136_KEY_FLAG,
  RFC2136_SERVER_FLAG,
  trafficManagerOf,
  TRAFFIC_OWNER_FLAG,
  TRAFFIC_PROVIDER_FLAG,
  TRAFFIC_TTL_FLAG,
  TRAFFIC_ZONE_FLAG,
} from "#hub/traffic.ts";
import { runProgram } from "@fairlead/base/program/program.ts";

const FLAGS = {
  "metrics-bind-address": goText(":8080", "address of /metrics; 0: disabled"),
  "health-probe-bind-address": goText(":8081", "address of /healthz and /readyz; 0: disabled"),
  "leader-elect": goBool(true, "enable leader election"),
  "leader-election-namespace": goText("fleet-system", "namespace of the leader election Leases"),
  "enable-v1beta1-apis": goBool(true, "must be true"),
  "enable-traffic-manager-feature": goBool(true, "run the Traffic Manager controllers"),
  "members-by-namespace": goBool(
    true,
    "treat a namespace fleet-member-NAME as a member, with or without MemberCluster",
  ),
  "traffic-provider": goText(TRAFFIC_PROVIDER_FLAG[2], TRAFFIC_PROVIDER_FLAG[1]),
  "traffic-zone": goText(TRAFFIC_ZONE_FLAG[2], TRAFFIC_ZONE_FLAG[1]),
  "traffic-ttl": goText(TRAFFIC_TTL_FLAG[2], TRAFFIC_TTL_FLAG[1]),
  "traffic-owner": goText(undefined, TRAFFIC_OWNER_FLAG[1]),
  "rfc2136-server": goText(undefined, RFC2136_SERVER_FLAG[1]),
  "rfc2136-key-file": goText(undefined, RFC2136_KEY_FLAG[1]),
  "cloud-config": goText("/etc/kubernetes/provider/azure.json", "no effect: no cloud is used"),
  "internalserviceexport-retry-interval": goDuration("2s", "no effect: exports are not polled"),
  "force-delete-wait-time": goDuration(
    "15m",
    "how long to wait for finalizers in the namespace of a leaving member",
  ),
  kubeconfig: goText(undefined, "kubeconfig of the hub; default: KUBECONFIG, else the cluster of this pod"),
  concurrency: goTexts("CONTROLLER=NUMBER of concurrent reconciles; repeatable"),
  "max-concurrent-reconciles": goText(undefined, "number of concurrent reconciles of every other controller"),
  "clock-offset": { ...goText(undefined, ""), isHidden: true },
  "ready-fd": { ...goText(undefined, ""), isHidden: true },
  v: goVerbosity(),
} as const;

/** The hub's controllers, as fleet-networking's program of this name is called. */
export function command(): ReturnType<typeof goCommand> {
  const description = "run the controllers of a hub, in place of fleet-networking's manager";
  return goCommand({ name: "hub-net-controller-manager", description, flags: FLAGS }, run);
}

function run(flags: GoValues<typeof FLAGS>): Promise<void> {
  const program = { logLevel: levelOf(flags.v), readyFd: flags["ready-fd"] };
  return runProgram("hub-net-controller-manager", program, (context) => {
    if (!flags["enable-v1beta1-apis"])
      throw new FleetError("OPTION_INVALID", "--enable-v1beta1-apis must be true: there are no other APIs");
    return runHub(context, {
      kubeconfig: flags.kubeconfig ?? process.env["KUBECONFIG"],
      isElected: flags["leader-elect"],
      leases: LEASES_OF.hub,
      leaseNamespace: flags["leader-election-namespace"],
      servers: [
        { flag: "--metrics-bind-address", address: flags["metrics-bind-address"] },
        { flag: "--health-probe-bind-address", address: flags["health-probe-bind-address"] },
      ].filter((it) => it.address !== "0" && it.address !== ""),
      concurrency: flags.concurrency,
      maxConcurrentReconciles: flags["max-concurrent-reconciles"],
      clockOffset: flags["clock-offset"],
      hub: {
        areMembersByNamespace: flags["members-by-namespace"],
        isBesideOthers: true,
        forceDeleteSeconds: flags["force-delete-wait-time"] / 1000,
        trafficManager: trafficManagerOf({
          trafficProvider: flags["enable-traffic-manager-feature"] ? flags["traffic-provider"] : "none",
          trafficZone: flags["traffic-zone"],
          trafficTtl: flags["traffic-ttl"],
          trafficOwner: flags["traffic-owner"],
          rfc2136Server: flags["rfc2136-server"],
          rfc2136KeyFile: flags["rfc2136-key-file"],
        }),
      },
    });
  });
}
