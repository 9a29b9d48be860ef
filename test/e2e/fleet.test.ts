import type { Explanation } from "@fairlead/fleet/cli/policy/explain.ts";
import type { Summary } from "@fairlead/fleet/cli/verify/report.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clusters, until, SYSTEM } from "./clusters.ts";
import { Fleet, HELLO, REPLICAS, untilOffered } from "./fleet.ts";
import { Load, type Tally } from "./load.ts";
import {
  CLIENT,
  fleetExport,
  KINDS,
  mcsExport,
  multiClusterService,
  NAMESPACE,
  namespace,
  PLAIN_CLIENT,
  policyForCluster,
  service,
} from "./manifests.ts";
import { FLEET_DEVICE } from "./network.ts";
import { describePlacements } from "./placement-cases.ts";
import { readSettings } from "./settings.ts";
import { differences, takeSnapshot } from "./snapshot.ts";

/**
 * Fairlead on the clusters of a run, by what any conformant cluster gives: kubectl, Helm and Fairlead's commands. The cases
 * run in order, and each leaves the fleet as it found it. One client sends requests all the time; its failed requests are counted.
 */

const settings = readSettings();
const stop = new AbortController();
const clusters = new Clusters(settings, stop.signal);
const fleet = new Fleet(clusters);
const { load, network, exporter, importer } = fleet;
const BY_ADDRESS = "address";
const BY_NAME = "name";
const NAME = `${HELLO}.${NAMESPACE}.svc.clusterset.local`;
const joinFlags = ["--image", settings.image, ...network.joinFlags];
let isRemoved = false;
/** For set-up and removal: Helm works in each cluster. Unit: milliseconds. */
const HOOK_MS = (600 + clusters.all.length * settings.helmTimeoutSeconds) * 1000;

const urlOf = (address: string, port = 80): string =>
  `http://${address.includes(":") ? `[${address}]` : address}:${port}/`;

beforeAll(async () => {
  await fleet.look();
  await clusters.chart(clusters.hub, ["install", "--create-namespace"], "fairlead-hub");
  await clusters.helm(clusters.hub, ["test", "fairlead-hub"]);
  await network.installOnHub();
  for (const member of clusters.members) {
    if (member === exporter) {
      await clusters.chart(
        member,
        ["install", "--create-namespace"],
        "fairlead-member",
        network.memberValues,
      );
      await clusters.fairlead(["join", ...clusters.ofMember(member), "--agent", "none", ...joinFlags]);
      await clusters.helm(member, ["test", "fairlead-member"]);
    } else await clusters.fairlead(["join", ...clusters.ofMember(member), ...joinFlags]);
  }
  await network.untilAgentsRun();
  for (const member of clusters.members) await clusters.fairlead(["dns", "setup", "--context", member]);
}, HOOK_MS);

afterAll(async () => {
  if (!settings.keep && !isRemoved) await fleet.remove();
}, HOOK_MS);

/** Exports the service, if no earlier case has. @returns the addresses by which the service is asked. */
async function exportHello(): Promise<readonly string[]> {
  for (const member of [exporter, importer]) await fleet.serve(member, HELLO);
  for (const member of clusters.members) await clusters.apply(member, namespace());
  await clusters.apply(exporter, mcsExport(HELLO));
  for (const member of clusters.members)
    await until(
      `${member} has an address of the service`,
      () => fleet.importedAddresses(HELLO, member),
      (it) => it.length > 0,
    );
  const addresses = await fleet.importedAddresses(HELLO);
  if ((await clusters.find(importer, ["-n", NAMESPACE, "deployment", CLIENT])) === undefined)
    await fleet.startClient([`${BY_ADDRESS}=${urlOf(addresses[0] ?? "")}`, `${BY_NAME}=http://${NAME}/`]);
  return addresses;
}

