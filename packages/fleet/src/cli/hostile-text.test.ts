import { escapeControls } from "@fairlead/base/print.ts";
import { describe, expect, it } from "vitest";
import { renderDrain } from "./fleet/render-drain.ts";
import { renderPaths } from "./fleet/render-paths.ts";
import { renderPlan as renderJoin } from "./fleet/render-plan.ts";
import { renderStatus as renderFleet } from "./fleet/render-status.ts";
import { renderVersions } from "./fleet/versions.ts";
import {
  memberRows,
  renderMembers,
  renderPlan as renderMesh,
  renderProfile,
  renderProfiles,
} from "./mesh/render.ts";
import { renderMeshStatus } from "./mesh/status.ts";
import { LIST_OUTPUTS, renderData, RESULT_OUTPUTS } from "./output.ts";
import { renderClusterDetails } from "./placement/details.ts";
import { renderDiff } from "./placement/diff.ts";
import { renderExplain } from "./placement/render-explain.ts";
import { renderHistory } from "./placement/history.ts";
import { renderRollback } from "./placement/rollback.ts";
import { renderRun as renderStagedRun } from "./placement/run.ts";
import { renderStatus as renderPlacement } from "./placement/status.ts";
import { renderDiff as renderPolicyDiff } from "./policy/diff.ts";
import { renderExplanation } from "./policy/explain.ts";
import { renderLint } from "./policy/lint.ts";
import { renderFlow } from "./policy/log.ts";
import { renderWhatIf } from "./policy/what-if.ts";
import { renderGates, renderPlan as renderUpdatePlan, renderRun, renderRuns } from "./updates/render.ts";
import { VERIFY_OUTPUTS, renderVerification } from "./verify/report.ts";

/** A text as a member, a tenant or the API server of a member may write it: links, cursor moves, colours, bidirectional controls, lines. */
const H =
  "x\u001b]8;;http://evil\u0007y\u001b[2K\u001b[1A\r\u009b31m\u202e\u2066\u200f\u{e0041}\u2028\u0000\u007f\nINJECTED\r\nINJECTED";

