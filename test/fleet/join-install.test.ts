import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type Deployment, DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  EVENTS,
  NAMESPACES,
  type Pod,
  PODS,
  SECRETS,
  SERVICE_ACCOUNTS,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import { accessManifests } from "@fairlead/fleet/authz/manifests.ts";
import { MEMBER_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { POD_DISRUPTION_BUDGETS } from "@fairlead/kube/api/policy/v1/types.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  ROLE_BINDINGS,
  ROLES,
} from "@fairlead/kube/api/rbac/v1/types.ts";
import { reachHub } from "@fairlead/fleet/cli/fleet/checks/reach.ts";
import type { Finding } from "@fairlead/fleet/cli/fleet/checks/finding.ts";
import { joinCluster, planJoin } from "@fairlead/fleet/cli/fleet/join.ts";
import type { JoinOptions } from "@fairlead/fleet/cli/fleet/join-options.ts";
import type { Report } from "@fairlead/fleet/cli/fleet/steps.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { issueAuthority } from "@fairlead/base/pki/issue.ts";
import { userOf } from "../support/access.ts";
import { deploy, exportBy, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { rolledOut, type Said, sayOfWorkloads } from "../support/workloads.ts";

/** What a join makes in its member, and the pods that it looks at. */

const NAME = "a";
const install = { image: "fairlead:test", imagePullPolicy: "Never", replicas: 2, dns: true } as const;
const namespace = "fleet-system";
/** Limit of a whole join, whose waits have separate limits. Unit: milliseconds. */
const LIMIT_MS = 3 * PATIENCE_MS;
vi.setConfig({ testTimeout: 2 * LIMIT_MS });

let fleet: TestFleet;
let workloads: AsyncDisposable | undefined;
beforeAll(async () => {
  fleet = await startFleet({ members: [NAME], join: [] });
  const client = fleet.client(NAME);
  // The agent's rights do not hang on roles of the names that a join gives to those that it installs.
  const user = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: userOf(MEMBER_ACCESS) } as const;
  for (const { of, object } of accessManifests(MEMBER_ACCESS, user)) await client.delete(of, keyOf(object));
  await client.create(CLUSTER_ROLE_BINDINGS, {
    metadata: { name: "agent" },
    roleRef: { apiGroup: user.apiGroup, kind: "ClusterRole", name: "cluster-admin" },
    subjects: [user],
  });
  await client.create(SERVICE_ACCOUNTS, { metadata: { namespace, name: "default" } });
});
afterAll(() => fleet[Symbol.asyncDispose]());
afterEach(async () => {
  await workloads?.[Symbol.asyncDispose]();
  workloads = undefined;
});

async function workloadsAre(said: Said): Promise<void> {
  workloads = await sayOfWorkloads(fleet.client(NAME), said);
}

function optionsFor(more: Partial<JoinOptions>): JoinOptions {
  const member = fleet.members.get(NAME)!.config;
  return { name: NAME, hub: fleet.hub.config, member, heartbeatSeconds: 1, timeoutMs: PATIENCE_MS, ...more };
}

/** The reports of a join up to its end, successful or not. */
async function join(more: Partial<JoinOptions>) {
  const findings: Finding[] = [];
  const steps: Report[] = [];
  const deps = {
    ...testDeps("join"),
    onFinding: (it: Finding) => findings.push(it),
    progress: (it: Report) => steps.push(it),
  };
  const problem = await joinCluster(optionsFor(more), deps, AbortSignal.timeout(LIMIT_MS)).then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { problem, findings, steps };
}

async function leave(): Promise<void> {
  const { name, hub, member } = optionsFor({});
  const options = { name, hub, member, timeoutMs: PATIENCE_MS };
  await leaveFleet(options, testDeps("leave"), AbortSignal.timeout(LIMIT_MS));
}