describe("a service that one cluster exports", () => {
  it("is imported, and answered in another by its address and by its name in the cluster's DNS", async () => {
    const addresses = await exportHello();
    // The client may be younger than what its resolver knows.
    const resolved = (): Promise<readonly string[]> => fleet.inClient("resolve", NAME);
    await until("the name has the addresses", resolved, (it) => it.join() === addresses.toSorted().join());
    await load.untilAnsweredBy(exporter);
    for (const address of addresses) await fleet.expectAnswers(urlOf(address), exporter);
    const status = await clusters.fairlead(["status", "--hub-context", clusters.hub]);
    for (const member of clusters.members) expect(status).toContain(member);
  });

  it("is imported by the fleet's kinds, and answered by the address of a MultiClusterService", async () => {
    const name = "shop";
    await fleet.serve(exporter, name, { replicas: 1 });
    await clusters.apply(exporter, fleetExport(name));
    await clusters.apply(importer, multiClusterService(name));
    for (const address of await addressesOfMultiClusterService(name)) {
      const url = `http://${address}/`;
      // kube-proxy writes rules at most once a second: those of endpoints that are younger than their Service come a second later.
      await until(
        `${url} is answered`,
        () => fleet.inClient<Tally>("ask", url, "1"),
        (it) => it.failed === 0,
      );
      await fleet.expectAnswers(url, exporter);
    }
    await clusters.kubectl(importer, ["-n", NAMESPACE, "delete", KINDS.multiClusterService, name]);
    await clusters.kubectl(exporter, ["-n", NAMESPACE, "delete", KINDS.fleetExport, name]);
    await clusters.kubectl(exporter, ["-n", NAMESPACE, "delete", "deployment,service", name]);
  });

  it("has the addresses of its pods as a name where it is headless, and each pod a name of its own", async () => {
    const name = "peers";
    await fleet.serve(exporter, name, { replicas: 2, kind: "StatefulSet", spec: { clusterIP: "None" } });
    await clusters.apply(exporter, mcsExport(name));
    const pods = await clusters.find<{ items: readonly Pod[] }>(exporter, [
      "-n",
      NAMESPACE,
      "pods",
      "-l",
      `app=${name}`,
    ]);
    const domain = `${name}.${NAMESPACE}.svc.clusterset.local`;
    const resolved = (): Promise<readonly string[]> => fleet.inClient("resolve", domain);
    const fleetAddresses = network.isParallel ? await network.addressesOf(exporter, name) : undefined;
    const addressesOf = ({ metadata, status }: Pod): readonly string[] =>
      fleetAddresses?.get(metadata.name) ?? status.podIPs.map((it) => it.ip);
    const wanted = (pods?.items ?? []).flatMap((it) => addressesOf(it)).toSorted();
    await until("the name has the pods' addresses", resolved, (it) => it.join() === wanted.join());
    for (const pod of pods?.items ?? [])
      expect(await fleet.inClient("resolve", `${pod.metadata.name}.${exporter}.${domain}`)).toEqual(
        addressesOf(pod).toSorted(),
      );
    await clusters.kubectl(exporter, ["-n", NAMESPACE, "delete", KINDS.mcsExport, name]);
    await until("the name is gone", resolved, (it) => it.length === 0);
    await clusters.kubectl(exporter, ["-n", NAMESPACE, "delete", "statefulset,service", name]);
  });

  it("loses no request while its pods are replaced", async () => {
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await clusters.kubectl(exporter, ["-n", NAMESPACE, "rollout", "restart", `deployment/${HELLO}`]);
      await clusters.rolledOut(exporter, NAMESPACE, `deployment/${HELLO}`);
      await untilOffered(fleet, HELLO, REPLICAS);
    });
  });

  it("has no endpoints anywhere while it has no pods, and has them again afterwards", async () => {
    await fleet.scale(exporter, HELLO, 0);
    await untilOffered(fleet, HELLO, 0);
    await load.until("no request is answered", (it) => it.asked > 0 && it.failed === it.asked);
    await fleet.scale(exporter, HELLO, REPLICAS);
    await untilOffered(fleet, HELLO, REPLICAS);
    await load.untilAnsweredBy(exporter);
  });
});

