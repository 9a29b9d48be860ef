import { readNamedFile } from "#shared/files.ts";
import { printNote, printText } from "@fairlead/base/print.ts";
import { EVERYTHING } from "@fairlead/fleet/authz/applied.ts";
import { defined } from "@fairlead/base/defined.ts";
import { HEARTBEAT_SECONDS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/defaults.ts";
import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { CHECKS, type CheckName, type Finding } from "@fairlead/fleet/cli/fleet/checks/finding.ts";
import type { IdentityKind } from "@fairlead/fleet/cli/fleet/identity.ts";
import type { MemberInstall } from "@fairlead/fleet/cli/fleet/install/member-manifests.ts";
import { parseLabelChange, updateGroupChange } from "@fairlead/fleet/cli/fleet/members.ts";
import { joinCluster, planJoin } from "@fairlead/fleet/cli/fleet/join.ts";
import { renderPlan } from "@fairlead/fleet/cli/fleet/render-plan.ts";
import type { JoinOptions } from "@fairlead/fleet/cli/fleet/join-options.ts";
import type { Report } from "@fairlead/fleet/cli/fleet/steps.ts";
import { type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { KUBECONFIG_FLAG, loadContext, refuseSameDefault } from "#shared/contexts.ts";
import { FLAGS } from "#shared/flags.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { printResult, resultOption } from "#shared/output.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { sayReport } from "#shared/reports.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command<[string]>, "parseAsync">;

interface Flags {
  readonly kubeconfig?: string;
  readonly hubKubeconfig?: string;
  readonly hubContext?: string;
  readonly memberKubeconfig?: string;
  readonly memberContext?: string;
  readonly hubServer?: string;
  readonly hubCaFile?: string;
  readonly agent: string;
  readonly image: string;
  readonly dns: boolean;
  readonly identity?: string;
  readonly rotate: boolean;
  readonly podCidr?: string;
  readonly parallelProfile?: string;
  readonly labels?: readonly string[];
  readonly updateGroup?: string;
  readonly nodeAgents: boolean;
  readonly exposeNodeMetrics: boolean;
  readonly startupTaint: boolean;
  readonly placementRole: string;
  readonly skipCheck: string[];
  readonly heartbeatSeconds: string;
  readonly wait: boolean;
  readonly timeout: string;
}

/** Makes a cluster a member of a fleet. */
export function command(): Program {
  return new Command("join")
    .description(
      "make a cluster a member of a fleet: check it, install the agent, and wait until it has joined",
    )
    .argument("<name>", "name of the member, which becomes its cluster ID")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(
      FLAGS.memberContext,
      "kubeconfig context with administrator access to the joining cluster; default: the current context",
    )
    .option(...HUB_KUBECONFIG_FLAG)
    .option(FLAGS.memberKubeconfig, "kubeconfig file of the member; default: --kubeconfig")
    .option("--hub-server <url>", "URL of the hub for the member; default: the one in the hub's context")
    .option(
      "--hub-ca-file <file>",
      "CA certificates of the hub for the member, PEM; default: those in the hub's context",
    )
    .option(
      "--agent <how>",
      "install: deploy the agent and the cluster-set DNS; none: they are deployed separately",
      "install",
    )
    .option(FLAGS.image, "image to install", `fairlead.dev/fairlead:${VERSION}`)
    .option("--no-dns", "install the agent without the cluster-set DNS")
    .option(
      "--identity <kind>",
      "certificate or token; default: certificate if the hub signs client certificates",
    )
    .option("--rotate", "issue a new identity for the member, and revoke the previous one", false)
    .option(
      "--skip-check <check>",
      `check to skip: ${CHECKS.join(", ")} (repeatable)`,
      (value: string, before: string[]) => [...before, value],
      [] as string[],
    )
    .option(
      "--pod-cidr <networks>",
      "comma-separated networks of its pods, those of future nodes included; default: the configuration of kubeadm",
    )
    .option(
      "--labels <key=value...>",
      "labels of its MemberCluster, by which placements, profiles and update runs select it",
    )
    .option("--update-group <name>", "group in which update runs upgrade it")
    .option(
      "--parallel-profile <name>",
      "parallel ClusterMeshProfile in which the member will be: its addresses may be those of other members, and its agent may install fairlead node",
    )
    .option("--node-agents", "its agent may install fairlead node; --parallel-profile permits it, too", false)
    .option(
      "--expose-node-metrics",
      "its fairlead node serves metrics on all addresses of its node, to all that reach them, instead of on 127.0.0.1",
      false,
    )
    .option(
      "--startup-taint",
      "its agent keeps new pods off nodes whose fairlead node has not written its policies since their boot",
      false,
    )
    .option(
      "--placement-role <name>",
      "ClusterRole of the joining cluster with what placements may write there; none: no placements",
      EVERYTHING,
    )
    .option(FLAGS.dryRun, "print the planned changes without applying them", false)
    .option(
      "--heartbeat-seconds <seconds>",
      "period of the agents' reports, 1 to 600",
      String(HEARTBEAT_SECONDS),
    )
    .option(FLAGS.noWait, "do not wait until the agents of the member have joined")
    .option(FLAGS.timeout, "time limit of each wait, 1 to 3600", "60")
    .addOption(resultOption())
    .action((name, flags) =>
      runForPeople("join", async ({ deps, signal }) => {
        const { output } = flags;
        const options = await readOptions(name, flags);
        const said: { findings: Finding[]; steps: Report[] } = { findings: [], steps: [] };
        const progress = (report: Report): void => {
          said.steps.push(report);
          sayReport(report);
        };
        const onFinding = (finding: Finding): void => {
          said.findings.push(finding);
          sayFinding(finding);
        };
        const own = { ...deps, progress, onFinding };
        if (flags.dryRun) {
          const plan = await planJoin(options, own, signal);
          if (output === "text") printText(renderPlan(plan).trimEnd());
          else printResult(plan, output);
          return;
        }
        try {
          const member = await joinCluster(options, own, signal);
          printResult({ ...said, member }, output);
        } catch (error) {
          printResult(said, output);
          throw error;
        }
      }),
    );
}

async function readOptions(name: string, flags: Flags): Promise<JoinOptions> {
  const hubNamed = { file: flags.hubKubeconfig, context: flags.hubContext };
  const memberNamed = { file: flags.memberKubeconfig, context: flags.memberContext };
  refuseSameDefault(hubNamed, memberNamed);
  const [hub, member] = await Promise.all([
    loadContext(hubNamed, flags.kubeconfig, process.env),
    loadContext(memberNamed, flags.kubeconfig, process.env),
  ]);
  const agent = parseOneOf("--agent", flags.agent, ["install", "none"] as const);
  const identity =
    flags.identity === undefined
      ? undefined
      : parseOneOf<IdentityKind>("--identity", flags.identity, ["certificate", "token"]);
  const hubCa =
    flags.hubCaFile === undefined ? undefined : await readNamedFile("file of certificates", flags.hubCaFile);
  const skipChecks = new Set(flags.skipCheck.map((it) => parseOneOf<CheckName>("--skip-check", it, CHECKS)));
  return {
    name,
    hub,
    member,
    ...(flags.hubServer === undefined ? {} : { hubServer: flags.hubServer }),
    ...defined({ hubCa, identity, parallelProfile: flags.parallelProfile }),
    labels: labelsOf(flags),
    rotate: flags.rotate,
    ...(agent === "none" ? {} : { install: installOf(flags) }),
    skipChecks,
    ...(flags.podCidr === undefined ? {} : { podCidrs: flags.podCidr.split(",").map(readNetwork) }),
    heartbeatSeconds: parseWhole("--heartbeat-seconds", flags.heartbeatSeconds, { min: 1, max: 600 }),
    waitForAgents: flags.wait,
    timeoutMs: parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000,
  };
}

function labelsOf({ labels = [], updateGroup }: Flags): Readonly<Record<string, string>> {
  const change = {
    ...parseLabelChange("--labels", labels),
    ...updateGroupChange("--update-group", updateGroup),
  };
  const set = Object.entries(change).filter((it): it is [string, string] => it[1] !== null);
  if (set.length === Object.keys(change).length) return Object.fromEntries(set);
  throw new FleetError(
    "OPTION_INVALID",
    'join only sets labels: "fairlead member update" removes them from a member',
  );
}

function readNetwork(text: string): Prefix {
  const network = tryParsePrefix(text.trim());
  if (network !== undefined) return network;
  throw new FleetError(
    "OPTION_INVALID",
    `--pod-cidr must be comma-separated networks such as 10.244.0.0/16, got ${text}`,
  );
}

function installOf({
  image,
  dns,
  parallelProfile,
  nodeAgents,
  exposeNodeMetrics,
  startupTaint,
  placementRole,
}: Flags): MemberInstall {
  return {
    image,
    imagePullPolicy: "IfNotPresent",
    replicas: 2,
    dns,
    nodes: nodeAgents || parallelProfile !== undefined,
    exposeNodeMetrics,
    startupTaint,
    placementRole: placementRole === "none" ? null : placementRole,
  };
}

function parseOneOf<T extends string>(flag: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((it) => it === text);
  if (found !== undefined) return found;
  throw new FleetError("OPTION_INVALID", `${flag} must be one of ${allowed.join(", ")}, got ${text}`);
}

function sayFinding({ status, message }: Finding): void {
  const sign = { ok: "✓", warning: "!", failed: "✗", unknown: "?", skipped: "-" }[status];
  printNote(`${sign} ${message}`);
}