async function objects(): Promise<readonly string[]> {
  const kinds: readonly Resource[] = [
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    SECRETS,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    PODS,
  ];
  const lists = await Promise.all(kinds.map((of) => fleet.client(NAME).list(of)));
  return lists.flatMap(({ items }, at) =>
    items.map((it) => `${kinds[at]?.kind} ${it.metadata.namespace ?? ""}/${it.metadata.name}`),
  );
}

describe("the pod that probes the hub", () => {
  const ended = (exitCode: number, message: string): Pod["status"] => ({
    phase: exitCode === 0 ? "Succeeded" : "Failed",
    containerStatuses: [
      {
        name: "reach",
        ready: false,
        restartCount: 0,
        image: "i",
        imageID: "",
        state: { terminated: { exitCode, message } },
      },
    ],
  });
  const probe = { probeImage: "fairlead:test", waitForAgents: false } as const;

  it("probes with the address and the authorities of the agent, and is deleted afterwards", async () => {
    const seen: Pod[] = [];
    await workloadsAre({
      pod: (pod) => {
        seen.push(pod);
        return ended(0, "");
      },
    });
    const { problem, findings } = await join(probe);
    expect(problem).toBeUndefined();
    const { server, ca } = fleet.hub.config;
    expect(findings).toContainEqual({
      check: "reachability",
      status: "ok",
      message: `a pod of cluster a reaches the hub at ${server}`,
    });
    expect(seen).toHaveLength(1);
    expect(seen[0]?.spec?.containers[0]).toMatchObject({
      image: "fairlead:test",
      args: ["reach", "--server", server],
      env: [{ name: "FAIRLEAD_HUB_CA", value: ca }],
    });
    await eventually(fleet.client(NAME), PODS, (all) => all.length === 0);
    await leave();
  });

  it("ends the join with its message before anything is registered, if it fails", async () => {
    await workloadsAre({ pod: () => ended(1, "https://hub cannot be reached: connect ECONNREFUSED\n") });
    const { problem } = await join(probe);
    expect(problem).toContain(
      "from a pod of cluster a: https://hub cannot be reached: connect ECONNREFUSED. ",
    );
    expect(problem).toContain("or pass another address with --hub-server");
    expect((await fleet.client("hub").list(MEMBER_CLUSTERS)).items).toEqual([]);
    await eventually(fleet.client(NAME), PODS, (all) => all.length === 0);
  });

  it("is reported with the reason if it does not start, and is deleted after the timeout", async () => {
    const waiting = { reason: "ErrImagePull", message: "fairlead:test: not found" };
    const status = { ...ended(1, ""), phase: "Pending" } as NonNullable<Pod["status"]>;
    const [container] = status.containerStatuses ?? [];
    await workloadsAre({
      pod: () => ({ ...status, containerStatuses: [{ ...container!, state: { waiting } }] }),
    });
    const { problem } = await join({ ...probe, timeoutMs: 700 });
    expect(problem).toContain(
      "the reachability probe pod did not start in cluster a: ErrImagePull: fairlead:test: not found; " +
        "pass an image that its nodes can pull with --image, or --skip-check reachability",
    );
    await eventually(fleet.client(NAME), PODS, (all) => all.length === 0);
  });

  it("distinguishes a hub that answers, one that does not, and one with an untrusted certificate", async () => {
    const { server, ca } = fleet.hub.config;
    const signal = AbortSignal.timeout(LIMIT_MS);
    const ask = (more: { readonly server?: string; readonly ca?: string | undefined }) =>
      reachHub({ server, ca, timeoutMs: 5000, ...more }, signal).catch(
        (error: Error) => `${error.message}: ${(error.cause as Error).message}`,
      );
    expect(await ask({})).toMatch(/answers \(\d+\), and its certificate is valid$/);
    const { cert } = await issueAuthority({ commonName: "another authority" });
    expect(await ask({ ca: cert })).toMatch(/cannot be reached: (unable to|self.signed)/);
    expect(await ask({ server: "https://127.0.0.1:1" })).toMatch(/ECONNREFUSED/);
  });
});

