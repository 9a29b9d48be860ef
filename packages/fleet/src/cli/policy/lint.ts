import type { CompiledPolicy, Peer, Refusal, Rule, Way } from "#policy/model.ts";
import type { Selector } from "#policy/selector.ts";
import { renderTable } from "../table.ts";
import { clustersOf, finding, isLeftToEngine, lintEngine, type LintFinding } from "./lint-engine.ts";
import { type ClusterView, nameOf } from "./view.ts";

/** What is probably not meant in policies. Pure. */

/** @param views Of the clusters whose policies are looked at. Rules that name another one of them are checked against its policies. */
export function lint(views: readonly ClusterView[]): readonly LintFinding[] {
  return views.flatMap((view) => [
    ...lintEngine(view),
    ...view.policies.flatMap((it) => [...lintSubject(view, it)]),
    ...(isLeftToEngine(view) ? [] : lintEnforced(view, views)),
  ]);
}

function lintEnforced(view: ClusterView, views: readonly ClusterView[]): readonly LintFinding[] {
  return [
    ...view.compilations.flatMap(({ id, refusals }) =>
      refusals.map((it) => finding(view, nameOf(id), it.field, refusalText(it))),
    ),
    ...view.policies.flatMap((it) => lintRules(view, views, it)),
  ];
}

const EFFECTS: Readonly<Record<Refusal["effect"], string>> = {
  "policy not enforced": "The policy is not enforced.",
  "matches nothing": "What it is part of allows nothing.",
  "denies more": "The rule denies more than it says.",
  "part ignored": "It has no effect.",
  "pods closed": "The pods that it selects are closed in the directions that it names.",
};

function refusalText({ reason, effect }: Refusal): string {
  return `${reason} ${EFFECTS[effect]}`;
}

function* lintSubject(view: ClusterView, policy: CompiledPolicy): Generator<LintFinding, undefined> {
  const { of, selector } = policy.subject;
  const own = view.of.pods.filter((it) => it.cluster === view.of.cluster);
  if (of === "pods" && !own.some((it) => view.isSelected(it, selector)))
    yield finding(view, nameOf(policy.id), "subject", "It selects no pod of the cluster.");
  return undefined;
}

function lintRules(
  view: ClusterView,
  views: readonly ClusterView[],
  policy: CompiledPolicy,
): readonly LintFinding[] {
  const sites = (["ingress", "egress"] as const).flatMap((way) =>
    (policy[way]?.rules ?? []).flatMap((rule) =>
      (rule.peers === "any" ? [] : rule.peers).map((peer): Site => ({ policy, rule, peer, way })),
    ),
  );
  return sites.flatMap((site) =>
    [...peerProblems(view, site.peer), ...otherSide(view, views, site)].map((problem) =>
      finding(view, nameOf(policy.id), site.rule.origin, problem),
    ),
  );
}

function peerProblems(view: ClusterView, peer: Peer): readonly string[] {
  if (peer.kind !== "pods") return [];
  const { selector } = peer;
  const clusters = clustersOf(selector);
  const found = view.of.pods.filter((it) => view.isSelected(it, selector));
  if (found.length > 0) return trap(view, selector, clusters);
  const unknown = clusters?.filter((it) => !view.of.namespaces.some((other) => other.cluster === it)) ?? [];
  if (unknown.length > 0)
    return [
      `Nothing is known of the cluster ${unknown.join(", ")}: is it a member of the network, and are its namespaces global?`,
    ];
  return [
    "The peers select no known pod. Pods of other clusters are known if their namespace is global.",
    ...trap(view, selector, clusters),
  ];
}

/** Peers that name no cluster are in the own one: a surprise where others have such pods, too. */
function trap(
  view: ClusterView,
  selector: Selector,
  clusters: readonly string[] | undefined,
): readonly string[] {
  const { cluster, isLocalByDefault, pods } = view.of;
  if (!isLocalByDefault || clusters?.length !== 1 || clusters[0] !== cluster) return [];
  const anywhere: Selector = {
    key: "",
    requirements: selector.requirements.filter((it) => it.attribute !== "cluster"),
  };
  const others = [
    ...new Set(
      pods.filter((it) => it.cluster !== cluster && view.isSelected(it, anywhere)).map((it) => it.cluster),
    ),
  ];
  if (others.length === 0) return [];
  return [
    `The peers are those of ${cluster} only, though ${others.join(", ")} has such pods, too. To mean all clusters, add an Exists expression on io.cilium.k8s.policy.cluster.`,
  ];
}

interface Site {
  readonly policy: CompiledPolicy;
  readonly rule: Rule;
  readonly peer: Peer;
  readonly way: Way;
}

/** An allowed flow to or from another cluster needs that the other end allows it, too. */
function otherSide(
  view: ClusterView,
  views: readonly ClusterView[],
  { rule, peer, way, policy }: Site,
): readonly string[] {
  if (rule.action !== "allow" || peer.kind !== "pods") return [];
  const back = way === "ingress" ? "egress" : "ingress";
  const subject = view.of.pods.find(
    (it) => it.cluster === view.of.cluster && view.isSelected(it, policy.subject.selector),
  );
  const problems = view.of.pods
    .filter((it) => it.cluster !== view.of.cluster && view.isSelected(it, peer.selector))
    .flatMap((pod) => {
      const other = views.find((it) => it.of.cluster === pod.cluster);
      const deciding = other?.deciding(pod, back) ?? [];
      const isClosed =
        deciding.some((it) => it[back]?.isDefaultDeny === true) &&
        subject !== undefined &&
        !deciding.some((it) => allows(other, it, back, subject));
      return isClosed
        ? [
            `In ${pod.cluster}, no policy allows the ${back} of ${pod.namespace}/${pod.name} that belongs to it.`,
          ]
        : [];
    });
  return problems.slice(0, 1);
}

function allows(
  other: ClusterView | undefined,
  policy: CompiledPolicy,
  way: Way,
  pod: ClusterView["of"]["pods"][number],
): boolean {
  return (policy[way]?.rules ?? []).some(
    ({ action, peers }) =>
      action === "allow" &&
      (peers === "any" ||
        peers.some((it) => it.kind !== "pods" || other?.isSelected(pod, it.selector) === true)),
  );
}

export function renderLint(findings: readonly LintFinding[]): string {
  if (findings.length === 0) return "nothing found";
  return renderTable(
    [
      { head: "CLUSTER", cell: (it: LintFinding) => it.cluster },
      { head: "POLICY", cell: (it) => it.policy },
      { head: "FIELD", cell: (it) => it.field },
      { head: "PROBLEM", cell: (it) => it.problem },
    ],
    findings,
  );
}