describe("a service that two clusters export", () => {
  beforeAll(async () => {
    await exportHello();
    await clusters.apply(importer, mcsExport(HELLO));
    await load.untilAnsweredBy(exporter, importer);
  });

  it("is answered by the other cluster while one has no pods, without a lost request", async () => {
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await fleet.scale(exporter, HELLO, 0);
      await load.untilAnsweredBy(importer);
      await fleet.scale(exporter, HELLO, REPLICAS);
      await load.untilAnsweredBy(exporter, importer);
    });
  });

  it("is answered by the other cluster while one has a lower priority, does not export, or has weight 0", async () => {
    const changes = [
      () => clusters.apply(exporter, mcsExport(HELLO, { "fairlead.dev/priority": "1" })),
      () => clusters.apply(exporter, mcsExport(HELLO, { "fairlead.dev/weight": "0" })),
      () => clusters.kubectl(exporter, ["-n", NAMESPACE, "delete", KINDS.mcsExport, HELLO]),
    ];
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      for (const change of changes) {
        await change();
        await load.untilAnsweredBy(importer);
        await clusters.apply(exporter, mcsExport(HELLO));
        await load.untilAnsweredBy(exporter, importer);
      }
    });
  });

  it("has a condition in both clusters while they disagree about its ports", async () => {
    const name = "odd";
    const withPort = (port: number) => service(name, { ports: [{ name: "http", port, targetPort: "http" }] });
    const disagree = (): Promise<readonly (string | undefined)[]> =>
      Promise.all([exporter, importer].map((it) => conditionOf(it, name, "Conflict")));
    await clusters.apply(exporter, withPort(80), mcsExport(name));
    await clusters.apply(importer, withPort(81), mcsExport(name));
    await until("both have the condition Conflict", disagree, (it) =>
      it.every((status) => status === "True"),
    );
    await clusters.apply(importer, withPort(80));
    await until("both agree", disagree, (it) => it.every((status) => status !== "True"));
    for (const member of [exporter, importer])
      for (const kind of [KINDS.mcsExport, "service"])
        await clusters.kubectl(member, ["-n", NAMESPACE, "delete", kind, name]);
  });

  it("is answered by both in each where an annotation makes it global, and by its own cluster without", async () => {
    const name = "everywhere";
    const url = `http://${name}.${NAMESPACE}.svc.cluster.local/`;
    const annotate = (member: string, annotation: string) =>
      clusters.kubectl(member, ["-n", NAMESPACE, "annotate", "service", name, annotation]);
    const untilAnsweredBy = (expected: readonly string[]) =>
      until(
        `${expected.join(" and ")} answer`,
        async () => Object.keys((await fleet.inClient<Tally>("ask", url, "40")).by),
        (it) => it.toSorted().join() === expected.toSorted().join(),
      );
    for (const member of [exporter, importer]) {
      await fleet.serve(member, name, { replicas: 1 });
      await annotate(member, "service.cilium.io/global=true");
    }
    await untilAnsweredBy([exporter, importer]);
    await annotate(exporter, "service.cilium.io/shared=false");
    await untilAnsweredBy([importer]);
    for (const member of [exporter, importer])
      await clusters.kubectl(member, ["-n", NAMESPACE, "delete", "deployment,service", name]);
  });

  it("is answered by the other cluster while one is drained, without a lost request", async () => {
    const drain = ["drain", exporter, "--hub-context", clusters.hub];
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await clusters.fairlead(drain);
      await load.untilAnsweredBy(importer);
      await clusters.fairlead([...drain, "--undo"]);
      await load.untilAnsweredBy(exporter, importer);
    });
  });

  it("loses no request while the hub is down, and follows changes from that time afterwards", async () => {
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      const restore = await clusters.stopHub();
      try {
        await fleet.scale(exporter, HELLO, REPLICAS + 1);
        await load.pass(10);
      } finally {
        await restore();
      }
      await untilOffered(fleet, HELLO, 2 * REPLICAS + 1);
    });
    await fleet.scale(exporter, HELLO, REPLICAS);
    await untilOffered(fleet, HELLO, 2 * REPLICAS);
  });

  it("loses no request by its address while all agents are killed, and the restarted agents update it", async () => {
    await load.withoutFailure([BY_ADDRESS], async () => {
      for (const cluster of clusters.all)
        await clusters.kubectl(cluster, [
          "-n",
          SYSTEM,
          "delete",
          "pods",
          "--all",
          "--force",
          "--grace-period=0",
        ]);
      for (const cluster of clusters.all) await untilFleetRuns(cluster);
    });
    await fleet.scale(exporter, HELLO, REPLICAS - 1);
    await untilOffered(fleet, HELLO, 2 * REPLICAS - 1);
    await fleet.scale(exporter, HELLO, REPLICAS);
    await untilOffered(fleet, HELLO, 2 * REPLICAS);
    await load.untilAnsweredBy(exporter, importer);
  });

  it("loses no request while the identity of a cluster is replaced", async () => {
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await clusters.fairlead([
        "join",
        ...clusters.ofMember(exporter),
        "--agent",
        "none",
        "--rotate",
        ...joinFlags,
      ]);
      await fleet.scale(exporter, HELLO, REPLICAS + 1);
      await untilOffered(fleet, HELLO, 2 * REPLICAS + 1);
    });
    await fleet.scale(exporter, HELLO, REPLICAS);
    await untilOffered(fleet, HELLO, 2 * REPLICAS);
  });

  it("loses no request while one of the clusters leaves the fleet and joins again", async () => {
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await clusters.fairlead(["leave", ...clusters.ofMember(exporter)]);
      await load.untilAnsweredBy(importer);
      await clusters.fairlead(["join", ...clusters.ofMember(exporter), "--agent", "none", ...joinFlags]);
      await load.untilAnsweredBy(exporter, importer);
    });
  });

  it("loses no request while the charts are upgraded and rolled back", async () => {
    const changed = ["podAnnotations.e2e=upgraded"];
    const ofMember = [...changed, ...network.memberValues];
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await clusters.chart(clusters.hub, ["upgrade"], "fairlead-hub", changed);
      for (const member of clusters.members) {
        const takesOver = member === exporter ? [] : ["--install", "--take-ownership"];
        await clusters.chart(member, ["upgrade", ...takesOver], "fairlead-member", ofMember);
      }
      await clusters.helm(exporter, ["rollback", "fairlead-member", "1", "--wait"]);
    });
    await load.untilAnsweredBy(exporter, importer);
  });

  it("is deleted everywhere once no cluster exports it", async () => {
    for (const member of [exporter, importer])
      await clusters.kubectl(member, ["-n", NAMESPACE, "delete", KINDS.mcsExport, HELLO]);
    await until(
      "the import is gone",
      () => fleet.importedAddresses(HELLO),
      (it) => it.length === 0,
    );
    await until(
      "the name is gone",
      () => fleet.inClient<readonly string[]>("resolve", NAME),
      (it) => it.length === 0,
    );
  });
});

