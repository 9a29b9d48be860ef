/** The parallel network: members with equal addresses behind NAT, connected by gateways. */

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  GATEWAYS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { eventually, until } from "../support/waiting.ts";
import { runningPid } from "@fairlead/lab/processes.ts";
import { nodeNetns, siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { found, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { PROBES, type Result } from "@fairlead/fleet/cli/verify/probes.ts";
import type { Summary } from "@fairlead/fleet/cli/verify/report.ts";
import { commandOf, wireguardProcesses, wireguardProcessesOf } from "./parallel-lab.ts";
import { clientPod, udpClientScript, udpServer, vipsOf } from "./virtual-ips.ts";
import { echoDeployment, KINDS, mcsExport, namespace, service, shellPod } from "../support/lab-manifests.ts";
import { isFull } from "../support/sample.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const MEMBERS = ["member-1", "member-2", "member-3"] as const;
const CLIENT = "work/client";
const ECHO = { namespace: "work", name: "hello" };
const SOLO = { namespace: "work", name: "solo" };
/** Address of the metrics of an agent in the namespace of its node. */
const REMOVER = "127.0.0.1:8099";
const HIDDEN = { namespace: "work", name: "hidden" };

let lab: TestLab;

/** The fleet addresses of a pod. */
async function fleetAddressOf(member: string, app: string) {
  const client = await lab.client(member);
  const pods = (await client.list(PODS, { namespace: "work" })).items.filter(
    (it) => it.metadata.labels?.["app"] === app || it.metadata.name === app,
  );
  const uids = new Set(pods.map((it) => it.metadata.uid));
  const allocationOf = (blocks: readonly AddressBlock[]) =>
    blocks.flatMap((it) => it.status?.allocations ?? []).find((it) => uids.has(it.podUID));
  const blocks = await eventually(
    client,
    ADDRESS_BLOCKS,
    (all) => allocationOf(all.filter((it) => it.metadata.namespace === FLEET_SYSTEM_NAMESPACE)) !== undefined,
  );
  return found(allocationOf(blocks));
}

/** A pod without an interface in `fleet`. */
function plainPod(): Readonly<Record<string, unknown>> {
  const pod = shellPod({ namespace: "work", name: "plain" });
  return {
    ...pod,
    metadata: { namespace: "work", name: "plain", labels: { "fairlead.dev/attach": "false" } },
  };
}

const BY_HAND = "by-hand";

/** A Service whose endpoints are these addresses of other clusters, without any API of the fleet. */
function byHand(addresses: readonly string[]): readonly Readonly<Record<string, unknown>>[] {
  const labels = { "kubernetes.io/service-name": BY_HAND };
  return [
    service({ namespace: "work", name: BY_HAND }, { http: 80 }, { selector: null }),
    ...["IPv4", "IPv6"].map((addressType, at) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { namespace: "work", name: `${BY_HAND}-${at}`, labels },
      addressType,
      endpoints: [{ addresses: [addresses[at]], conditions: { ready: true } }],
      ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    })),
  ];
}

/** The paths of the tunnels from one member to another, as their gateways report them to the hub. */
async function pathsOf(from: string, to: string): Promise<readonly string[]> {
  const hub = await lab.client("hub");
  const gateways = (await hub.list(GATEWAYS, { namespace: mailboxOf(from) })).items;
  return gateways.flatMap((it) =>
    (it.status?.paths ?? []).filter(({ cluster }) => cluster === to).map(({ path }) => path),
  );
}

/** The MTUs of these. */
async function mtusOf(from: string, to: string): Promise<readonly (number | undefined)[]> {
  const hub = await lab.client("hub");
  const gateways = (await hub.list(GATEWAYS, { namespace: mailboxOf(from) })).items;
  return gateways.flatMap((it) =>
    (it.status?.paths ?? []).filter(({ cluster }) => cluster === to).map(({ mtu }) => mtu),
  );
}

