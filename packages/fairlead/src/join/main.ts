import { HEARTBEAT_SECONDS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/defaults.ts";
import { readFile } from "node:fs/promises";
import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { CHECKS, type CheckName, type Finding } from "@fairlead/fleet/cli/fleet/checks/finding.ts";
import type { IdentityKind } from "@fairlead/fleet/cli/fleet/identity.ts";
import type { MemberInstall } from "@fairlead/fleet/cli/fleet/install/member-manifests.ts";
import { joinCluster, type JoinPlan, planJoin } from "@fairlead/fleet/cli/fleet/join.ts";
import type { JoinOptions } from "@fairlead/fleet/cli/fleet/join-options.ts";
import type { Change, Report } from "@fairlead/fleet/cli/fleet/steps.ts";
import { type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { KUBECONFIG_FLAG, loadContext, refuseSameDefault } from "#shared/contexts.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { printResult, resultOption } from "#shared/output.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { sayReport } from "#shared/reports.ts";

/** Only parsed, never extended: its options are its own affair. */
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
  readonly skipCheck: string[];
  readonly heartbeatSeconds: string;
  readonly wait: boolean;
  readonly timeout: string;
}

/** Makes a cluster a member of a fleet. */
export function command(): Program {
  return new Command("join")
    .description("make a cluster a member of a fleet: check, install, and wait until it has joined")
    .argument("<name>", "the member's name, which becomes its cluster id")
    .option(...KUBECONFIG_FLAG)
    .option("--hub-context <name>", "an administrator of the hub; default: the current context")
    .option(
      "--member-context <name>",
      "an administrator of the cluster that joins; default: the current context",
    )
    .option("--hub-kubeconfig <file>", "where the hub's context is; default: as --kubeconfig")
    .option("--member-kubeconfig <file>", "where the member's context is; default: as --kubeconfig")
    .option("--hub-server <url>", "the hub as the member reaches it; default: as in its context")
    .option(
      "--hub-ca-file <file>",
      "authorities by which the member checks it, PEM; default: as in its context",
    )
    .option("--agent <how>", "install: the agent and the cluster set's DNS; none: others do that", "install")
    .option("--image <image>", "what is installed", `fairlead.dev/fairlead:${VERSION}`)
    .option("--no-dns", "install the agent without the cluster set's DNS")
    .option("--identity <kind>", "certificate or token; default: certificate where the hub signs them")
    .option("--rotate", "give the member a new identity; the one before is revoked", false)
    .option(
      "--skip-check <check>",
      `do without one of ${CHECKS.join(", ")} (repeatable)`,
      (value: string, before: string[]) => [...before, value],
      [] as string[],
    )
    .option(
      "--pod-cidr <networks>",
      "the networks of its pods, those of later nodes too, with commas between; default: as kubeadm was told",
    )
    .option("--dry-run", "say what would be done, and change nothing", false)
    .option(
      "--heartbeat-seconds <seconds>",
      "how often the member's agents report, 1 to 600",
      String(HEARTBEAT_SECONDS),
    )
    .option("--no-wait", "do not wait until the member's agents say that they joined")
    .option("--timeout <seconds>", "how long each wait may take, 1 to 3600", "60")
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
          if (output === "text") process.stdout.write(renderPlan(plan));
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
  const hubCa = flags.hubCaFile === undefined ? undefined : await readFile(flags.hubCaFile, "utf8");
  const skipChecks = new Set(flags.skipCheck.map((it) => parseOneOf<CheckName>("--skip-check", it, CHECKS)));
  return {
    name,
    hub,
    member,
    ...(flags.hubServer === undefined ? {} : { hubServer: flags.hubServer }),
    ...(hubCa === undefined ? {} : { hubCa }),
    ...(identity === undefined ? {} : { identity }),
    rotate: flags.rotate,
    ...(agent === "none" ? {} : { install: installOf(flags) }),
    skipChecks,
    ...(flags.podCidr === undefined ? {} : { podCidrs: flags.podCidr.split(",").map(readNetwork) }),
    heartbeatSeconds: parseWhole("--heartbeat-seconds", flags.heartbeatSeconds, { min: 1, max: 600 }),
    waitForAgents: flags.wait,
    timeoutMs: parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000,
  };
}

function readNetwork(text: string): Prefix {
  const network = tryParsePrefix(text.trim());
  if (network !== undefined) return network;
  throw new FleetError(
    "OPTION_INVALID",
    `--pod-cidr must be networks such as 10.244.0.0/16 with commas between, got ${text}`,
  );
}

function installOf({ image, dns }: Flags): MemberInstall {
  return { image, imagePullPolicy: "IfNotPresent", replicas: 2, dns };
}

function parseOneOf<T extends string>(flag: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((it) => it === text);
  if (found !== undefined) return found;
  throw new FleetError("OPTION_INVALID", `${flag} must be one of ${allowed.join(", ")}, got ${text}`);
}

function sayFinding({ status, message }: Finding): void {
  const sign = { ok: "✓", warning: "!", failed: "✗", unknown: "?", skipped: "-" }[status];
  process.stderr.write(`${sign} ${message}\n`);
}

const VERBS: Readonly<Record<Change["verb"], string>> = {
  create: "+ create",
  update: "~ change",
  delete: "- delete",
  issue: "+ issue ",
  none: "= keep  ",
};

function renderPlan({ steps }: JoinPlan): string {
  const lines = steps.flatMap(({ step, changes }) => [
    step,
    ...changes.map(({ cluster, verb, kind, name, note }) => {
      const more = note === undefined ? "" : ` (${note})`;
      return `  ${VERBS[verb]} ${kind} ${name} in ${cluster}${more}`;
    }),
  ]);
  return `${lines.join("\n")}\nNothing was changed.\n`;
}