const NOW = 0;
const TIME = "2026-06-01T00:00:00Z";
const condition = { type: H, status: "False", reason: H, message: H, lastTransitionTime: TIME };
const resource = { group: H, version: H, kind: H, namespace: H, name: H };
const patch = { path: H, valueInMember: H, valueInHub: H };
const details = {
  failedPlacements: [{ ...resource, condition }],
  driftedPlacements: [{ ...resource, firstDriftedObservedTime: H, observedDrifts: [patch] }],
  diffedPlacements: [{ ...resource, firstDiffedObservedTime: H, observedDiffs: [patch] }],
};
const ended = { state: H, startTime: TIME, completedTime: TIME, error: { code: H, message: H } };
const gate = { displayName: H, gateId: H, status: ended };
const memberUpdate = {
  name: H,
  status: ended,
  message: H,
  rollback: { state: "Failed", message: H },
  previous: { kubernetesVersion: H },
};
const updateRun = {
  metadata: { name: H },
  spec: { managedClusterUpdate: { upgrade: { type: H, kubernetesVersion: H } } },
  status: {
    status: ended,
    outcome: H,
    message: H,
    counts: {},
    membersInNoGroup: [H],
    stages: [
      {
        name: H,
        status: ended,
        beforeGates: [gate],
        afterGates: [gate],
        groups: [{ name: H, status: ended, members: [memberUpdate], beforeGates: [gate] }],
        afterStageWaitStatus: { waitDurationInSeconds: 1, status: ended },
      },
    ],
  },
};
const profile = {
  metadata: { name: H },
  spec: { network: { mode: H }, apply: H, version: H, memberSelector: { matchLabels: { [H]: H } } },
  status: {
    state: H,
    lastOperationError: H,
    lastAppliedMemberSelector: H,
    conditions: [{ ...condition, type: "Drift", status: "True" }],
    memberStates: [{ name: H, state: H, error: H, lastUpdatedAt: TIME }],
  },
};
const end = { address: H, cluster: H, namespace: H, pod: H };
const access = { change: H, from: H, to: H, traffic: H, way: H };
const clusterExplanation = {
  cluster: H,
  isPicked: false,
  reason: H,
  change: "none",
  plugins: [{ plugin: H, passes: false, reason: H }],
};
const explanation = {
  kind: H,
  namespace: H,
  name: H,
  type: H,
  policySnapshot: H,
  message: H,
  isWhatIf: true,
  clusters: [clusterExplanation],
};
const change = { change: "change", resource, fields: [{ path: H, from: H, to: H }] };
const fleet = {
  hub: { state: H, renewed: TIME, holder: H },
  clusters: [
    {
      name: H,
      joined: H,
      healthy: H,
      network: { profile: H, mode: H },
      message: H,
      exports: 0,
      imports: 0,
      endpoints: 0,
      serving: 0,
      invalidExports: [H],
      nodeProblems: [H],
    },
  ],
  networks: [{ profile: H, mode: H, members: 0, problems: [H] }],
  links: [{ from: H, to: H, by: "endpoints" }],
  absentNamespaces: [{ namespace: H, clusters: [H] }],
  withdrawn: [{ cluster: H, namespace: H, name: H, why: H }],
  services: [
    {
      namespace: H,
      name: H,
      type: H,
      ports: [H],
      exports: [{ cluster: H, doors: [H], conflicts: [H], endpoints: 0, usable: 0, problems: [H] }],
      importedBy: [H],
      loadBalancer: H,
      endpoints: 0,
      serving: 0,
    },
  ],
};
const mesh = {
  profile: H,
  state: H,
  error: H,
  members: [{ name: H, state: H, error: H, exports: 0, endpoints: 0, pods: 0, version: H }],
  globalServices: [H],
  propagation: [],
  problems: [H],
};
const path = {
  from: H,
  to: H,
  network: H,
  tunnels: [{ from: H, to: H, path: H, keyEpoch: 0, lastHandshake: TIME, relay: H }],
};
const result = { from: H, to: H, check: "tcp", family: H, status: "failed", ms: 0, detail: H };
const drain = {
  cluster: H,
  mode: "Soft",
  carriedOutBy: [H],
  servedOnlyHere: [H],
  cordoned: true,
  placements: [{ kind: H, placement: H, outcome: "Refused", message: H }],
};