/** Epochs of the keys of a member's gateways, as other members know them. */
async function epochsOf(member: string): Promise<readonly number[]> {
  const { items } = await (
    await lab.client("member-2")
  ).list(GATEWAYS, { namespace: FLEET_SYSTEM_NAMESPACE });
  return items
    .filter((it) => it.spec.cluster === member)
    .flatMap((it) => (it.spec.keys ?? []).map(({ epoch }) => epoch));
}

describeOnKernel("a parallel network", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "t-par", members: MEMBERS.length, nodes: 2, flags: ["--topology", "nat"] });
    await Promise.all(
      MEMBERS.map(async (member) => {
        await lab.apply(member, namespace("work"));
        await lab.kubectl(member, ["-n", "work", "wait", "--for=create", "serviceaccount/default"]);
        await lab.apply(member, clientPod());
        if (member !== "member-1")
          await lab.apply(
            member,
            echoDeployment(ECHO, 2),
            service(ECHO, { http: 80 }),
            mcsExport(ECHO),
            echoDeployment(HIDDEN, 1),
          );
        if (member === "member-1") await lab.apply(member, plainPod());
        if (member === "member-2") await lab.apply(member, ...udpServer());
        if (member === "member-3")
          await lab.apply(
            member,
            echoDeployment(SOLO, 2),
            service(SOLO, { http: 80 }, { sessionAffinity: "ClientIP" }),
            mcsExport(SOLO),
          );
        const wait = ["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"];
        await lab.kubectl(member, ["-n", "work", ...wait]);
      }),
    );
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("lets a pod reach a Service of members with the same addresses by name", async () => {
    await until(
      "member-2 and member-3 answer",
      async () => {
        const answers = await lab.ask("member-1", CLIENT, {
          url: "http://hello.work.svc.clusterset.local/",
          count: 10,
        });
        return new Set(answers.map((it) => it?.cluster)).size === 2 && !answers.includes(undefined);
      },
      Boolean,
    );
  });

  it("shows a server the fleet address of its client", async () => {
    const { ipv4, ipv6 } = await fleetAddressOf("member-1", "client");
    const [answer] = await lab.ask("member-1", CLIENT, {
      url: "http://hello.work.svc.clusterset.local/",
      count: 1,
    });
    expect([ipv4, ipv6]).toContain(answer?.clientAddress);
  });

  it("shows a server the fleet address of a client that asks by a Service, whatever the network plugin masquerades", async () => {
    const nodes = lab.cluster("member-1").nodes.map((it) => lab.layout.netnsOf(nodeNetns(it)));
    const onNodes = async (script: string): Promise<void> => {
      for (const line of nodes.map((it) => inNetns(it, "nft", [script]))) await exec(line.command, line.args);
    };
    const { ipv4, ipv6 } = await fleetAddressOf("member-1", "client");
    const server = await fleetAddressOf("member-2", ECHO.name);
    await lab.apply("member-1", ...byHand([server.ipv4, server.ipv6]));
    const { spec } = await (await lab.client("member-1")).get(SERVICES, objectKey("work", BY_HAND));
    await onNodes(
      'add table inet plugin; add chain inet plugin last { type nat hook postrouting priority 100; }; add rule inet plugin last oifname "fl-host" masquerade',
    );
    const seen = new Set<string | undefined>();
    for (const ip of spec?.clusterIPs ?? []) {
      const url = `http://${ip.includes(":") ? `[${ip}]` : ip}/`;
      const ask = async () => (await lab.ask("member-1", CLIENT, { url, count: 1 }))[0]?.clientAddress;
      seen.add(await until(`an answer from ${url}`, ask, (it) => it !== undefined));
    }
    await onNodes("delete table inet plugin");
    expect(seen).toEqual(new Set([ipv4, ipv6]));
  });

  it("gives running pods an interface with their fleet addresses, from which they reach others", async () => {
    const { ipv4, ipv6 } = await fleetAddressOf("member-1", "client");
    const server = await fleetAddressOf("member-2", ECHO.name);
    const shown = await lab.inPod("member-1", CLIENT, "ip -o addr show dev eth-fleet");
    expect(shown).toContain(`${ipv4}/32`);
    expect(shown).toContain(`${ipv6}/128`);
    const [answer] = await lab.ask("member-1", CLIENT, { url: `http://${server.ipv4}:8080/`, count: 1 });
    expect(answer?.clientAddress).toBe(ipv4);
  });

  it("opens in its own cluster, too, only what is exported", async () => {
    const hidden = await fleetAddressOf("member-2", "client");
    const code = await lab.inPod(
      "member-2",
      CLIENT,
      `ping -c 1 -W 1 ${hidden.ipv4} >/dev/null; curl -s -m 1 -o /dev/null http://${(await fleetAddressOf("member-2", ECHO.name)).ipv4}:9/; echo $?`,
    );
    expect(code.trim()).toBe("28");
  });

  it("carries both families, and echo requests to exported pods", async () => {
    const server = await fleetAddressOf("member-2", ECHO.name);
    for (const [host, address] of [
      [server.ipv4, server.ipv4],
      [`[${server.ipv6}]`, server.ipv6],
    ]) {
      const [answer] = await lab.ask("member-1", CLIENT, { url: `http://${host}:8080/`, count: 1 });
      expect({ host, cluster: answer?.cluster }).toEqual({ host, cluster: "member-2" });
      await lab.inPod("member-1", CLIENT, `ping -c 1 -W 5 ${address}`);
    }
  });

  it("enforces policies by the cluster of a pod, on fleet addresses", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const answers = async (): Promise<boolean> => {
      const code = await lab.inPod(
        "member-1",
        CLIENT,
        `curl -s -m 1 -o /dev/null http://${ipv4}:8080/; echo $?`,
      );
      return code.trim() === "0";
    };
    const only = (cluster: string): Promise<void> =>
      lab.apply("member-2", {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { namespace: "work", name: "clusters" },
        spec: {
          podSelector: { matchLabels: { app: ECHO.name } },
          ingress: [
            { from: [{ podSelector: { matchLabels: { "io.cilium.k8s.policy.cluster": cluster } } }] },
          ],
        },
      });
    await expect.poll(answers).toBe(true);
    await only("member-3");
    await expect.poll(answers).toBe(false);
    const log = ["policy", "log", "--kubeconfig", lab.layout.kubeconfig, "--contexts", "member-1,member-2"];
    const { stdout } = await until(
      "the log of member-2 has the flow",
      () => runFairlead(lab.stateRoot, log),
      (it) => it.stdout.includes('"NetworkPolicy work/clusters"'),
      { everyMs: 1000 },
    );
    const line = stdout.split("\n").find((it) => it.includes('"NetworkPolicy work/clusters"'));
    expect(JSON.parse(line ?? "")).toMatchObject({
      verdict: "denied",
      direction: "ingress",
      from: { cluster: "member-1", namespace: "work", pod: "client" },
      to: { address: ipv4, cluster: "member-2", namespace: "work" },
      port: 8080,
    });
    await only("member-1");
    await expect.poll(answers).toBe(true);
    await (await lab.client("member-2")).delete(NETWORK_POLICIES, objectKey("work", "clusters"));
  });

  it("passes every check of fairlead verify, from each member to each other", async () => {
    const args = ["verify", "--kubeconfig", lab.layout.kubeconfig, "--member-contexts", MEMBERS.join()];
    const { stdout } = await runFairlead(lab.stateRoot, [...args, "-o", "json"], { allowFailure: true });
    const { results, summary } = JSON.parse(stdout) as {
      readonly results: readonly Result[];
      readonly summary: Summary;
    };
    expect(results.filter((it) => it.status !== "passed")).toEqual([]);
    expect(summary).toMatchObject({ pairs: 6, pairsPassed: 6, checks: 6 * 2 * PROBES.length });
  });

  it("drops what was not exported: other ports of a pod, and other pods", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const attempt = (address: string, port: number): Promise<string> =>
      lab.inPod("member-1", CLIENT, `curl -s -m 1 -o /dev/null http://${address}:${port}/; echo $?`);
    // Of curl: 28 is a timeout.
    expect((await attempt(ipv4, 9)).trim()).toBe("28");
    const client = await fleetAddressOf("member-2", "client");
    expect((await attempt(client.ipv4, 8080)).trim()).toBe("28");
  });

  it("has one virtual address of a family for a service in every member, and all exporters behind it", async () => {
    const vips = await vipsOf(lab, "member-1", ECHO.name);
    for (const member of MEMBERS) {
      expect(await vipsOf(lab, member, ECHO.name)).toEqual(vips);
      const { ipv4, ipv6 } = await fleetAddressOf(member, "client");
      for (const host of vips) {
        const answers = await lab.ask(member, CLIENT, { url: `http://${host}/`, count: 16 });
        const from = new Set(answers.map((it) => it?.cluster));
        expect({ member, host, from }).toEqual({ member, host, from: new Set(["member-2", "member-3"]) });
        // Also of its own cluster: the answers of both come back through the map.
        expect(new Set(answers.map((it) => it?.clientAddress))).toEqual(
          new Set([host.includes(":") ? ipv6 : ipv4]),
        );
      }
    }
  });

  it("serves pods without an interface, and a pod that is given itself", async () => {
    for (const host of await vipsOf(lab, "member-1", ECHO.name)) {
      const [answer] = await lab.ask("member-1", "work/plain", { url: `http://${host}/`, count: 1 });
      expect(MEMBERS).toContain(answer?.cluster);
    }
    const client = await lab.client("member-3");
    const pods = (await client.list(PODS, { namespace: "work" })).items;
    const { name } = found(pods.find((it) => it.metadata.labels?.["app"] === ECHO.name)).metadata;
    for (const host of await vipsOf(lab, "member-3", ECHO.name)) {
      const answers = await lab.ask("member-3", `work/${name}`, { url: `http://${host}/`, count: 30 });
      expect(answers).not.toContain(undefined);
      expect(answers.map((it) => it?.pod)).toContain(name);
    }
  });

  it("sends clients by weight, to one endpoint by affinity, to another one when that is gone, and over UDP", async () => {
    const [host = "", host6 = ""] = await vipsOf(lab, "member-1", ECHO.name);
    const clusters = async (): Promise<readonly (string | undefined)[]> => {
      const answers = await lab.ask("member-1", CLIENT, { url: `http://${host}/`, count: 30 });
      return answers.map((it) => it?.cluster);
    };
    const weigh = (text: string): Promise<unknown> =>
      lab.kubectl("member-3", ["-n", "work", "annotate", "--overwrite", KINDS.mcsExport, ECHO.name, text]);
    await weigh("fairlead.dev/weight=999");
    await until(
      "nearly all from member-3",
      clusters,
      (all) => all.filter((it) => it === "member-3").length > 26,
    );
    await weigh("fairlead.dev/weight=0");
    await until("all from member-2", clusters, (all) => all.every((it) => it === "member-2"));
    await weigh("fairlead.dev/weight-");

    const [sticky = ""] = await vipsOf(lab, "member-1", SOLO.name);
    const podsOf = async (): Promise<readonly (string | undefined)[]> => {
      const answers = await lab.ask("member-1", CLIENT, { url: `http://${sticky}/`, count: 10 });
      return [...new Set(answers.map((it) => it?.pod))];
    };
    const [pod, ...others] = await podsOf();
    expect(others).toEqual([]);
    await lab.kubectl("member-3", ["-n", "work", "delete", "pod", found(pod)]);
    await until("another pod", podsOf, (all) => all.length === 1 && all[0] !== undefined && all[0] !== pod);

    const { ipv4, ipv6 } = await fleetAddressOf("member-1", "client");
    const [udp = "", udp6 = ""] = await vipsOf(lab, "member-1", "udp");
    expect((await lab.inPod("member-1", CLIENT, udpClientScript(udp))).trim()).toBe(ipv4);
    expect((await lab.inPod("member-1", CLIENT, udpClientScript(udp6))).trim()).toBe(ipv6);
    // Ports that the service does not have are refused at once. Of curl: 7.
    for (const it of [host, host6]) {
      const code = await lab.inPod("member-1", CLIENT, `curl -s -m 5 -o /dev/null http://${it}:81/; echo $?`);
      expect(code.trim()).toBe("7");
    }
  });

  it("moves each tunnel from the relay to a direct path where NATs allow it, and keeps the others at the relay", async () => {
    for (const [from, to] of [
      ["member-1", "member-2"],
      ["member-2", "member-1"],
    ] as const)
      await until(
        `direct paths from ${from}`,
        () => pathsOf(from, to),
        (it) => it.length === 4 && it.every((path) => path === "direct"),
        // A gateway that follows moves with the next packet, and reports at most each five seconds.
        { timeoutMs: 90_000 },
      );
    expect(new Set(await pathsOf("member-1", "member-3"))).toEqual(new Set(["relay"]));
  });

  it.runIf(isFull)(
    "keeps a pair at the relay whose datagrams arrive directly in one direction only",
    async () => {
      const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
      const [from, to] = ["member-1", "member-2"].map((it) => lab.cluster(it));
      const router = lab.layout.netnsOf(siteNetns(found(to)));
      const inRouter = async (script: string): Promise<void> => {
        const line = inNetns(router, "nft", [script]);
        await exec(line.command, line.args);
      };
      // The gateways of member-1 choose the path: what they send does not arrive, what they get does.
      const { v4, v6 } = found(from?.uplink);
      await inRouter(
        `add table inet one-way; add chain inet one-way in { type filter hook prerouting priority -350; }; add rule inet one-way in ip saddr ${v4} drop; add rule inet one-way in ip6 saddr ${v6} drop`,
      );
      const paths = async () => [
        ...(await pathsOf("member-1", "member-2")),
        ...(await pathsOf("member-2", "member-1")),
      ];
      const areAtRelay = (all: readonly string[]): boolean =>
        all.length === 8 && all.every((it) => it === "relay");
      await until("all tunnels of the pair are at the relay", paths, areAtRelay, { timeoutMs: 60_000 });
      const pings = await lab.inPod("member-1", CLIENT, `ping -q -i 0.02 -c 300 -W 2 ${ipv4}`);
      expect(pings).toContain("300 packets transmitted, 300 received");
      expect(await paths()).toSatisfy(areAtRelay);
      await inRouter("delete table inet one-way");
    },
  );

  it.runIf(isFull)("follows the MTU of a link that shrinks, loses fragments and grows", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const send = (): Promise<string> =>
      lab.inPod(
        "member-1",
        CLIENT,
        `head -c 200000 /dev/zero | curl -s -m 5 -o /dev/null -w '%{http_code}' --data-binary @- http://${ipv4}:8080/ || true`,
      );
    const mtus = (mtu: number) =>
      until(
        `all tunnels between member-1 and member-2 have the MTU ${mtu}`,
        async () => [...(await mtusOf("member-1", "member-2")), ...(await mtusOf("member-2", "member-1"))],
        (all) => all.length === 8 && all.every((it) => it === mtu),
        { timeoutMs: 60_000 },
      );
    await mtus(1408);
    expect(await send()).toBe("200");
    await lab.lab("link", ["--mtu", "1400", "--drop-udp-fragments", "member-1"]);
    await until("a request of many packets is answered", send, (it) => it === "200");
    // 1400 less 60 bytes of WireGuard over IPv4, in multiples of 16.
    await mtus(1328);
    await lab.inPod("member-1", CLIENT, `ping -c 1 -W 5 -M do -s ${1328 - 28} ${ipv4}`);
    await lab.lab("link", ["--reset", "member-1"]);
    await mtus(1408);
  });

  it("reaches a member whose UDP is dropped, over TLS", async () => {
    const { ipv4 } = await fleetAddressOf("member-3", ECHO.name);
    const inSite = async (script: string): Promise<void> => {
      const line = inNetns(lab.layout.netnsOf(siteNetns(lab.cluster("member-3"))), "nft", [script]);
      await exec(line.command, line.args);
    };
    for (const chain of ["prerouting", "postrouting"]) {
      const device = chain === "prerouting" ? "iifname" : "oifname";
      await inSite(
        `add table inet no-udp; add chain inet no-udp ${chain} { type filter hook ${chain} priority 300; }; add rule inet no-udp ${chain} ${device} "up" meta l4proto udp drop`,
      );
    }
    await until(
      "the path of member-3",
      () => pathsOf("member-3", "member-1"),
      (it) => it.includes("tcp"),
    );
    await until(
      "member-3 answers",
      async () => (await lab.ask("member-1", CLIENT, { url: `http://${ipv4}:8080/`, count: 1 }))[0]?.cluster,
      (it) => it === "member-3",
    );
    await until(
      "the path to member-3",
      () => pathsOf("member-1", "member-3"),
      (it) => it.includes("relay"),
    );
    await inSite("delete table inet no-udp");
  });

  it("loses no packet while agents restart and keys are exchanged", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const pings = lab.inPod("member-1", CLIENT, `ping -q -i 0.02 -c 400 -W 2 ${ipv4}`);
    const agentsOf = (member: string) => [`${member}/node-1/node`, `${member}/node-2/node`];
    const restore = (member: string) => Promise.all(agentsOf(member).map((it) => lab.lab("restore", [it])));
    const agents = ["member-1", "member-2"].flatMap(agentsOf);
    await Promise.all(agents.map((it) => lab.lab("kill", [it])));
    await restore("member-1");
    const rotate = "annotate clustermeshprofile parallel fairlead.dev/rotate-keys=1 --overwrite".split(" ");
    await lab.kubectl("hub", rotate);
    // The others find new keys when they start, which are not in use yet.
    const ofGateways = "get gateways.fairlead.dev -n fleet-member-member-1 -o".split(" ");
    const epochs = [...ofGateways, "jsonpath={.items[*].spec.keys[*].epoch}"];
    await until(
      "the new keys of member-1",
      () => lab.kubectl("hub", epochs),
      (it) => it.stdout.includes("2"),
    );
    await restore("member-2");
    await until(
      "the tunnels with new keys",
      () => epochsOf("member-1"),
      (it) => it.includes(2),
      { timeoutMs: 90_000 },
    );
    expect(await pings).toContain("400 packets transmitted, 400 received");
  });

  it("replaces the processes of a gateway's tunnels that died, and carries packets again", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const netns = lab.layout.netnsOf("member-2-node-1");
    const tunnelProcessesOf = () => wireguardProcessesOf(lab, netns);
    const pids = await tunnelProcessesOf();
    expect(pids).not.toEqual([]);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    // How many packets are lost until then: npm run bench -- failover.
    await until(
      "the pod of member-2 answers",
      () => lab.inPod("member-1", CLIENT, `ping -q -i 0.1 -c 10 -W 2 ${ipv4} || true`),
      (it) => it.includes("10 received"),
    );
    await until(
      "other processes",
      tunnelProcessesOf,
      (it) => it.length > 0 && !it.some((pid) => pids.includes(pid)),
    );
  });

  it("has a way over the other gateway while the agent of a gateway and all of its tunnels are dead", async () => {
    const { ipv4, ipv6 } = await fleetAddressOf("member-2", ECHO.name);
    const { spec } = await (await lab.client("member-1")).get(PODS, objectKey("work", "client"));
    const agent = `member-1/${found(spec?.nodeName).replace("member-1-", "")}/node`;
    const netns = lab.layout.netnsOf(found(spec?.nodeName));
    await lab.lab("kill", [agent]);
    const tunnels = (await wireguardProcessesOf(lab, netns)).filter((it) => commandOf(it).includes("fl-wg"));
    expect(tunnels).not.toEqual([]);
    for (const pid of tunnels) process.kill(pid, "SIGKILL");
    for (const address of [ipv4, `[${ipv6}]`])
      await until(
        `the pod of member-2 answers at ${address}`,
        () => lab.inPod("member-1", CLIENT, `curl -s -g -m 1 -o /dev/null http://${address}:8080/; echo $?`),
        (it) => it.trim() === "0",
      );
    await lab.lab("restore", [agent]);
  });

  it("starts tunnels again whose processes were killed, with their routes", async () => {
    const killed = wireguardProcesses(lab);
    for (const pid of killed) process.kill(pid, "SIGKILL");
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    await until(
      "the pod of member-2 answers",
      () => lab.inPod("member-1", CLIENT, `curl -s -m 1 -o /dev/null http://${ipv4}:8080/; echo $?`),
      (it) => it.trim() === "0",
    );
    expect(wireguardProcesses(lab).filter((it) => killed.includes(it))).toEqual([]);
  });

  it("gives all pods a fleet address if the profile asks for it, and takes the address of those that need none", async () => {
    await lab.apply("member-1", shellPod({ namespace: "default", name: "other" }));
    await lab.kubectl("member-1", ["wait", "--for=condition=Ready", "pod/other", "--timeout=60s"]);
    const interfaces = () => lab.inPod("member-1", "default/other", "ip -o link");
    const attach = (mode: string | null) => {
      const patch = JSON.stringify({ spec: { network: { attach: mode } } });
      return lab.kubectl("hub", ["patch", "clustermeshprofile", "parallel", "--type=merge", "-p", patch]);
    };
    expect(await interfaces()).not.toContain("eth-fleet");
    await attach("all");
    await until("the pod is attached", interfaces, (it) => it.includes("eth-fleet"));
    await attach(null);
    await until("the pod is not attached", interfaces, (it) => !it.includes("eth-fleet"));
  });

  it("reports a firewall of a node that drops what comes from fleet addresses, until it does not", async () => {
    const netns = lab.layout.netnsOf("member-1-node-1");
    const inNode = async (script: string): Promise<void> => {
      const line = inNetns(netns, "nft", [script]);
      await exec(line.command, line.args);
    };
    const client = await lab.client("member-1");
    const conditionOf = async () => {
      const { items } = await client.list(ADDRESS_BLOCKS, { namespace: FLEET_SYSTEM_NAMESPACE });
      const block = items.find((it) => it.spec.node === "member-1-node-1");
      return block?.status?.conditions?.find((it) => it.type === "HostRouted");
    };
    await inNode(
      'add table inet broken; add chain inet broken first { type filter hook prerouting priority -310; }; add rule inet broken first iifname "fl-host" icmp type echo-reply drop',
    );
    // A new agent tests at once.
    await lab.lab("kill", ["member-1/node-1/node"]);
    await lab.lab("restore", ["member-1/node-1/node"]);
    const patience = { timeoutMs: 90_000 };
    await until("the condition of the node's block", conditionOf, (it) => it?.status === "False", patience);
    const { reason, message } = (await conditionOf()) ?? {};
    expect(reason).toBe("AnswersLost");
    expect(message).toMatch(/over IPv4 from the node to 10\.\S+ arrives in the namespace fleet/);
    expect(message).toContain("have the firewall of the node accept packets that come from fl-host");
    await inNode("delete table inet broken");
    await until("the condition of the node's block", conditionOf, (it) => it?.status === "True");
  });

  it("removes the part of one node by a flag, as before its DaemonSet is deleted", async () => {
    const agent = "member-3/node-1/node";
    const pid = found(runningPid(lab.layout, agent));
    const wordsOf = (file: string): string[] =>
      readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0").slice(0, -1);
    const [command = "", ...args] = wordsOf("cmdline");
    const env = Object.fromEntries(
      wordsOf("environ").map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)]),
    );
    const netns = lab.layout.netnsOf(nodeNetns(found(lab.cluster("member-3").nodes[0])));
    const links = async (): Promise<string> => {
      const line = inNetns(netns, "ip", ["-br", "link"]);
      return (await exec(line.command, line.args)).stdout;
    };
    expect(await links()).toContain("fl-host");
    await lab.lab("kill", [agent]);
    const line = inNetns(netns, command, [...args, "--remove", "--metrics", REMOVER]);
    const remover = start(line.command, line.args, { env });
    const ended = once(remover, "exit");
    await until("the node's part is removed", links, (it) => !it.includes("fl-host"));
    // The kubelet ends a container that does not report its health.
    const readyz = async (): Promise<string> => {
      const request = inNetns(netns, "curl", ["-s", `http://${REMOVER}/readyz`]);
      return (await exec(request.command, request.args, { allowFailure: true })).stdout;
    };
    await until("the agent is ready", readyz, (it) => it.trim() === "ok");
    remover.kill("SIGTERM");
    await ended;
    await lab.lab("restore", [agent]);
    await until("the node's part is back", links, (it) => it.includes("fl-host"));
  });

  it.runIf(isFull)("has a member again that left the network and came back", async () => {
    const patch = (value: object) => {
      const change = JSON.stringify([{ op: "replace", path: "/spec/memberSelector", value }]);
      return lab.kubectl("hub", ["patch", "clustermeshprofile", "parallel", "--type=json", "-p", change]);
    };
    const [node] = lab.cluster("member-3").nodes;
    const line = inNetns(lab.layout.netnsOf(nodeNetns(found(node))), "ip", ["-br", "link"]);
    const links = async (): Promise<string> => (await exec(line.command, line.args)).stdout;
    await lab.kubectl("hub", ["label", "membercluster", "member-1", "member-2", "network=site"]);
    await patch({ matchLabels: { network: "site" } });
    await until("member-3 has left", links, (it) => !it.includes("fl-host"));
    await patch({});
    await until(
      "member-3 answers",
      () =>
        lab.inPod(
          "member-1",
          CLIENT,
          "curl -s -m 2 -o /dev/null http://solo.work.svc.clusterset.local/; echo $?",
        ),
      (it) => it.trim() === "0",
      { timeoutMs: 90_000 },
    );
  });

  it("leaves nothing on the nodes of members that leave the network", async () => {
    await lab.kubectl("hub", ["delete", "clustermeshprofile", "parallel"]);
    for (const member of MEMBERS)
      for (const { name } of lab.cluster(member).nodes)
        await until(
          `${name} has left`,
          async () => {
            const netns = lab.layout.netnsOf(nodeNetns({ name }));
            const ends = [inNetns(netns, "ip", ["-br", "link"]), inNetns(netns, "nft", ["list", "tables"])];
            return (await Promise.all(ends.map((it) => exec(it.command, it.args))))
              .map((it) => it.stdout)
              .join("");
          },
          (it) => !/fl-host|fairlead-(host|ports|global|policy)/.test(it),
        );
    await until(
      "the pod has no interface",
      () => lab.inPod("member-1", CLIENT, "ip -o link"),
      (it) => !it.includes("eth-fleet"),
    );
  });
});