describe.runIf(network.isParallel)("a parallel network", () => {
  beforeAll(async () => {
    await clusters.apply(exporter, mcsExport(HELLO));
    await load.untilAnsweredBy(exporter);
  });

  it("gives a pod an interface with its fleet addresses, by which others see it, over each family", async () => {
    const [own = []] = (await network.addressesOf(importer, CLIENT)).values();
    const interfaces = (): Promise<Readonly<Record<string, readonly string[]>>> =>
      fleet.inClient("interfaces");
    await until("the client has its interface", interfaces, (it) => it[FLEET_DEVICE]?.length === own.length);
    expect((await interfaces())[FLEET_DEVICE]).toEqual(own.toSorted());
    const servers = [...(await network.addressesOf(exporter, HELLO)).values()].flat();
    for (const address of [...(await fleet.importedAddresses(HELLO)), ...servers])
      expect(await fleet.clientAddresses(urlOf(address, servers.includes(address) ? 8080 : 80))).toEqual([
        own.find((it) => it.includes(":") === address.includes(":")),
      ]);
  });

  it("carries requests of pods without an interface", async () => {
    await fleet.startClient([`${BY_NAME}=http://${NAME}/`], PLAIN_CLIENT);
    await new Load(clusters, importer, PLAIN_CLIENT).untilAnsweredBy(exporter);
    await clusters.kubectl(importer, ["-n", NAMESPACE, "delete", `deployment/${PLAIN_CLIENT}`]);
  });

  it("opens what is exported only", async () => {
    const [address = ""] = [...(await network.addressesOf(exporter, HELLO)).values()][0] ?? [];
    const { failed } = await fleet.inClient<Tally>("ask", `http://${address}:8081/`, "1");
    expect(failed).toBe(1);
  });

  it("loses no request while the gateways exchange their keys", async () => {
    const epoch = (): Promise<number> => network.keyEpoch();
    const before = await epoch();
    await load.withoutFailure([BY_ADDRESS, BY_NAME], async () => {
      await network.rotateKeys();
      await until("the next epoch of keys", epoch, (it) => it > before);
      await load.pass(10);
    });
  });

  it("reports a path between all members", async () => {
    const args = ["status", "--hub-context", clusters.hub, "--paths"];
    await until(
      "all paths",
      () => clusters.fairlead(args, { allowFailure: true }),
      (it) => !/\b(none|unknown)\b/.test(it) && /\b(direct|relay|tcp)\b/.test(it),
    );
  });

  afterAll(async () => {
    await clusters.kubectl(exporter, [
      "-n",
      NAMESPACE,
      "delete",
      KINDS.mcsExport,
      HELLO,
      "--ignore-not-found",
    ]);
  });
});

