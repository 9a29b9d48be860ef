/** Nodes that boot: no connection that a policy denies is made before their agents have written it. */

import { connect } from "node:net";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { POLICY_AT_BOOT, STARTUP_TAINT } from "@fairlead/fleet/api/fairlead.dev/node-agents.ts";
import { isReady } from "@fairlead/fleet/domain/pods.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Node, NODES, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS } from "@fairlead/kube/api/rbac/v1/types.ts";
import { makeNamespace } from "../support/lab-actions.ts";
import { startLab, type TestLab } from "../support/lab-fixture.ts";
import { nodePod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { isFull } from "../support/sample.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";

const CLUSTER = "member-1";
const NODE = "member-1-node-2";
const NODE_KEY = objectKey(undefined, NODE);
const PROCESS = "member-1/node-2";
/** The rights of the agents. */
const AGENTS = objectKey(undefined, "lab-fairlead-node");
/** Of each kind. */
const REBOOTS = isFull ? 10 : 1;
/** What is dropped is never answered. Unit: milliseconds. */
const ANSWER_MS = 200;
const SERVERS = 3;

const SERVE = `exec node -e 'require("node:net").createServer((s)=>{s.on("error",()=>{});s.end("hello")}).listen(80,"::")'`;

const DENY = { podSelector: { matchLabels: { app: "server" } }, policyTypes: ["Ingress"] };
const ALLOW = { ...DENY, ingress: [{ from: [{ ipBlock: { cidr: "0.0.0.0/0" } }] }] };

let lab: TestLab;

/** Connects to the addresses of pods, one after another and from outside of the cluster, until it is stopped. */
class Loop {
  readonly #addresses: () => readonly string[];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[];
  tries = 0;
  connected = 0;

  constructor(addresses: () => readonly string[]) {
    this.#addresses = addresses;
    this.#running = Array.from({ length: 8 }, (_, at) => this.#run(at));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  async #run(first: number): Promise<void> {
    for (let at = first; !this.#stop.signal.aborted; at++) {
      const all = this.#addresses();
      const host = all[at % all.length];
      const isConnected = host !== undefined && (await connects(host));
      if (host !== undefined) this.tries += 1;
      if (isConnected) this.connected += 1;
      await delay(systemClock, 10, this.#stop.signal).catch(() => {});
    }
  }
}

/** Whether a server answers: one that is not there and one that is cut off do not. */
function connects(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port: 80 });
    const end = (is: boolean): void => {
      timer[Symbol.dispose]();
      socket.destroy();
      resolve(is);
    };
    const timer = systemClock.after(ANSWER_MS, () => end(false));
    socket.on("connect", () => end(true));
    socket.on("error", () => end(false));
  });
}

async function policy(spec: object | undefined): Promise<void> {
  const key = objectKey("work", "p");
  const client = await lab.client(CLUSTER);
  if ((await client.find(NETWORK_POLICIES, key)) !== undefined) await client.delete(NETWORK_POLICIES, key);
  if (spec === undefined) return;
  await lab.apply(CLUSTER, {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { namespace: "work", name: "p" },
    spec,
  });
}

/** IPv4 addresses of the servers, which all are ready. */
async function servers(): Promise<readonly string[]> {
  const pods = await eventually(
    await lab.client(CLUSTER),
    PODS,
    (all) => {
      const living = all.filter((pod) => pod.metadata.deletionTimestamp === undefined);
      return living.length === SERVERS && living.every(isReady);
    },
    { namespace: "work", labelSelector: "app=server", timeoutMs: 90_000 },
  );
  return pods.flatMap((pod) => pod.status?.podIPs?.[0]?.ip ?? []);
}

/** Whether none or all can be reached. */
function untilReachable(addresses: readonly string[], is: boolean): Promise<unknown> {
  return until(
    `${addresses.join(", ")} ${is ? "can" : "cannot"} be reached`,
    () => Promise.all(addresses.map(connects)),
    (found) => found.every((it) => it === is),
    { timeoutMs: 60_000 },
  );
}

function untilNode(isSo: (node: Node) => boolean): Promise<Node> {
  return lab.client(CLUSTER).then((client) => eventuallyOne(client, NODES, NODE_KEY, isSo));
}

const hasTaint = ({ spec }: Node): boolean => spec?.taints?.some((it) => it.key === STARTUP_TAINT) === true;

function atBoot({ status }: Node): string | undefined {
  const found = status?.conditions?.find((it) => it.type === POLICY_AT_BOOT);
  return found && `${found.status} ${found.reason}`;
}

const state = (): string => join(lab.layout.node(NODE), "node");
const savedTable = (): boolean => existsSync(join(state(), "policy.nft"));

