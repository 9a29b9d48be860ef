/** The parallel network: members with equal addresses behind NAT, connected by gateways. */

import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  GATEWAYS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { eventually, until } from "../support/waiting.ts";
import { nodeNetns, siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { found, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { PROBES, type Result } from "@fairlead/fleet/cli/verify/probes.ts";
import type { Summary } from "@fairlead/fleet/cli/verify/report.ts";
import { echoDeployment, mcsExport, namespace, service, shellPod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const MEMBERS = ["member-1", "member-2", "member-3"] as const;
const CLIENT = "work/client";
const ECHO = { namespace: "work", name: "hello" };
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

/** The paths of the tunnels from one member to another, as their gateways report them to the hub. */
async function pathsOf(from: string, to: string): Promise<readonly string[]> {
  const hub = await lab.client("hub");
  const gateways = (await hub.list(GATEWAYS, { namespace: mailboxOf(from) })).items;
  return gateways.flatMap((it) =>
    (it.status?.paths ?? []).filter(({ cluster }) => cluster === to).map(({ path }) => path),
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
        await lab.apply(member, shellPod({ namespace: "work", name: "client" }));
        if (member !== "member-1")
          await lab.apply(
            member,
            echoDeployment(ECHO, 2),
            service(ECHO, { http: 80 }),
            mcsExport(ECHO),
            echoDeployment(HIDDEN, 1),
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

  it("moves a tunnel from the relay to a direct path where NATs allow it, and keeps the others at the relay", async () => {
    await until(
      "a direct path",
      () => pathsOf("member-1", "member-2"),
      (it) => it.includes("direct"),
    );
    expect(new Set(await pathsOf("member-1", "member-3"))).toEqual(new Set(["relay"]));
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
    expect(await pathsOf("member-1", "member-3")).toContain("relay");
    await inSite("delete table inet no-udp");
  });

  it("loses no packet while agents restart and keys are exchanged", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const pings = lab.inPod("member-1", CLIENT, `ping -q -i 0.02 -c 400 -W 2 ${ipv4}`);
    const agents = ["member-1", "member-2"].flatMap((it) => [`${it}/node-1/node`, `${it}/node-2/node`]);
    await Promise.all(agents.map((it) => lab.lab("kill", [it])));
    await Promise.all(agents.map((it) => lab.lab("restore", [it])));
    const rotate = [
      "annotate",
      "clustermeshprofile",
      "parallel",
      "fairlead.dev/rotate-keys=1",
      "--overwrite",
    ];
    await lab.kubectl("hub", rotate);
    await until(
      "the tunnels with new keys",
      () => epochsOf("member-1"),
      (it) => it.includes(2),
    );
    expect(await pings).toContain("400 packets transmitted, 400 received");
  });

  it("replaces the process of a tunnel that died, and uses other tunnels in the meantime", async () => {
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    const netns = lab.layout.netnsOf("member-2-node-1");
    const pids = ((await pidsByNetns([netns])).get(netns) ?? []).filter((it) =>
      readFileSync(`/proc/${it}/cmdline`, "utf8").startsWith("wireguard-go"),
    );
    expect(pids).not.toEqual([]);
    const pings = lab.inPod("member-1", CLIENT, `ping -q -i 0.02 -c 250 -W 2 ${ipv4}`);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    const received = Number(/(\d+) received/.exec(await pings)?.[1]);
    // 1 s until the failure is seen; a busy machine takes longer.
    expect(received).toBeGreaterThan(100);
    await lab.inPod("member-1", CLIENT, `ping -q -c 3 -W 2 ${ipv4}`);
  });

  it("starts tunnels again whose processes were killed, with their routes", async () => {
    const killed = tunnelProcesses();
    for (const pid of killed) process.kill(pid, "SIGKILL");
    const { ipv4 } = await fleetAddressOf("member-2", ECHO.name);
    await until(
      "the pod of member-2 answers",
      () => lab.inPod("member-1", CLIENT, `curl -s -m 1 -o /dev/null http://${ipv4}:8080/; echo $?`),
      (it) => it.trim() === "0",
    );
    expect(tunnelProcesses().filter((it) => killed.includes(it))).toEqual([]);
  });

  it("leaves nothing on the nodes of members that leave the network", async () => {
    await lab.kubectl("hub", ["delete", "clustermeshprofile", "parallel"]);
    for (const member of MEMBERS)
      for (const { name } of lab.cluster(member).nodes)
        await until(
          `${name} has left`,
          async () => {
            const line = inNetns(lab.layout.netnsOf(nodeNetns({ name })), "ip", ["-br", "link"]);
            return (await exec(line.command, line.args)).stdout;
          },
          (it) => !it.includes("fl-host"),
        );
    await until(
      "the pod has no interface",
      () => lab.inPod("member-1", CLIENT, "ip -o link"),
      (it) => !it.includes("eth-fleet"),
    );
  });
});

/** Of this lab. */
function tunnelProcesses(): readonly number[] {
  const textOf = (pid: string, file: string): string => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, "utf8");
    } catch {
      return "";
    }
  };
  return readdirSync("/proc")
    .filter((it) => textOf(it, "cmdline").startsWith("wireguard-go\0"))
    .filter((it) => textOf(it, "environ").includes(`FAIRLEAD_LAB=${lab.layout.root}\0`))
    .map(Number);
}
