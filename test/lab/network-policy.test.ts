/** Network policies in the lab, with packets: inside one cluster, and between two in a flat network. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_MESH_PROFILES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { exec } from "@fairlead/base/exec.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { NAMESPACES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import type { FlowRecord } from "@fairlead/fleet/domain/flow-record.ts";
import { isReady } from "@fairlead/fleet/domain/pods.ts";
import { makeNamespace } from "../support/lab-actions.ts";
import { found, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { nodePod, service, shellPod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { eventuallyOne, until } from "../support/waiting.ts";

const ONE = "member-1";
const TWO = "member-2";
const SERVER = { namespace: "work", name: "server" };

let lab: TestLab;

/** A server that answers on TCP 80 and 81. */
function server(name: string, node: string): object {
  const pod = nodePod({ namespace: "work", name }, SERVE) as { spec: object; metadata: object };
  return { ...pod, spec: { ...pod.spec, nodeName: node } };
}

const SERVE = `exec node -e 'for(const p of [80,81])require("node:net").createServer((s)=>{s.on("error",()=>{});s.write("hello\\n")}).listen(p,"::")'`;

function client(name: string, node: string): object {
  const pod = shellPod({ namespace: "work", name }) as { spec: object; metadata: object };
  return { ...pod, spec: { ...pod.spec, nodeName: node } };
}

async function addressesOf(cluster: string, name: string): Promise<readonly string[]> {
  const pod = await eventuallyOne(await lab.client(cluster), PODS, objectKey("work", name), isReady);
  return (pod.status?.podIPs ?? []).map((it) => it.ip);
}

/** Which of the addresses and ports of a pod another one can connect to. */
async function reached(
  cluster: string,
  from: string,
  to: readonly string[],
  ports = [80, 81],
): Promise<readonly number[]> {
  const lines = to.flatMap((it) =>
    ports.map(
      (port) =>
        `(timeout 0.7 bash -c 'exec 3<>/dev/tcp/${it}/${port}; head -c1 <&3 >/dev/null' 2>/dev/null && echo ${port}) &`,
    ),
  );
  const out = await lab.inPod(cluster, `work/${from}`, `${lines.join("\n")}\nwait`);
  return out
    .split("\n")
    .filter((it) => it !== "")
    .map(Number)
    .toSorted((a, b) => a - b);
}

function untilReached(cluster: string, from: string, to: readonly string[], ports: readonly number[]) {
  return until(
    `${from} of ${cluster} reaches ${ports.join(" and ") || "nothing"} of ${to.join(" and ")}`,
    () => reached(cluster, from, to),
    (it) => it.join() === ports.flatMap((port) => to.map(() => port)).join(),
  );
}

async function policy(cluster: string, name: string, spec: object): Promise<void> {
  await lab.apply(cluster, {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { namespace: "work", name },
    spec,
  });
}

/** Conditions that the agent of a member reports, as "status reason". */
async function untilReported(cluster: string, expected: Readonly<Record<string, string>>): Promise<void> {
  await eventuallyOne(
    await lab.client("hub"),
    MEMBER_CLUSTERS,
    objectKey(undefined, cluster),
    ({ status }) => {
      const conditions = (status?.agentStatus ?? []).flatMap((it) => it.conditions ?? []);
      return Object.entries(expected).every(([type, said]) => {
        const condition = conditions.find((it) => it.type === `fairlead.dev/${type}`);
        return `${condition?.status} ${condition?.reason}` === said;
      });
    },
  );
}

