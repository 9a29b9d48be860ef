/**
 * Two profiles in one fleet, whose clusters have the same namespaces, names and labels: nothing of one is seen in the other. In a
 * parallel network, both have the same fleet addresses and virtual IPs, too. Also on a parallel network: scripts/test-full.ts.
 */

import { afterAll, beforeAll, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { IDENTITY_SLICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { CLUSTER_MESH_PROFILES, GATEWAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { isReady } from "@fairlead/fleet/domain/pods.ts";
import { PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { annotate, makeNamespace } from "../support/lab-actions.ts";
import { found, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { echoDeployment, mcsExport, service, shellPod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { isFull } from "../support/sample.ts";
import { eventuallyOne, until } from "../support/waiting.ts";
import { untilConnected } from "./parallel-lab.ts";
import { vipsOf } from "./virtual-ips.ts";

const SIDES = { left: ["member-1", "member-2"], right: ["member-3", "member-4"] } as const;
const ALL = [...SIDES.left, ...SIDES.right];
const CLIENT = "work/client";
/** In every cluster. */
const HELLO = { namespace: "work", name: "hello" };
/** In member-2 only. */
const SOLO = { namespace: "work", name: "solo" };
const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";

let lab: TestLab;

const sideOf = (cluster: string): readonly string[] =>
  Object.values(SIDES).find((it) => it.some((one) => one === cluster)) ?? [];
const isParallel = (): boolean => lab.topology.spec.topology === "nat";

async function answersTo(cluster: string, url: string, count = 12): Promise<string> {
  const answers = await lab.ask(cluster, CLIENT, { url, count });
  return [...new Set(answers.map((it) => it?.cluster ?? "none"))].toSorted().join();
}

/** Until each cluster's requests are answered by these, each of them, and no other. */
async function untilAnswered(url: string, expected: (cluster: string) => readonly string[]): Promise<void> {
  await Promise.all(
    ALL.map((cluster) =>
      until(
        `${url} is answered in ${cluster} by ${expected(cluster).join(" and ")}`,
        // A request that is not answered takes its time.
        () => answersTo(cluster, url, expected(cluster)[0] === "none" ? 2 : 12),
        (it) => it === expected(cluster).toSorted().join(),
        { timeoutMs: 60_000 },
      ),
    ),
  );
}

const URLS = ["cluster", "clusterset"].map((zone) => `http://hello.work.svc.${zone}.local/`);

/** Two profiles in place of the lab's, with the same addresses. */
async function divide(): Promise<void> {
  const hub = await lab.client("hub");
  const mode = isParallel() ? "parallel" : "flat";
  for (const [side, members] of Object.entries(SIDES))
    for (const name of members)
      await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), { metadata: { labels: { side } } });
  const whole = objectKey(undefined, mode);
  const { network } = (await hub.get(CLUSTER_MESH_PROFILES, whole)).spec;
  const selecting = (side: string) => ({ spec: { network, memberSelector: { matchLabels: { side } } } });
  await hub.mergePatch(CLUSTER_MESH_PROFILES, whole, selecting("left"));
  await hub.create(CLUSTER_MESH_PROFILES, { metadata: { name: "right" }, ...selecting("right") });
  for (const name of [mode, "right"])
    await eventuallyOne(
      hub,
      CLUSTER_MESH_PROFILES,
      objectKey(undefined, name),
      ({ status }) => status?.state === "Connected" && status.members === 2,
    );
  for (const members of Object.values(SIDES)) await untilConnected(lab, members);
}

describeOnKernel("two profiles of one fleet", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "sides", members: ALL.length, flags: ["--network-policy"] });
    await divide();
    await Promise.all(
      ALL.map(async (cluster) => {
        const client = await lab.client(cluster);
        await makeNamespace(client, "work");
        await lab.apply(cluster, shellPod({ namespace: "work", name: "client" }));
        for (const it of cluster === "member-2" ? [HELLO, SOLO] : [HELLO])
          await lab.apply(cluster, echoDeployment(it, 1), service(it), mcsExport(it));
        await annotate(client, SERVICES, HELLO, { "service.cilium.io/global": "true" });
      }),
    );
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("answer a global Service and an exported one, of the same name in both, by their own clusters only", async () => {
    for (const url of URLS) await untilAnswered(url, sideOf);
  });

  it("have names of their own services only", async () => {
    const resolve = (cluster: string, name: string) =>
      lab.inPod(cluster, CLIENT, `getent ahosts ${name}.work.svc.clusterset.local || echo none`);
    await until(
      "member-1 has the name",
      () => resolve("member-1", "solo"),
      (it) => !it.startsWith("none"),
    );
    for (const cluster of SIDES.right) {
      expect((await resolve(cluster, "solo")).trim()).toBe("none");
      expect((await resolve(cluster, "member-2.hello")).trim()).toBe("none");
    }
  });

  it("do not answer the other's virtual IPs and addresses of pods by their names", async () => {
    const addresses = [
      ...(await vipsOf(lab, "member-1", "hello")),
      ...(await vipsOf(lab, "member-1", "solo")),
    ];
    for (const address of addresses) {
      const url = `http://${address}/`;
      await until(
        `${url} is answered in member-1`,
        () => answersTo("member-1", url),
        (it) => it !== "none",
      );
      for (const cluster of SIDES.right)
        for (const answer of (await answersTo(cluster, url, 1)).split(","))
          expect(["none", ...SIDES.right]).toContain(answer);
    }
  });

  it("admit by the label of a cluster pods of their own clusters only", async () => {
    const { items } = await (
      await lab.client("member-2")
    ).list(PODS, { namespace: "work", labelSelector: "app=solo" });
    const address = found(items.find(isReady)).status?.podIP;
    const url = isParallel() ? "http://solo.work.svc.clusterset.local/" : `http://${address}:8080/`;
    // In a flat network, the network between the clusters carries packets of the other profile, too.
    if (!isParallel()) await untilAnswered(url, () => ["member-2"]);
    await lab.apply("member-2", {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { namespace: "work", name: "solo" },
      spec: {
        podSelector: { matchLabels: { app: "solo" } },
        ingress: [
          {
            from: [
              {
                podSelector: {
                  matchLabels: { app: "client" },
                  matchExpressions: [{ key: CLUSTER_LABEL, operator: "In", values: ALL }],
                },
              },
            ],
          },
        ],
      },
    });
    await untilAnswered(url, (it) => (sideOf(it) === SIDES.left ? ["member-2"] : ["none"]));
    const slices = (await (await lab.client("member-2")).list(IDENTITY_SLICES)).items;
    expect(new Set(slices.map((it) => it.spec.cluster))).toEqual(new Set(["member-1"]));
  });

  it.runIf(isFull)(
    "are probed between pods before one is applied to members of the other, and nothing is applied if packets are lost",
    async (context) => {
      if (isParallel()) context.skip();
      const hub = ["--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
      const mesh = (...args: readonly string[]) =>
        runFairlead(lab.stateRoot, ["mesh", ...args, ...hub], { allowFailure: true });
      const probe = ["--kubeconfig", lab.layout.kubeconfig, "--probe", "member-1,member-3"];
      await mesh("create", "probed");
      await lab.lab("link", ["member-1", "--drop-udp"]);
      const refused = await mesh("apply", "probed", ...probe);
      expect(refused.stderr).toContain(
        "mtu and udp over IPv4 and IPv6 from pods of member-3 to pods of member-1: no answer within 2000 ms; check routes",
      );
      expect(refused.stderr).toContain("nothing was changed");
      expect(refused.exitCode).toBe(1);
      await lab.lab("link", ["member-1", "--reset"]);
      const { stdout, stderr } = await mesh("apply", "probed", ...probe);
      expect(stderr).toContain("member-3: 8 checks, none failed");
      expect(stdout).toBe("probed is NotConnected\n");
    },
  );

  it("have no tunnels to each other, and send each other no packets", async (context) => {
    if (!isParallel()) context.skip();
    const hub = await lab.client("hub");
    for (const cluster of ALL) {
      const { items } = await hub.list(GATEWAYS, { namespace: mailboxOf(cluster) });
      const peers = items.flatMap((it) => it.status?.paths ?? []).map((it) => it.cluster);
      expect([...new Set(peers)]).toEqual(sideOf(cluster).filter((it) => it !== cluster));
    }
    const netns = lab.layout.netnsOf(siteNetns(lab.cluster("member-1")));
    const nft = async (script: string): Promise<string> => {
      const line = inNetns(netns, "nft", [script]);
      return (await exec(line.command, line.args)).stdout;
    };
    const counted = ["member-2", ...SIDES.right].map(
      (it) => `add rule inet count in ip saddr ${lab.cluster(it).uplink?.v4} counter comment "${it}"`,
    );
    await nft(
      `add table inet count; add chain inet count in { type filter hook prerouting priority -350; }; ${counted.join("; ")}`,
    );
    await until(
      "packets of member-2",
      () => nft("list table inet count"),
      (it) => /counter packets [1-9]\d* bytes \d+ comment "member-2"/.test(it),
      { timeoutMs: 60_000 },
    );
    for (const url of URLS) await untilAnswered(url, sideOf);
    const table = await nft("list table inet count");
    for (const cluster of SIDES.right)
      expect(table).toContain(`counter packets 0 bytes 0 comment "${cluster}"`);
  });

  it("exchange a member that moves, with all that is its own", async () => {
    const hub = await lab.client("hub");
    await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "member-4"), {
      metadata: { labels: { side: "left" } },
    });
    const after = (cluster: string): readonly string[] =>
      cluster === "member-3" ? ["member-3"] : [...SIDES.left, "member-4"];
    for (const url of URLS) await untilAnswered(url, after);
  });
});
