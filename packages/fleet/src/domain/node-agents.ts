import {
  NODE_AGENT_CONDITION,
  NODE_POLICY_CONDITION,
  NODE_POLICY_REASONS,
  POLICY_AT_BOOT,
  POLICY_AT_BOOT_REASONS,
} from "#api/fairlead.dev/node-agents.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { formatSupport, parseSupport, type Support } from "./kubernetes-support.ts";
import { byNaturalText } from "@fairlead/base/text.ts";

/**
 * What the agents of a cluster report on its Nodes. It says where agents run, however these were installed. Pure.
 */

export interface NodeAgentsView {
  /** Whether each node has an agent, and there is one. */
  readonly areEverywhere: boolean;
  /** Nodes with an agent, and ready nodes without one. */
  readonly present: readonly string[];
  readonly missing: readonly string[];
  /** Nodes whose network plugin enforces policies, as the agent found. */
  readonly ofPlugin: readonly string[];
  /** Nodes with packets between pods that the agent cannot filter. */
  readonly unfiltered: readonly string[];
  /** Nodes whose agent cannot write its rules, with the reason. */
  readonly failing: readonly string[];
  /** Nodes that had no policies between their boot and the start of their agent. */
  readonly unrestored: readonly string[];
  /** Versions of the agents, and what these support: each once. */
  readonly support: readonly Support[];
}

/** How often agents report although nothing has changed. Unit: milliseconds. */
export const AGENT_REPORT_MS = 300_000;

/** An agent that has not reported for so long does not run. Unit: milliseconds. */
const STALE_MS = 3 * AGENT_REPORT_MS;

type ReportingNode = Pick<Node, "metadata" | "status">;

export function nodeAgentsOn(nodes: Iterable<ReportingNode>, nowMs: number): NodeAgentsView {
  const sorted = [...nodes].toSorted((a, b) => byNaturalText(a.metadata.name, b.metadata.name));
  const reports = sorted.map((node) => ({ node, report: freshReport(node, nowMs) }));
  const names = (which: (it: (typeof reports)[number]) => boolean): string[] =>
    reports.filter(which).map((it) => it.node.metadata.name);
  const present = names(({ report }) => report !== undefined);
  const missing = names(({ node, report }) => report === undefined && mayRunPods(node));
  return {
    areEverywhere: present.length > 0 && missing.length === 0,
    present,
    missing,
    ofPlugin: names(({ report }) => report?.reason === NODE_POLICY_REASONS.plugin),
    unfiltered: names(({ report }) => report?.reason === NODE_POLICY_REASONS.unfiltered),
    failing: reports.flatMap(({ node, report }) =>
      report?.reason === NODE_POLICY_REASONS.failed ? [`${node.metadata.name}: ${report.message ?? ""}`] : [],
    ),
    unrestored: names(({ node, report }) => report !== undefined && isUnrestored(node)),
    support: supportOf(reports.filter((it) => it.report !== undefined).map((it) => it.node)),
  };
}

function supportOf(nodes: readonly ReportingNode[]): Support[] {
  return parseSupport(
    formatSupport(nodes.flatMap((it) => parseSupport(conditionOf(it, NODE_AGENT_CONDITION)?.message))),
  );
}

function isUnrestored(node: ReportingNode): boolean {
  return conditionOf(node, POLICY_AT_BOOT)?.reason === POLICY_AT_BOOT_REASONS.open;
}

function conditionOf({ status }: ReportingNode, type: string): Report | undefined {
  return status?.conditions?.find((it) => it.type === type);
}

type Report = NonNullable<NonNullable<Node["status"]>["conditions"]>[number];

function freshReport(node: ReportingNode, nowMs: number): Report | undefined {
  const report = conditionOf(node, NODE_POLICY_CONDITION);
  const atMs = Date.parse(report?.lastHeartbeatTime ?? "");
  // The clock of the node may be ahead.
  return nowMs - atMs < STALE_MS ? report : undefined;
}

/** A node that is not ready reports nothing, and gets no pods. */
function mayRunPods({ status }: ReportingNode): boolean {
  const ready = status?.conditions?.find((it) => it.type === "Ready");
  return ready === undefined || ready.status === "True";
}

/** Whether readers have something else to say of the agents. */
export function isReportChanged(
  before: ReportingNode | undefined,
  after: ReportingNode | undefined,
): boolean {
  const said = (it: ReportingNode | undefined): string | undefined => {
    const report = it && conditionOf(it, NODE_POLICY_CONDITION);
    const agent = it && conditionOf(it, NODE_AGENT_CONDITION);
    return (
      it && `${mayRunPods(it)} ${report?.status} ${report?.reason} ${agent?.message} ${isUnrestored(it)}`
    );
  };
  return said(before) !== said(after);
}

/** "a, b, c and 4 others": of many nodes some are named. */
export function someOf(names: readonly string[]): string {
  const [first, rest] = [names.slice(0, SOME), names.length - SOME];
  return rest <= 0 ? first.join(", ") : `${first.join(", ")} and ${rest} other${rest === 1 ? "" : "s"}`;
}

const SOME = 3;
