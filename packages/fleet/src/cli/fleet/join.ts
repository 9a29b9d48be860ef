import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { isClusterName } from "#api/fairlead.dev/cluster-names.ts";
import { ROOT_CA_CONFIG_MAP } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { isPartOf } from "@fairlead/base/pki/bundle.ts";
import { cidrAnnotations, grantAnnotation, readCidrs, readMembers } from "./checks/cidrs.ts";
import type { Finding } from "./checks/finding.ts";
import { checkReachability } from "./checks/reachability.ts";
import { checkReachable, clusterUid } from "./clusters.ts";
import { awaitStep } from "./join-await.ts";
import { checkBoth, refuseFailed } from "./join-checks.ts";
import { workloadsStep } from "./join-guard-rails.ts";
import { installSteps } from "./join-install.ts";
import type { JoinDeps, JoinOptions } from "./join-options.ts";
import { equipStep } from "./join-credentials.ts";
import { registerStep } from "./join-register.ts";
import { kindsStep, prepareHubStep, prepareMemberStep } from "./join-steps.ts";
import { type Joining, timeoutOf } from "./joining.ts";
import { findPresent } from "./join-present.ts";
import { type Change, runSteps, type Side, type Step } from "./steps.ts";

export interface JoinPlan {
  readonly findings: readonly Finding[];
  readonly steps: readonly { readonly step: string; readonly changes: readonly Change[] }[];
}

/**
 * Makes a cluster a member of a fleet: its MemberCluster, an identity on the hub, the Secret with which its agent finds the
 * hub and, on request, the agent. Run again for the same cluster, it only adds what is missing. If it fails, it reverts
 * all its changes except CRDs.
 *
 * @throws {FleetError} `OPTION_INVALID` for a bad or taken name, `API_UNAVAILABLE` when a cluster does not answer,
 *   `PRECONDITION_FAILED` if a check fails, `TIMED_OUT` if the hub or the agents do not respond in time.
 */
export function joinCluster(
  options: JoinOptions,
  deps: JoinDeps,
  signal: AbortSignal,
): Promise<MemberCluster> {
  return withBoth(options, deps, signal, async (joining) => {
    await runSteps(stepsOf(joining), (report) => deps.progress?.(report), signal);
    return joining.hub.client.get(MEMBER_CLUSTERS, objectKey(undefined, options.name), { signal });
  });
}

/** What `joinCluster` would do, found by reading alone. */
export function planJoin(options: JoinOptions, deps: JoinDeps, signal: AbortSignal): Promise<JoinPlan> {
  return withBoth(options, deps, signal, async (joining, findings) => {
    const steps: { step: string; changes: readonly Change[] }[] = [];
    for (const step of stepsOf(joining)) steps.push({ step: step.title, changes: await step.plan() });
    return { findings, steps };
  });
}

async function withBoth<T>(
  options: JoinOptions,
  deps: JoinDeps,
  signal: AbortSignal,
  work: (joining: Joining, findings: readonly Finding[]) => Promise<T>,
): Promise<T> {
  const { name } = options;
  checkName(name);
  await using hubClient = connect(options.hub, deps);
  await using memberClient = connect(options.member, deps);
  const hub: Side = { who: "the hub", client: hubClient };
  const member: Side = { who: `cluster ${name}`, client: memberClient };
  await Promise.all([
    checkReachable(hub.client, { who: hub.who, config: options.hub }, deps, signal),
    checkReachable(member.client, { who: member.who, config: options.member }, deps, signal),
  ]);
  const [members, uid, cidrs] = await Promise.all([
    readMembers(hub.client, signal),
    clusterUid(member.client, name, signal),
    readCidrs(member.client, options.podCidrs ?? [], signal),
  ]);
  const present = await findPresent({ name, uid, hub, member, members }, deps, signal);
  const findings = [...(await checkBoth({ options, deps, hub, member, members, cidrs }, signal))];
  if ((await clusterUid(hub.client, hub.who, signal).catch(() => undefined)) === uid) {
    const message = `the hub and ${name} are the same cluster, which becomes a member of its own fleet`;
    const same: Finding = { check: "hub", status: "ok", message };
    deps.onFinding?.(same);
    findings.push(same);
  }
  const ca = options.hubCa ?? options.hub.ca;
  const followCa = ca !== undefined && (await isOwnAuthority(hub.client, ca, signal));
  // A member that rejoins keeps its grant, unless the user passes another one.
  const isGranted = present === undefined || options.podCidrs !== undefined;
  const annotations = { ...cidrAnnotations(cidrs), ...(isGranted ? grantAnnotation(cidrs) : {}) };
  // Awaited here: the clients end with this function.
  return await work({ options, deps, hub, member, uid, present, annotations, followCa, signal }, findings);
}

function checkName(name: string): void {
  if (isClusterName(name)) return;
  throw new FleetError(
    "OPTION_INVALID",
    `${JSON.stringify(name)} is not a valid member name: it must have 1 to 63 lower-case letters, digits and ` +
      "dashes, and start and end with a letter or digit",
  );
}

/** Whether the hub publishes `ca` as its own: then the member learns from it of a new one. */
export async function isOwnAuthority(hub: KubeClient, ca: string, signal: AbortSignal): Promise<boolean> {
  const key = objectKey("kube-system", ROOT_CA_CONFIG_MAP);
  // An object that cannot be read cannot be followed either.
  const published = await hub.find(CONFIG_MAPS, key, { signal }).catch(() => undefined);
  return isPartOf(ca, published?.data?.["ca.crt"] ?? "");
}

function stepsOf(joining: Joining): readonly Step[] {
  const { options } = joining;
  return [
    kindsStep(joining, "hub"),
    kindsStep(joining, "member"),
    prepareHubStep(joining),
    prepareMemberStep(joining),
    ...reachabilityStep(joining),
    registerStep(joining),
    workloadsStep(joining),
    equipStep(joining),
    ...installSteps(joining),
    ...(options.waitForAgents === false ? [] : [awaitStep(joining)]),
  ];
}

/** After the namespace is there, in which a pod may be, and before anything is promised. */
function reachabilityStep(joining: Joining): readonly Step[] {
  const { options, deps, member, signal } = joining;
  const image = options.probeImage ?? options.install?.image;
  if (image === undefined || options.skipChecks?.has("reachability") === true) return [];
  const seen = {
    server: options.hubServer ?? options.hub.server,
    ca: options.hubCa ?? options.hub.ca,
    image,
    timeoutMs: timeoutOf(joining),
  };
  return [
    {
      title: `connect to the hub from ${member.who}`,
      plan: () =>
        Promise.resolve([
          {
            cluster: member.who,
            verb: "create",
            kind: "Pod",
            name: "fleet-system/fairlead-reach-*",
            note: `connects to ${seen.server} once, and is deleted`,
          },
        ]),
      run: async () => {
        const finding = await checkReachability(member, seen, deps, signal);
        deps.onFinding?.(finding);
        refuseFailed([finding]);
      },
    },
  ];
}