/** What each command prints of such texts. The types of the fields are those of honest objects. */
const PRINTED: Readonly<Record<string, readonly (() => string)[]>> = {
  status: LIST_OUTPUTS.flatMap((it) => [
    () => renderFleet(fleet as never, it, NOW),
    () => renderPaths([path] as never, it, NOW),
  ]),
  "mesh status": RESULT_OUTPUTS.map((it) => () => renderMeshStatus(mesh as never, it, NOW)),
  "mesh list": LIST_OUTPUTS.flatMap((it) => [
    () => renderProfiles([profile] as never, it),
    () => renderMembers(memberRows(profile as never, []), it, NOW),
  ]),
  "mesh show": RESULT_OUTPUTS.map((it) => () => renderProfile(profile as never, it)),
  "mesh apply": RESULT_OUTPUTS.map(
    (it) => () =>
      renderMesh(
        {
          rows: [{ action: H, member: H, state: H, error: H }],
          settings: [H],
          changes: [],
          problems: [H],
        } as never,
        [],
        it,
      ),
  ),
  drain: RESULT_OUTPUTS.map((it) => () => renderDrain(drain as never, it)),
  join: [
    () =>
      renderJoin({
        steps: [{ step: H, changes: [{ cluster: H, verb: "create", kind: H, name: H, note: H }] }],
      } as never),
  ],
  version: RESULT_OUTPUTS.map(
    (it) => () =>
      renderVersions(
        { client: { version: H }, hub: { version: H }, members: [{ name: H, version: H }] } as never,
        it,
      ),
  ),
  "placement status": [
    () => renderClusterDetails([{ cluster: H, trimmed: [H], ...details }] as never),
    () =>
      renderPlacement({
        kind: H,
        namespace: H,
        name: H,
        current: true,
        status: {
          observedResourceIndex: H,
          conditions: [condition],
          placementStatuses: [{ clusterName: H, conditions: [condition], ...details }],
        },
      } as never),
    () =>
      renderStagedRun(
        {
          kind: H,
          namespace: H,
          name: H,
          spec: { state: H },
          status: {
            conditions: [condition],
            stagesStatus: [
              {
                stageName: H,
                conditions: [condition],
                clusters: [{ clusterName: H, conditions: [condition] }],
              },
            ],
          },
        } as never,
        NOW,
      ),
  ],
  "placement diff": [() => renderDiff({ from: H, to: H, changes: [change], clusters: [H] } as never)],
  "placement explain": [
    () => renderExplain(explanation as never),
    () => renderExplain({ ...explanation, clusters: [clusterExplanation, clusterExplanation] } as never),
  ],
  "placement history": [
    () =>
      renderHistory(
        { snapshots: [{ index: 0, hash: H, created: TIME, objects: 0, clusters: [H] }] } as never,
        NOW,
      ),
  ],
  "placement rollback": [
    () =>
      renderRollback({
        to: 0,
        dryRun: false,
        changes: [{ ...change, outcome: "failed", message: H }],
      } as never),
  ],
  updaterun: RESULT_OUTPUTS.flatMap((it) => [
    () => renderRun(updateRun as never, it, NOW),
    () =>
      renderUpdatePlan(
        updateRun as never,
        { status: updateRun.status, verdicts: new Map([[H, H]]), notes: [H] } as never,
        it,
      ),
  ]),
  gate: LIST_OUTPUTS.flatMap((it) => [
    () => renderRuns([updateRun] as never, it),
    () =>
      renderGates(
        [
          {
            metadata: { name: H },
            spec: {
              displayName: H,
              gateType: H,
              state: H,
              target: { updateRunProperties: { name: H, stage: H, group: H, timing: H } },
            },
          },
        ] as never,
        it,
      ),
  ]),
  "policy diff": [
    () =>
      renderPolicyDiff({
        refusals: [{ policy: H, field: H, reason: H, effect: H }],
        changes: [access],
        changesLeftOut: 0,
        pairsLeftOut: 0,
      } as never),
  ],
  "policy explain": [
    () =>
      renderExplanation({
        verdict: H,
        traffic: H,
        from: H,
        to: H,
        egress: { verdict: H, reason: H, rule: H, remedy: H },
        ingress: { verdict: H, reason: H, rule: H, remedy: H },
      } as never),
  ],
  "policy lint": [() => renderLint([{ cluster: H, policy: H, field: H, problem: H }] as never)],
  "policy log": (["json", "text"] as const).map(
    (it) => () =>
      renderFlow(
        {
          time: H,
          verdict: H,
          direction: H,
          from: end,
          to: end,
          protocol: H,
          port: 1,
          policies: [H],
          rule: H,
          count: 1,
        } as never,
        it,
      ),
  ),
  "policy what-if": [
    () =>
      renderWhatIf({
        clusters: [{ cluster: "a", changes: [access], changesLeftOut: 0, pairsLeftOut: 0 }],
        services: [{ change: H, cluster: H, service: H, endpointsOf: H }],
        servicesLeftOut: 0,
      } as never),
  ],
  verify: VERIFY_OUTPUTS.map((it) => () => renderVerification({ run: H, results: [result] } as never, it)),
};

describe.each(Object.entries(PRINTED))("fairlead %s", (_command, renderings) => {
  it("prints no character of a cluster's text that steers a terminal", () => {
    for (const render of renderings)
      expect(escapeControls(render()).replaceAll(/[\n\t]/g, "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  });

  it("prints no line that a cluster's text begins", () => {
    for (const render of renderings)
      expect(
        escapeControls(render())
          .split("\n")
          .filter((it) => it.trimStart().startsWith("INJECTED")),
      ).toEqual([]);
  });
});

it("renderData prints data with such texts so that it is read back unchanged", () => {
  const data = { [H]: [H, { plain: "a: b" }] };
  for (const output of ["json", "yaml"] as const)
    expect(JSON.parse(escapeControls(renderData(data, output)))).toEqual(data);
});
