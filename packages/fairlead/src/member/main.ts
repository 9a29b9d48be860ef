import { FLAGS } from "#shared/flags.ts";
import { compileHealth } from "./health.ts";
import { defined } from "@fairlead/base/defined.ts";
import { collect } from "@fairlead/base/program/flags.ts";
import { Command, Option } from "@commander-js/extra-typings";
import { checkPermissionsGranted, PERMISSIONS_VARIABLE } from "@fairlead/fleet/authz/digest.ts";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { runAgent } from "@fairlead/fleet/member/agent/agent.ts";
import { StartupTaints } from "@fairlead/fleet/member/startup-taint/startup-taints.ts";
import { IMPORT_CREATORS } from "@fairlead/fleet/member/session.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { CLOCK_OFFSET_FLAG } from "@fairlead/base/program/clock-offset.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { listOption, resultOption } from "#shared/output.ts";
import { LEADER_FLAG, runElected } from "#shared/leader.ts";
import {
  checksOfMember,
  CONCURRENCY_FLAG,
  createManagerParts,
  MAX_CONCURRENT_FLAG,
} from "#shared/manager.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The agent of a member, and commands that show and change members on the hub. */
export function command(): Program {
  // Flags of the agent and of the others have names in common: what follows a word belongs to it.
  const member = new Command("member").enablePositionalOptions();
  addAgent(member);
  addRecords(member);
  return member;
}

/** Runs the controllers of a member: exports, imports, heartbeats. Several replicas may run; one is active. */
function addAgent(member: Command): void {
  member
    .description(
      "run the controllers of a member; the Secret fleet-system/fairlead-hub has the address of the hub",
    )
    .option(FLAGS.kubeconfig, "kubeconfig of the member; default: the cluster of this pod")
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(
      "--pass-annotations <prefixes>",
      "comma-separated prefixes of annotations that MultiClusterServices copy to load balancers; default: those of known clouds",
    )
    .addOption(
      new Option(
        "--service-imports <how>",
        "who creates ServiceImports: the agent (automatic), or users, for the services they want (manual)",
      )
        .choices(IMPORT_CREATORS)
        .default(IMPORT_CREATORS[0]),
    )
    .option(
      "--node-image <repository>",
      "repository, without a tag, of the images of fairlead node that profiles ask for; default: this member installs none",
    )
    .option(
      "--expose-node-metrics",
      "let the fairlead node that it installs serve metrics on all addresses of its node, to all that reach them, instead of on 127.0.0.1",
      false,
    )
    .option(
      "--startup-taint",
      "keep new pods off nodes whose fairlead node has not written its policies since their boot, by the taint fairlead.dev/agent-not-ready",
      false,
    )
    .option(
      "--collect-namespaces",
      "report the namespaces of this cluster: ResourcePlacements then pick only clusters that have theirs",
      false,
    )
    .option(
      "--upgrade-image <repository>",
      "image, without a tag, of Plans of the system-upgrade-controller; default: rancher/k3s-upgrade or rancher/rke2-upgrade",
    )
    .option("--no-placement", "do not apply what placements on the hub select for this cluster")
    .option(CONCURRENCY_FLAG[0], CONCURRENCY_FLAG[1], collect)
    .option(...MAX_CONCURRENT_FLAG)
    .addOption(new Option(CLOCK_OFFSET_FLAG).hideHelp())
    .option(...LEADER_FLAG)
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("member", flags, async ({ signal, log, ready }) => {
        checkPermissionsGranted(process.env[PERMISSIONS_VARIABLE], {
          installsNodes: flags.nodeImage !== undefined,
          setsTaints: flags.startupTaint,
          places: flags.placement,
        });
        const { deps, metrics, health } = createManagerParts(log, flags);
        await using stack = new AsyncDisposableStack();
        const config = await clusterConfig(flags.kubeconfig, deps);
        const local = stack.use(connect(config, { ...deps, userAgent: "fairlead-member" }));
        if (flags.metrics !== undefined)
          stack.use(await serveMetrics({ metrics, address: flags.metrics, checks: checksOfMember(health) }));
        const election = { client: local, leases: LEASES_OF.member, side: "member", deps } as const;
        // A member that has not joined yet serves all the same: it waits for the Secret.
        await runElected({ ...election, isElected: flags.leaderElect }, signal, async (leading) => {
          await using taints = flags.startupTaint ? new StartupTaints(local, deps) : undefined;
          await taints?.start(leading);
          ready();
          const connectHub = (hub: Parameters<typeof connect>[0]): ReturnType<typeof connect> =>
            connect(hub, { ...deps, userAgent: "fairlead-member" });
          const options = {
            ...passOnFrom(flags.passAnnotations),
            imports: flags.serviceImports,
            placement: flags.placement,
            collectNamespaces: flags.collectNamespaces,
            startupTaint: flags.startupTaint,
            exposeNodeMetrics: flags.exposeNodeMetrics,
            compileHealth,
            address: { server: config.server, ...defined({ ca: config.ca }) },
            ...defined({ nodeImage: flags.nodeImage, upgradeImage: flags.upgradeImage }),
          };
          await runAgent({ local, connectHub, deps, ...options }, leading);
        });
      }),
    );
}

/** An empty list passes nothing on. */
function passOnFrom(text: string | undefined): { readonly passOn?: readonly string[] } {
  if (text === undefined) return {};
  const prefixes = text.split(",").map((it) => it.trim());
  return { passOn: prefixes.filter((it) => it !== "") };
}

const NAME = ["<name>", "the member's name"] as const;

/** Members as the hub has them. Adding one is "fairlead join", removing one "fairlead leave". */
function addRecords(member: Command): void {
  member
    .command("list")
    .description("list the members of the fleet")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--selector <text>", "list only members with these labels, as kubectl selects")
    .addOption(listOption())
    .action(async (flags) => (await import("./records.ts")).list(flags));
  member
    .command("show")
    .description("show a member: its labels, properties, and conditions that are not true")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./records.ts")).show(name, flags));
  member
    .command("update")
    .description("change the labels or the update group of a member")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--labels <key=value...>", "labels to set; KEY- removes one")
    .option("--update-group <name>", 'group in which update runs upgrade it; "" for none')
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./records.ts")).update(name, flags));
}