describe.runIf(network.isUsed)("a network policy", () => {
  const name = "guarded";
  const url = `http://${name}.${NAMESPACE}.svc.cluster.local/`;
  const isAnswered = async (): Promise<boolean> => {
    const { failed, by } = await fleet.inClient<Tally>("ask", url, "2");
    return failed === 0 && by[exporter] === 2;
  };
  /** Its verdict on requests of the client, with the rule that it names. */
  const explained = async (): Promise<Explanation> => {
    const [from, to] = [await fleet.podOf(importer, CLIENT), await fleet.podOf(exporter, name)];
    const ends = [`${importer}/${NAMESPACE}/${from}`, `${exporter}/${NAMESPACE}/${to}`, "8080"];
    const contexts = ["--contexts", [importer, exporter].join()];
    return JSON.parse(
      await clusters.fairlead(["policy", "explain", ...ends, ...contexts, "-o", "json"]),
    ) as Explanation;
  };
  const admit = (cluster: string) => clusters.apply(exporter, policyForCluster(name, cluster));

  beforeAll(async () => {
    await network.untilEnforced();
    await fleet.serve(exporter, name, { replicas: 1 });
    await clusters.apply(importer, namespace(), service(name));
    for (const member of [exporter, importer])
      await clusters.kubectl(member, [
        "-n",
        NAMESPACE,
        "annotate",
        "service",
        name,
        "service.cilium.io/global=true",
      ]);
    if ((await clusters.find(importer, ["-n", NAMESPACE, "deployment", CLIENT])) === undefined)
      await fleet.startClient([`${BY_NAME}=${url}`]);
    await until("requests are answered", isAnswered, Boolean);
  });

  it("that names another cluster lets that in, and one that names its own cuts the other off, and says why", async () => {
    const rule = `NetworkPolicy ${NAMESPACE}/${name} spec.ingress[0]`;
    await admit(importer);
    await until("the rule allows it", explained, (it) => it.ingress.rule === rule);
    await until("requests are answered", isAnswered, Boolean);
    await admit(exporter);
    await until("no request is answered", isAnswered, (it) => !it);
    const { verdict, ingress } = await until(
      "the rule does not allow it",
      explained,
      (it) => it.verdict === "Denied",
    );
    expect(`${verdict}: ${ingress.reason}`).toMatch(
      new RegExp(`^Denied: .*NetworkPolicy ${NAMESPACE}/${name}`),
    );
    await admit(importer);
    await until("requests are answered again", isAnswered, Boolean);
  });

  it("does not restrict any client once it is deleted", async () => {
    await admit(exporter);
    await until("no request is answered", isAnswered, (it) => !it);
    await clusters.kubectl(exporter, ["-n", NAMESPACE, "delete", "networkpolicy", name]);
    await until("requests are answered again", isAnswered, Boolean);
  });

  afterAll(async () => {
    await clusters.kubectl(exporter, [
      "-n",
      NAMESPACE,
      "delete",
      "deployment,service,networkpolicy",
      name,
      "--ignore-not-found",
    ]);
    await clusters.kubectl(importer, ["-n", NAMESPACE, "delete", "service", name, "--ignore-not-found"]);
  });
});