describeOnKernel("network policies of a cluster", () => {
  let there: readonly string[];
  beforeAll(async () => {
    lab = await startLab({ name: "netpol", nodes: 2, flags: ["--network-policy"] });
    for (const cluster of [ONE, TWO]) {
      await makeNamespace(await lab.client(cluster), "work");
      await lab.apply(
        cluster,
        server("server", `${cluster}-node-1`),
        client("same-node", `${cluster}-node-1`),
        client("other-node", `${cluster}-node-2`),
        service(
          SERVER,
          {},
          { ports: [{ name: "tcp", port: 80, targetPort: 80 }], ipFamilyPolicy: "PreferDualStack" },
        ),
      );
    }
    there = await addressesOf(ONE, "server");
    for (const cluster of [ONE, TWO])
      for (const name of ["same-node", "other-node"]) await addressesOf(cluster, name);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("deny by default what no rule allows, from pods of the same node, of another node and of another cluster", async () => {
    for (const [cluster, from] of [
      [ONE, "same-node"],
      [ONE, "other-node"],
      [TWO, "same-node"],
    ] as const)
      await untilReached(cluster, from, there, [80, 81]);
    await policy(ONE, "deny", { podSelector: { matchLabels: { app: "server" } }, policyTypes: ["Ingress"] });
    for (const [cluster, from] of [
      [ONE, "same-node"],
      [ONE, "other-node"],
      [TWO, "same-node"],
    ] as const)
      await untilReached(cluster, from, there, []);
  });

  it("are reported as enforced by agents that no DaemonSet runs, and not between pods at a bridge that the kernel does not filter", async () => {
    await untilReported(ONE, { CrossClusterPolicy: "True Enforced", SameNodePolicy: "True Enforced" });
    const node = found(lab.cluster(ONE).nodes[0]);
    const inNode = async (script: string): Promise<void> => {
      const line = inNetns(lab.layout.netnsOf(nodeNetns(node)), "bash", ["-ec", script]);
      await exec(line.command, line.args);
    };
    const restart = async (): Promise<void> => {
      for (const it of ["kill", "restore"]) await lab.lab(it, [`${ONE}/node-1/node`]);
    };
    const FILTER = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    await inNode(`ip link add cni9 type bridge
      for it in 1 2; do ip link add cni9p$it type veth peer name cni9q$it; ip link set cni9p$it master cni9; done
      if [ -e ${FILTER} ]; then echo 0 > ${FILTER}; fi`);
    await restart();
    await untilReported(ONE, {
      CrossClusterPolicy: "True Enforced",
      SameNodePolicy: "False BridgeTrafficNotFiltered",
    });
    await inNode(`ip link del cni9p1; ip link del cni9p2; ip link del cni9
      if [ -e ${FILTER} ]; then echo 1 > ${FILTER}; fi`);
    await restart();
    await untilReported(ONE, { CrossClusterPolicy: "True Enforced", SameNodePolicy: "True Enforced" });
  });

  it("allow what a rule names, and nothing else", async () => {
    await policy(ONE, "allow", {
      podSelector: { matchLabels: { app: "server" } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: "other-node" } } }], ports: [{ port: 81 }] }],
    });
    await untilReached(ONE, "other-node", there, [81]);
    await untilReached(ONE, "same-node", there, []);
  });

  it("let a pod reach itself through a Service, and the node reach its pods", async () => {
    const { spec } = await (await lab.client(ONE)).get(SERVICES, objectKey("work", "server"));
    await untilReached(ONE, "server", spec?.clusterIPs ?? [], [80]);
    const pod = await (await lab.client(ONE)).get(PODS, objectKey("work", "server"));
    expect(isReady(found(pod))).toBe(true);
  });

  it("are gone when they are deleted", async () => {
    const api = await lab.client(ONE);
    for (const name of ["deny", "allow"]) await api.delete(NETWORK_POLICIES, objectKey("work", name));
    for (const [cluster, from] of [
      [ONE, "same-node"],
      [TWO, "other-node"],
    ] as const)
      await untilReached(cluster, from, there, [80, 81]);
  });

  it("let a client out to another cluster where its own cluster's rule names that one, and only there", async () => {
    const only = async (name: string): Promise<void> => {
      const named = { matchLabels: { app: "server", "io.cilium.k8s.policy.cluster": name } };
      await policy(TWO, "out", {
        podSelector: { matchLabels: { app: "other-node" } },
        policyTypes: ["Egress"],
        egress: [{ to: [{ podSelector: named }], ports: [{ port: 80 }] }],
      });
    };
    const here = await addressesOf(TWO, "server");
    await only(ONE);
    await untilReached(TWO, "other-node", there, [80]);
    await untilReached(TWO, "other-node", here, []);
    await untilReached(TWO, "same-node", there, [80, 81]);
    await only(TWO);
    await untilReached(TWO, "other-node", there, []);
    await untilReached(TWO, "other-node", here, [80]);
    await (await lab.client(TWO)).delete(NETWORK_POLICIES, objectKey("work", "out"));
    await untilReached(TWO, "other-node", there, [80, 81]);
  });

  it("let in another cluster that a rule names by its label, and cut it off when the rule names the own one", async () => {
    const only = async (name: string): Promise<void> =>
      policy(ONE, "clusters", {
        podSelector: { matchLabels: { app: "server" } },
        ingress: [{ from: [{ podSelector: { matchLabels: { "io.cilium.k8s.policy.cluster": name } } }] }],
      });
    await only(TWO);
    await untilReached(TWO, "other-node", there, [80, 81]);
    await untilReached(ONE, "other-node", there, []);
    await only(ONE);
    await untilReached(ONE, "other-node", there, [80, 81]);
    await untilReached(TWO, "other-node", there, []);
  });

  const logOf = async (...flags: readonly string[]): Promise<readonly FlowRecord[]> => {
    const args = ["policy", "log", "--kubeconfig", lab.layout.kubeconfig, "--contexts", `${ONE},${TWO}`];
    const { stdout } = await runFairlead(lab.stateRoot, [...args, ...flags]);
    const lines = stdout.split("\n").filter((it) => it !== "");
    return lines.map((it) => JSON.parse(it) as FlowRecord);
  };

  it("report what they denied to fairlead policy log", async () => {
    const [from = ""] = await addressesOf(TWO, "other-node");
    const policies = ["NetworkPolicy work/clusters"];
    const flow = await until(
      "the log has the flow that this policy denied",
      async () => (await logOf()).find((it) => it.from.address === from && it.policies[0] === policies[0]),
      (it) => it !== undefined,
      { everyMs: 1000 },
    );
    expect(flow).toMatchObject({
      verdict: "denied",
      direction: "ingress",
      protocol: "TCP",
      to: { cluster: ONE, namespace: "work", pod: "server" },
      policies,
    });
  });

  it("report what they allow to the log of a namespace that asks for it", async () => {
    const annotations = { "fairlead.dev/flow-log": "all" };
    await (
      await lab.client(ONE)
    ).mergePatch(NAMESPACES, objectKey(undefined, "work"), { metadata: { annotations } });
    const flow = await until(
      "the log has a connection that was made after the agent knew the annotation",
      async () => {
        await reached(ONE, "other-node", there);
        const all = await logOf("--all", "--pod", `${ONE}/work/server`);
        return all.find((it) => it.verdict === "allowed" && it.direction === "ingress");
      },
      (it) => it !== undefined,
      { everyMs: 1000 },
    );
    expect(flow).toMatchObject({
      from: { cluster: ONE, namespace: "work", pod: "other-node" },
      to: { cluster: ONE, namespace: "work", pod: "server" },
      policies: ["NetworkPolicy work/clusters"],
      rule: "spec.ingress[0]",
    });
  });

  it("without a cluster in a rule mean the own one, or all where the profile of the network says so", async () => {
    const hub = await lab.client("hub");
    await (await lab.client(ONE)).delete(NETWORK_POLICIES, objectKey("work", "clusters"));
    await policy(ONE, "any", {
      podSelector: { matchLabels: { app: "server" } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: "other-node" } } }] }],
    });
    const set = (policyDefaultLocalCluster: boolean | null) =>
      hub.mergePatch(CLUSTER_MESH_PROFILES, objectKey(undefined, "flat"), {
        spec: { policyDefaultLocalCluster },
      });
    for (const isLocal of [false, null]) {
      await set(isLocal);
      await untilReached(TWO, "other-node", there, isLocal === null ? [] : [80, 81]);
      await untilReached(ONE, "other-node", there, [80, 81]);
      await untilReached(TWO, "same-node", there, []);
    }
  });
});
