import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { type Deployment, DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CONFIG_MAPS, NAMESPACES, type Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { CLUSTER_UID_ANNOTATION } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { exec } from "@fairlead/base/exec.ts";
import { KUBEADM } from "@fairlead/fleet/cli/dns-setup/corefiles.fake.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { runAgent } from "@fairlead/fleet/member/agent/agent.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { createLabInformers } from "@fairlead/lab/controllers/informers.ts";
import { namespaceDefaultsController } from "@fairlead/lab/controllers/namespace-defaults/reconcile.ts";
import { KUBECTL, startTestServer, type TestServer } from "../../packages/apiserver/test/support.ts";
import { aborted, Restartable, testDeps } from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";
import { rolledOut, sayOfWorkloads } from "../support/workloads.ts";
import { checkout } from "../support/lab-fixture.ts";
import { HELMS } from "../support/helm.ts";
import { type Block, readBlocks } from "./install-page.ts";
import { runJobs, runProgram } from "./jobs.ts";

/**
 * The commands of docs/install.md, unchanged, by sh, with Helm, kubectl and this checkout's fairlead, against two
 * API servers. These have no nodes: the hub's and the member's programs run in this process, and other pods and Jobs than
 * those that install CRDs succeed by themselves.
 */

const [helm] = HELMS;
const MEMBER = "member-1";
const blocks = readBlocks(readFileSync(join(checkout, "docs/install.md"), "utf8"));

/** Sections whose blocks are run, by the test that does it. */
const RUN = {
  charts: ["With Helm", "Upgrade", "Uninstall"],
  alone: ["Helm alone", "From fleet-networking"],
  plain: ["Without Helm"],
} as const;

describe("the blocks of docs/install.md", () => {
  it("are run here, or state why they are not", () => {
    const run: readonly string[] = Object.values(RUN).flat();
    const lost = blocks.filter((it) => it.notRun === undefined && !run.includes(it.heading));
    expect(lost).toEqual([]);
    for (const heading of run)
      expect(blocks.filter((it) => it.heading === heading && it.notRun === undefined).length).toBeGreaterThan(
        0,
      );
  });

  it("that are not run use tools that are not available here", () => {
    const apart = blocks.filter((it) => it.notRun !== undefined);
    expect(apart.length).toBeGreaterThan(0);
    for (const { text } of apart) expect(text).not.toMatch(/^ *(?:fairlead|helm|kubectl)\b/m);
  });
});

class World implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly #env: Readonly<Record<string, string>>;
  readonly #hubAddress: string;
  readonly hub: KubeClient;
  readonly member: KubeClient;

  private constructor(
    stack: AsyncDisposableStack,
    env: Readonly<Record<string, string>>,
    clients: { readonly hub: KubeClient; readonly member: KubeClient; readonly hubAddress: string },
  ) {
    this.#stack = stack;
    this.#env = env;
    this.#hubAddress = clients.hubAddress;
    this.hub = clients.hub;
    this.member = clients.member;
  }

  static async start(): Promise<World> {
    await using stack = new AsyncDisposableStack();
    const home = await mkdtemp(join(tmpdir(), "install-page-"));
    stack.defer(() => rm(home, { recursive: true, force: true }));
    const [hub, member] = [stack.use(await startTestServer()), stack.use(await startTestServer())];
    const clients = { hub: await attend(stack, hub, home), member: await attend(stack, member, home) };
    await clients.member.create(CONFIG_MAPS, {
      metadata: { namespace: "kube-system", name: "coredns" },
      data: { Corefile: KUBEADM },
    });
    await startPrograms(stack, clients);
    const env = { HOME: home, KUBECONFIG: join(home, "kubeconfig"), PATH: pathFor(home) };
    writeFileSync(env.KUBECONFIG, merged({ hub, [MEMBER]: member }));
    const hubAddress = new URL(hub.server.url).host;
    return new World(stack.move(), env, { ...clients, hubAddress });
  }

  /** Runs the blocks of a section, one after another. Placeholders are filled in. */
  async run(section: readonly Block[]): Promise<void> {
    for (const { text } of section) {
      const script = text.replaceAll("HUB:6443", this.#hubAddress);
      const options = { cwd: checkout, env: this.#env, timeoutMs: 120_000, allowFailure: true };
      const { exitCode, stdout, stderr } = await exec("sh", ["-euc", script], options);
      expect({ script, exitCode, said: exitCode === 0 ? "" : stdout + stderr }).toEqual({
        script,
        exitCode: 0,
        said: "",
      });
    }
  }

  /** That the member has joined. */
  async joined(): Promise<void> {
    await eventuallyOne(this.hub, MEMBER_CLUSTERS, objectKey(undefined, MEMBER), (it) =>
      isConditionTrue(it.status?.conditions, "Joined"),
    );
  }

  async corefile(): Promise<string | undefined> {
    return (await this.member.get(CONFIG_MAPS, objectKey("kube-system", "coredns"))).data?.["Corefile"];
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** In the place of nodes. */
async function attend(
  stack: AsyncDisposableStack,
  { server }: TestServer,
  home: string,
): Promise<KubeClient> {
  const client = stack.use(connect(await loadKubeconfig(server.kubeconfig), testDeps("test")));
  await giveDefaults(stack, client, server.ca);
  stack.use(await sayOfWorkloads(client, { deployment: available, pod: succeeded }));
  stack.use(
    await runJobs({ server, client, home }, async (args, kubeconfig) => {
      if (args[0] !== "crds") return true;
      return (await runProgram([...args, "--kubeconfig", kubeconfig])).exitCode === 0;
    }),
  );
  return client;
}

/** What every namespace has, by a controller of the lab: pods need their ServiceAccount. */
async function giveDefaults(stack: AsyncDisposableStack, client: KubeClient, rootCa: string): Promise<void> {
  const stop = new AbortController();
  const informers = createLabInformers(client, testDeps("defaults"));
  for (const it of [informers.namespaces, informers.serviceAccounts, informers.rootCas]) stack.use(it);
  const defaults = stack.use(
    namespaceDefaultsController({ client, informers, rootCa }, testDeps("defaults")),
  );
  stack.defer(() => stop.abort());
  await defaults.start(stop.signal);
}

/** Programs run here from the moment on in which a cluster has a Deployment of them. */
async function startPrograms(
  stack: AsyncDisposableStack,
  { hub, member }: { readonly hub: KubeClient; readonly member: KubeClient },
): Promise<void> {
  const hubProgram = new Restartable(async (signal) => {
    await using _running = await startHub(hub, {}, testDeps("hub"), signal);
    await aborted(signal);
  });
  const agent = new Restartable((signal) => {
    const deps = testDeps("member");
    return runAgent({ local: member, connectHub: (config) => connect(config, deps), deps }, signal);
  });
  for (const [client, name, program] of [
    [hub, "fairlead-hub", hubProgram],
    [member, "fairlead-member", agent],
  ] as const) {
    stack.use(program);
    const deployments = stack.use(createInformer(client, DEPLOYMENTS, {}, testDeps("test")));
    deployments.subscribe(({ before, after }) => {
      if (before === undefined && after?.metadata.name === name) program.start();
    });
    const stop = new AbortController();
    stack.defer(() => stop.abort());
    deployments.start(stop.signal);
    await deployments.synced(stop.signal);
  }
}

/** What people have in their PATH. */
function pathFor(home: string): string {
  const folder = join(home, "bin");
  mkdirSync(folder);
  for (const [name, path] of [
    ["fairlead", `${checkout}bin/fairlead`],
    ["helm", helm?.program],
    ["kubectl", KUBECTL],
  ] as const)
    if (path !== undefined) symlinkSync(path, join(folder, name));
  return `${folder}:/usr/bin:/bin`;
}

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: object }[];
  readonly users: readonly { readonly user: object }[];
}

/** One file with a context for each; the current context does not exist, so that every command must name one. */
function merged(servers: Readonly<Record<string, TestServer>>): string {
  const all = Object.entries(servers).map(([name, { server }]) => {
    const read = parse(readFileSync(server.kubeconfig, "utf8")) as Kubeconfig;
    return {
      cluster: { name, cluster: read.clusters[0]?.cluster },
      user: { name, user: read.users[0]?.user },
      context: { name, context: { cluster: name, user: name } },
    };
  });
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: all.map((it) => it.cluster),
    users: all.map((it) => it.user),
    contexts: all.map((it) => it.context),
    "current-context": "",
  });
}