describeOnKernel("a node that boots", () => {
  /** Of this node's servers, former ones included. */
  const seen = new Set<string>();

  beforeAll(async () => {
    lab = await startLab({ name: "boots", members: 1, nodes: 2, flags: ["--network-policy"] });
    await makeNamespace(await lab.client(CLUSTER), "work");
    const { spec } = nodePod({ namespace: "work", name: "server" }, SERVE) as { spec: object };
    const labels = { app: "server" };
    await lab.apply(CLUSTER, {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { namespace: "work", name: "server" },
      spec: {
        replicas: SERVERS,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: { ...spec, restartPolicy: "Always", nodeSelector: { "kubernetes.io/hostname": NODE } },
        },
      },
    });
    for (const it of await servers()) seen.add(it);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("serves nearly all connections without a policy", async () => {
    await untilReachable([...seen], true);
    const loop = new Loop(() => [...seen]);
    await until(
      "there were many tries",
      () => Promise.resolve(loop.tries),
      (tries) => tries > 300,
    );
    await loop.stop();
    expect(loop.connected / loop.tries).toBeGreaterThan(0.95);
  });

  it.each<[string, () => Promise<void>]>([
    ["after a drain", async () => void (await lab.lab("reboot", ["--drain", NODE]))],
    [
      "after a power failure, however long its agent cannot read the cluster,",
      async () => {
        const client = await lab.client(CLUSTER);
        const { metadata, ...binding } = await client.get(CLUSTER_ROLE_BINDINGS, AGENTS);
        await client.delete(CLUSTER_ROLE_BINDINGS, AGENTS);
        await lab.lab("reboot", ["--power-cut", NODE]);
        await servers();
        await delay(systemClock, 1000, AbortSignal.timeout(60_000));
        await client.create(CLUSTER_ROLE_BINDINGS, { ...binding, metadata: { name: metadata.name } });
      },
    ],
    [
      "after its kubelet and its agent were killed",
      async () => {
        await lab.lab("kill", [PROCESS]);
        await lab.lab("kill", [`${PROCESS}/node`]);
        await lab.lab("restore", [NODE]);
      },
    ],
  ])(
    "%s lets no connection pass that a policy denies",
    async (_, boot) => {
      await policy(DENY);
      await untilReachable(await servers(), false);
      await until("the table is kept", () => Promise.resolve(savedTable()), Boolean);
      const client = await lab.client(CLUSTER);
      const over = new AbortController();
      const loop = new Loop(() => [...seen]);
      // New pods have other addresses, which count from the moment they have them.
      const following = (async () => {
        while (!over.signal.aborted) {
          const { items } = await client.list(PODS, { namespace: "work", labelSelector: "app=server" });
          for (const it of items) for (const one of it.status?.podIPs?.slice(0, 1) ?? []) seen.add(one.ip);
          await delay(systemClock, 50, over.signal).catch(() => {});
        }
      })();
      for (let count = 0; count < REBOOTS; count++) {
        await boot();
        for (const it of await servers()) seen.add(it);
      }
      const before = loop.tries;
      await until(
        "it was tried after the last boot",
        () => Promise.resolve(loop.tries),
        (tries) => tries > before + 50,
      );
      over.abort();
      await following;
      await loop.stop();
      expect(loop.connected).toBe(0);
    },
    900_000,
  );

  it("reports that it had its policies from its boot on, and the member, that other nodes had not", async () => {
    await untilNode((node) => atBoot(node) === "True Restored");
    await eventuallyOne(
      await lab.client("hub"),
      MEMBER_CLUSTERS,
      objectKey(undefined, CLUSTER),
      ({ status }) => {
        const conditions = (status?.agentStatus ?? []).flatMap((it) => it.conditions ?? []);
        const found = conditions.find((it) => it.type === POLICY_AT_BOOT);
        return found?.reason === "OnlyNewPodsWait" && found.message.includes("member-1-node-1");
      },
    );
  });

  it("serves what a policy allows once its agent runs", async () => {
    await policy(ALLOW);
    await untilReachable(await servers(), true);
    await lab.lab("reboot", ["--power-cut", NODE]);
    await untilReachable(await servers(), true);
  });

  it("without an init unit reports that it had no policies at first", async () => {
    await lab.lab("reboot", ["--power-cut", "--no-restore", NODE]);
    await untilNode((node) => atBoot(node) === "False NotRestored");
    await untilReachable(await servers(), true);
  });

  it("takes no new pods until its agent has written its policies", async () => {
    await lab.lab("kill", [`${PROCESS}/node`]);
    await lab.lab("kill", [PROCESS]);
    writeFileSync(join(lab.layout.node(NODE), "boot-id"), "of-this-test\n");
    rmSync(join(state(), "policy.restored"), { force: true });
    await lab.lab("restore", [PROCESS]);
    await untilNode(hasTaint);
    const client = await lab.client(CLUSTER);
    await client.mergePatch(DEPLOYMENTS, objectKey("work", "server"), { spec: { replicas: SERVERS + 1 } });
    await eventually(
      client,
      PODS,
      (all) => all.some((pod) => pod.status?.conditions?.some((it) => it.reason === "Unschedulable")),
      { namespace: "work", labelSelector: "app=server" },
    );
    await lab.lab("restore", [NODE]);
    await untilNode((node) => !hasTaint(node));
    await eventually(client, PODS, (all) => all.filter(isReady).length === SERVERS + 1, {
      namespace: "work",
      labelSelector: "app=server",
    });
  });

  it("gets the taint when it is cordoned, and loses it when it is not any more", async () => {
    const client = await lab.client(CLUSTER);
    await client.mergePatch(NODES, NODE_KEY, { spec: { unschedulable: true } });
    await untilNode(hasTaint);
    await client.mergePatch(NODES, NODE_KEY, { spec: { unschedulable: null } });
    await untilNode((node) => !hasTaint(node));
  });
});