describe("a join that installs", () => {
  const skipChecks = new Set(["reachability"] as const);

  it("has joined when all pods are rolled out, and leaving deletes all that it created", async () => {
    await workloadsAre({ deployment: rolledOut });
    const before = await objects();
    const withNodes = { ...install, nodes: true };
    const plan = await planJoin(
      optionsFor({ install: withNodes }),
      testDeps("join"),
      AbortSignal.timeout(LIMIT_MS),
    );
    const planned = plan.steps.flatMap((it) => it.changes).map((it) => `${it.kind} ${it.name}`);
    const ofNodes = [
      "ServiceAccount fleet-system/fairlead-node-sa",
      "ClusterRole fairlead-node",
      "Role fleet-system/fairlead-node",
      "Role fleet-system/fairlead-member-nodes",
      "RoleBinding fleet-system/fairlead-member-nodes",
    ];
    expect(planned).toEqual(expect.arrayContaining(ofNodes));
    const { problem, steps } = await join({ install: withNodes, skipChecks });
    expect(problem).toBeUndefined();
    expect(steps.map((it) => it.step).slice(-3)).toEqual([
      "install the agent in cluster a",
      "wait until the agent runs in cluster a",
      "wait until a has joined",
    ]);
    const made = (await objects()).filter((it) => !before.includes(it));
    expect(made).toContain("Deployment fleet-system/fairlead-member");
    expect(made).toContain("PodDisruptionBudget fleet-system/fairlead-member-dns");
    expect(made.map((it) => it.replace(" /", " "))).toEqual(expect.arrayContaining(ofNodes));
    const agent = await fleet.client(NAME).get(DEPLOYMENTS, objectKey(namespace, "fairlead-member"));
    expect(agent.spec?.template.spec?.containers[0]?.args).toContain("--node-image=fairlead");
    await leave();
    expect(await objects()).toEqual(before);
  });

  it("names the stuck pod and the reason, and rolls everything back", async () => {
    const client = fleet.client(NAME);
    const before = await objects();
    const stuck = (deployment: Deployment): Deployment["status"] => {
      if (deployment.metadata.name === "fairlead-member") void makeStuckPod(deployment);
      return { ...rolledOut(deployment), readyReplicas: 0, availableReplicas: 0 };
    };
    await workloadsAre({ deployment: stuck });
    const { problem, steps } = await join({ install, skipChecks, timeoutMs: 1500 });
    expect(problem).toBe(
      "Deployment fleet-system/fairlead-member of cluster a was not rolled out within 1.5 s: 0 of 2 pods are ready. " +
        "Pod fleet-system/fairlead-member-x1: CrashLoopBackOff: back-off 10s; it ended with 1 Error " +
        "(last event: BackOff: restarting failed container): kubectl -n fleet-system logs fairlead-member-x1 --previous",
    );
    expect(steps.at(-1)).toEqual({ step: "roll back", status: "undone" });
    await client.delete(PODS, objectKey(namespace, "fairlead-member-x1"), { gracePeriodSeconds: 0 });
    await eventually(client, PODS, (all) => all.length === 0);
    expect(await objects()).toEqual(before);
    await eventually(fleet.client("hub"), MEMBER_CLUSTERS, (all) => all.length === 0);
  });

  it("and fails after its agent became active withdraws imports, and marks users' objects", async () => {
    const client = fleet.client(NAME);
    await deploy(client, { addresses: ["10.1.0.1"] });
    await exportBy("mcs", client);
    const hello = objectKey("work", "hello");
    const stop = new AbortController();
    // Its pods are never rolled out, and yet the agent runs.
    const options = optionsFor({ install, skipChecks, timeoutMs: LIMIT_MS });
    const failing = joinCluster(options, testDeps("join"), stop.signal);
    failing.catch(() => {});
    await eventuallyOne(client, MCS_SERVICE_IMPORTS, hello);
    await eventuallyOne(client, MCS_SERVICE_EXPORTS, hello, (it) =>
      isConditionTrue(it.status?.conditions, "Ready"),
    );
    stop.abort(new Error("interrupted"));
    // Whichever wait it was in.
    await expect(failing).rejects.toThrow(/interrupted|cancelled/);
    expect((await client.list(MCS_SERVICE_IMPORTS)).items).toEqual([]);
    const { status } = await client.get(MCS_SERVICE_EXPORTS, hello);
    const reported = status?.conditions?.map((it) => `${it.type} ${it.status}`);
    expect(reported?.toSorted()).toEqual(["Ready False", "Valid True", "fairlead.dev/Active False"]);
    await eventually(fleet.client("hub"), MEMBER_CLUSTERS, (all) => all.length === 0);
    await client.delete(NAMESPACES, objectKey(undefined, "work"));
  });

  it("does not change a Helm release, and waits for its pods; leaving does the same", async () => {
    await workloadsAre({ deployment: rolledOut });
    const client = fleet.client(NAME);
    const labels = {
      "app.kubernetes.io/part-of": "fairlead",
      "app.kubernetes.io/component": "member",
      "app.kubernetes.io/instance": "east",
      "helm.sh/chart": "fairlead-member-0.1.0",
    };
    const matchLabels = { app: "x" };
    await client.create(DEPLOYMENTS, {
      metadata: { namespace, name: "east-fairlead-member", labels },
      spec: {
        selector: { matchLabels },
        template: { metadata: { labels: matchLabels }, spec: { containers: [{ name: "c", image: "i" }] } },
      },
    });
    const before = (await objects()).filter((it) => !it.startsWith("Secret "));
    const plan = await planJoin(optionsFor({ install }), testDeps("join"), AbortSignal.timeout(LIMIT_MS));
    expect(plan.steps.find((it) => it.step.startsWith("install the agent"))?.changes).toEqual([
      {
        cluster: "cluster a",
        verb: "none",
        kind: "Deployment",
        name: "fleet-system/east-fairlead-member",
        note: "of Helm release east",
      },
    ]);
    const { problem, steps } = await join({ install, skipChecks });
    expect(problem).toBeUndefined();
    expect(steps.find((it) => it.step.startsWith("install the agent"))?.message).toBe(
      "already installed by Helm release east, which is not changed",
    );
    await leave();
    expect((await objects()).filter((it) => !it.startsWith("Secret "))).toEqual(before);
    expect(await client.find(SECRETS, objectKey(namespace, HUB_SECRET))).toBeUndefined();
    await client.delete(DEPLOYMENTS, objectKey(namespace, "east-fairlead-member"));
  });
});

/** As a ReplicaSet and a kubelet would make it of a program that ends at once. */
async function makeStuckPod({ spec }: Deployment): Promise<void> {
  const client = fleet.client(NAME);
  const name = "fairlead-member-x1";
  const { metadata: template, spec: podSpec } = spec!.template;
  const pod = await client.create(PODS, {
    metadata: { namespace, name, labels: template?.labels ?? {} },
    spec: podSpec!,
  });
  const container = { name: "member", ready: false, restartCount: 3, image: "i", imageID: "" };
  const status: Pod["status"] = {
    phase: "Running",
    containerStatuses: [
      {
        ...container,
        state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } },
        lastState: { terminated: { exitCode: 1, reason: "Error" } },
      },
    ],
  };
  await client.mergePatch(PODS, objectKey(namespace, name), { status }, { subresource: "status" });
  const { uid } = pod.metadata;
  await client.create(EVENTS, {
    metadata: { namespace, name: "e1" },
    involvedObject: { kind: "Pod", namespace, name, ...(uid === undefined ? {} : { uid }) },
    type: "Warning",
    reason: "BackOff",
    message: "restarting failed container",
  });
}