describePlacements(fleet);

describe("Fairlead", () => {
  it("verifies the network from every member to every other, and removes what it created", async () => {
    const contexts = ["--member-contexts", clusters.members.join()];
    const text = await clusters.fairlead(["verify", ...contexts, "--image", settings.image, "-o", "json"]);
    const { summary } = JSON.parse(text) as { readonly summary: Summary };
    const pairs = clusters.members.length * (clusters.members.length - 1);
    expect(summary).toMatchObject({ pairs, pairsPassed: pairs, failed: 0 });
  });

  it.skipIf(settings.keep || network.hasAgents)("leaves nothing behind when it is uninstalled", async () => {
    await fleet.remove();
    isRemoved = true;
    for (const cluster of clusters.all)
      await until(
        `cluster ${cluster} is as it was`,
        async () =>
          differences(fleet.before.get(cluster) ?? new Map(), await takeSnapshot(clusters, cluster)),
        (it) => it.length === 0,
      );
  });
});

async function conditionOf(member: string, name: string, type: string): Promise<string | undefined> {
  const found = await clusters.find<WithConditions>(member, ["-n", NAMESPACE, KINDS.mcsExport, name]);
  return found?.status?.conditions?.find((it) => it.type === type)?.status;
}

async function untilFleetRuns(cluster: string): Promise<void> {
  const found = await clusters.find<{ items: readonly { metadata: { name: string } }[] }>(cluster, [
    "-n",
    SYSTEM,
    "deployments",
  ]);
  for (const { metadata } of found?.items ?? [])
    await clusters.rolledOut(cluster, SYSTEM, `deployment/${metadata.name}`);
}

/** By what the cluster gives: an address of a load balancer, else the Service's own; and a port of a node. */
async function addressesOfMultiClusterService(name: string): Promise<readonly string[]> {
  const label = "networking.fleet.azure.com/derived-service";
  const { metadata } = await until(
    "the MultiClusterService is valid",
    async () =>
      (await clusters.find<WithConditions>(importer, ["-n", NAMESPACE, KINDS.multiClusterService, name]))!,
    (it) =>
      it.metadata.labels?.[label] !== undefined &&
      it.status?.conditions?.some((one) => one.type === "Valid" && one.status === "True") === true,
  );
  const derived = metadata.labels?.[label] ?? "";
  const { spec, status } = (await clusters.find<Service>(importer, ["-n", SYSTEM, "service", derived]))!;
  const nodes = await clusters.find<{ items: readonly NodeObject[] }>(importer, ["nodes"]);
  const node = nodes?.items[0]?.status.addresses.find((it) => it.type === "InternalIP")?.address ?? "";
  const port = spec.ports[0]?.nodePort;
  const balancer = status.loadBalancer.ingress?.[0]?.ip;
  const host = (address: string): string => (address.includes(":") ? `[${address}]` : address);
  return [host(balancer ?? spec.clusterIP), ...(port === undefined ? [] : [`${host(node)}:${port}`])];
}

interface Pod {
  readonly metadata: { readonly name: string };
  readonly status: { readonly podIPs: readonly { readonly ip: string }[] };
}

interface WithConditions {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

interface Service {
  readonly spec: { readonly clusterIP: string; readonly ports: readonly { readonly nodePort?: number }[] };
  readonly status: { readonly loadBalancer: { readonly ingress?: readonly { readonly ip?: string }[] } };
}

interface NodeObject {
  readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
}