/** With what Helm waits for. */
function available(deployment: Deployment): Deployment["status"] {
  const at = { lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:00Z" };
  const conditions = [
    { type: "Available", status: "True", reason: "MinimumReplicasAvailable", message: "", ...at },
    { type: "Progressing", status: "True", reason: "NewReplicaSetAvailable", message: "", ...at },
  ] as const;
  return { ...rolledOut(deployment), conditions: [...conditions] };
}

function succeeded({ spec }: Pod): Pod["status"] {
  const ended = { ready: false, restartCount: 0, image: "i", imageID: "" };
  return {
    phase: "Succeeded",
    containerStatuses: (spec?.containers ?? []).map(({ name }) => ({
      ...ended,
      name,
      state: { terminated: { exitCode: 0, message: "" } },
    })),
  };
}

const section = (heading: string): readonly Block[] =>
  blocks.filter((it) => it.heading === heading && it.notRun === undefined);

describe.skipIf(KUBECTL === undefined || helm === undefined)("the commands of docs/install.md", () => {
  it("install with Helm, join, upgrade, and remove everything again", { timeout: 240_000 }, async () => {
    await using world = await World.start();
    const [install, upgrade, uninstall] = RUN.charts;
    await world.run(section(install));
    await world.joined();
    expect(await world.corefile()).toContain("clusterset.local:53 fleetboard.local:53 {");
    await world.run(section(upgrade));
    await world.joined();
    await world.run(section(uninstall));
    for (const client of [world.hub, world.member])
      for (const kind of [DEPLOYMENTS, CUSTOM_RESOURCE_DEFINITIONS] as readonly Resource[])
        expect((await client.list(kind)).items.map((it) => it.metadata.name)).toEqual([]);
    expect(await world.corefile()).toBe(KUBEADM);
  });

  it(
    "join with Helm alone, by a token, and say which cluster a member is",
    { timeout: 240_000 },
    async () => {
      await using world = await World.start();
      const [alone, original] = RUN.alone;
      await world.run([...section("With Helm").slice(0, 1), ...section(alone)]);
      await world.joined();
      await world.run(section(original));
      const { uid } = (await world.member.get(NAMESPACES, objectKey(undefined, "kube-system"))).metadata;
      const { annotations } = (await world.hub.get(MEMBER_CLUSTERS, objectKey(undefined, MEMBER))).metadata;
      expect(annotations?.[CLUSTER_UID_ANNOTATION]).toBe(uid);
    },
  );

  it("join without Helm, and make its DNS known", { timeout: 240_000 }, async () => {
    await using world = await World.start();
    await world.run(section("With Helm").slice(0, 1));
    for (const heading of RUN.plain) await world.run(section(heading));
    await world.joined();
    const made = (await world.member.list(DEPLOYMENTS)).items.map((it) => it.metadata.name);
    expect(made.toSorted()).toEqual(["fairlead-member", "fairlead-member-dns"]);
    expect(await world.corefile()).toContain("clusterset.local:53 fleetboard.local:53 {");
  });
});
