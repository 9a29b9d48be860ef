import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { EVENTS, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { deploy, ensureNamespace, exportBy, startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { ACCEPTED, giveAddresses, MEMBERS, said, Scene } from "./world.ts";

/** What fleet-networking's end-to-end tests of MultiClusterServices assert, and what we do beyond it. */

let fleet: TestFleet;
const cloud = new AsyncDisposableStack();
let scene: Scene;
let count = 0;

beforeAll(async () => {
  fleet = await startFleet({ members: MEMBERS });
  for (const name of MEMBERS) cloud.use(giveAddresses(fleet.client(name)));
});
afterAll(async () => {
  await cloud.disposeAsync();
  await fleet[Symbol.asyncDispose]();
});
beforeEach(async () => {
  count += 1;
  scene = await Scene.create(fleet, `my-ns-${count}`);
});

type Member = (typeof MEMBERS)[number];

async function offer(
  name = "app",
  port = 80,
  more: Partial<Parameters<typeof deploy>[1]> & { readonly annotations?: Record<string, string> } = {},
): Promise<string[]> {
  const { annotations, ...workload } = more;
  const { namespace } = scene;
  const addresses = [`10.2.${count}.${port % 250}`];
  await deploy(fleet.client("member-2"), {
    namespace,
    name,
    addresses,
    ports: [{ port, targetPort: 8080 }],
    ...workload,
  });
  await exportBy("fleet", fleet.client("member-2"), {
    namespace,
    name,
    ...(annotations === undefined ? {} : { annotations }),
  });
  return addresses;
}
const remove = (member: Member, name = "app") =>
  fleet.client(member).delete(MULTI_CLUSTER_SERVICES, scene.key(name));
const annotate = (member: Member, annotations: Record<string, string | null>, name = "app") =>
  fleet.client(member).mergePatch(MULTI_CLUSTER_SERVICES, scene.key(name), { metadata: { annotations } });
const untilDerived = (member: Member, name: string, until?: (service: Service) => boolean) =>
  eventuallyOne(fleet.client(member), SERVICES, objectKey("fleet-system", name), until);

describe("MultiClusterServices", () => {
  it("of different services are independent of each other", async () => {
    const [one, two] = [await offer("app", 80), await offer("other", 81)];
    for (const name of ["app", "other"]) await scene.importBy("member-1", name);
    const [first, second] = [
      await scene.untilServed("member-1", "app"),
      await scene.untilServed("member-1", "other"),
    ];
    expect(first.status?.loadBalancer).not.toEqual(second.status?.loadBalancer);
    await scene.untilBehind("member-1", scene.derivedName(first), one);
    await scene.untilBehind("member-1", scene.derivedName(second), two);
  });

  it.each(["member-1", "member-2"] as const)(
    "C1: of one service: the second, in %s, waits until the first is deleted, reports its name, and takes over",
    async (other) => {
      const addresses = await offer();
      await scene.importBy("member-1", "app", { name: "first" });
      await scene.untilServed("member-1", "first");
      await scene.importBy(other, "app", { name: "second" });
      const waiting = await eventuallyOne(
        fleet.client(other),
        MULTI_CLUSTER_SERVICES,
        scene.key("second"),
        (it) =>
          it.status?.conditions?.[0]?.message.includes(
            other === "member-1"
              ? "MultiClusterService first of this cluster imports app"
              : `${scene.namespace}/app is imported by member-1`,
          ) === true,
      );
      expect(said(waiting.status?.conditions)).toEqual(["Valid=Unknown:UnknownServiceImport"]);
      await scene.untilUnknown(other, "second");
      await remove("member-1", "first");
      const served = await scene.untilServed(other, "second");
      await scene.untilBehind(other, scene.derivedName(served), addresses);
    },
  );

  it("C1: of one service in several members, where all of them share it", async () => {
    const addresses = await offer();
    const annotations = { "fairlead.dev/import": "shared" };
    for (const member of MEMBERS) await scene.importBy(member, "app", { annotations });
    for (const member of MEMBERS) {
      const served = await scene.untilServed(member);
      await scene.untilBehind(member, scene.derivedName(served), addresses);
    }
    const claimed = await eventuallyOne(fleet.client("hub"), FLEET_SERVICE_IMPORTS, scene.key("app"));
    expect(claimed.metadata.annotations?.["networking.fleet.azure.com/service-in-use-by"]).toBe(
      '{"MemberClusters":{"fleet-member-member-1":"member-1","fleet-member-member-2":"member-2"}}',
    );
    // A member that no longer shares has it alone, or waits for the first one that asked.
    await annotate("member-2", { "fairlead.dev/import": null });
    await scene.untilUnknown("member-2");
    await remove("member-1");
    await scene.untilServed("member-2");
  });

  it("change to another service, and release the first for the next member", async () => {
    const [app, other] = [await offer("app", 80), await offer("other", 81)];
    await scene.importBy("member-1", "app", { name: "turning" });
    await scene.untilServed("member-1", "turning");
    await scene.importBy("member-1", "app", { name: "patient" });
    await scene.untilUnknown("member-1", "patient");
    await fleet.client("member-1").mergePatch(MULTI_CLUSTER_SERVICES, scene.key("turning"), {
      spec: { serviceImport: { name: "other" } },
    });
    const patient = await scene.untilServed("member-1", "patient");
    const turned = await eventuallyOne(
      fleet.client("member-1"),
      MULTI_CLUSTER_SERVICES,
      scene.key("turning"),
      (it) =>
        it.metadata.labels?.["networking.fleet.azure.com/service-import"] === "other" &&
        said(it.status?.conditions).join() === "Valid=True:FoundServiceImport",
    );
    const derived = await untilDerived(
      "member-1",
      scene.derivedName(turned),
      (it) => it.spec?.ports?.[0]?.port === 81,
    );
    expect(derived.spec?.ports?.map(({ port, targetPort }) => ({ port, targetPort }))).toEqual([
      { port: 81, targetPort: 8080 },
    ]);
    await scene.untilBehind("member-1", scene.derivedName(turned), other);
    await scene.untilBehind("member-1", scene.derivedName(patient), app);
  });

  it("wait for a service that is exported later", async () => {
    await scene.importBy("member-1");
    const waiting = await eventuallyOne(
      fleet.client("member-1"),
      MULTI_CLUSTER_SERVICES,
      scene.key("app"),
      (it) => it.status?.conditions?.[0]?.message === `no cluster exports ${scene.namespace}/app`,
    );
    expect(said(waiting.status?.conditions)).toEqual(["Valid=Unknown:UnknownServiceImport"]);
    await scene.untilUnknown("member-1");
    const addresses = await offer();
    const served = await scene.untilServed("member-1");
    await scene.untilBehind("member-1", scene.derivedName(served), addresses);
  });

  it("C2: report that they cannot serve a headless service, which only the Multi-Cluster Services API exports", async () => {
    await deploy(fleet.client("member-2"), {
      namespace: scene.namespace,
      name: "app",
      headless: true,
      addresses: ["10.2.0.1"],
    });
    await exportBy("mcs", fleet.client("member-2"), { namespace: scene.namespace, name: "app" });
    await scene.importBy("member-1");
    await eventuallyOne(
      fleet.client("member-1"),
      MULTI_CLUSTER_SERVICES,
      scene.key("app"),
      (it) => it.status?.conditions?.[0]?.message.includes("headless") === true,
    );
    await scene.untilUnknown("member-1");
  });
});

describe("the Service behind a MultiClusterService", () => {
  const internal = "networking.fleet.azure.com/azure-load-balancer-internal";

  it("A12: is internal while the annotation requests it, and has no other annotation", async () => {
    await offer();
    await scene.importBy("member-1", "app", { annotations: { [internal]: "true" } });
    const name = scene.derivedName(await scene.untilServed("member-1"));
    const made = await untilDerived("member-1", name);
    expect(made.metadata.annotations).toEqual({
      "service.beta.kubernetes.io/azure-load-balancer-internal": "true",
    });
    await annotate("member-1", { [internal]: null });
    const open = await untilDerived("member-1", name, (it) => it.metadata.annotations === undefined);
    expect(open.metadata.uid).toBe(made.metadata.uid);
    await annotate("member-1", { [internal]: "1" });
    await untilDerived("member-1", name, (it) => it.metadata.annotations !== undefined);
  });

  it("A12: of another agent is taken over with its address, without that agent's fields", async () => {
    await offer();
    const member = fleet.client("member-1");
    const name = `${scene.namespace}-app`;
    const agent = fleet.agents.get("member-1")!;
    await agent.stop();
    await scene.importBy("member-1");
    const legacy = await member.create(SERVICES, {
      metadata: {
        namespace: "fleet-system",
        name,
        labels: {
          "networking.fleet.azure.com/multi-cluster-service-name": "app",
          "networking.fleet.azure.com/multi-cluster-service-namespace": scene.namespace,
        },
        annotations: { "service.beta.kubernetes.io/azure-load-balancer-internal": "true" },
      },
      spec: {
        type: "LoadBalancer",
        ports: [
          { name: "a", port: 80 },
          { name: "old", port: 99 },
        ],
      },
    });
    agent.start();
    const served = await scene.untilServed("member-1");
    expect(scene.derivedName(served)).toBe(name);
    const taken = await untilDerived(
      "member-1",
      name,
      (it) => it.spec?.ports?.length === 1 && it.metadata.annotations === undefined,
    );
    expect(taken.metadata.uid).toBe(legacy.metadata.uid);
    expect(taken.spec?.clusterIP).toBe(legacy.spec?.clusterIP);
  });

  it("A7: is kept with its address while no cluster exports, and is the same again when one does", async () => {
    const addresses = await offer();
    await scene.importBy("member-1");
    const before = await scene.untilServed("member-1");
    const name = scene.derivedName(before);
    const made = await untilDerived("member-1", name);
    await fleet.client("member-2").delete(FLEET_SERVICE_EXPORTS, scene.key("app"));
    const empty = await scene.untilUnknown("member-1");
    expect(scene.derivedName(empty)).toBe("");
    expect(empty.status?.conditions?.[0]?.message).toMatch(
      /^no cluster exports .*; Service fleet-system\/.* keeps its address until /,
    );
    await scene.untilBehind("member-1", name, []);
    expect((await untilDerived("member-1", name)).metadata.uid).toBe(made.metadata.uid);
    await exportBy("fleet", fleet.client("member-2"), { namespace: scene.namespace, name: "app" });
    const after = await scene.untilServed("member-1");
    expect(after.status?.loadBalancer).toEqual(before.status?.loadBalancer);
    expect((await untilDerived("member-1", name)).metadata.uid).toBe(made.metadata.uid);
    await scene.untilBehind("member-1", name, addresses);
  });

  it("A7: is deleted at once without a grace period, and as soon as the grace period is removed", async () => {
    await offer();
    await scene.importBy("member-1", "app", { annotations: { "fairlead.dev/grace-period": "1h" } });
    const name = scene.derivedName(await scene.untilServed("member-1"));
    await fleet.client("member-2").delete(FLEET_SERVICE_EXPORTS, scene.key("app"));
    await scene.untilUnknown("member-1");
    expect(await untilDerived("member-1", name)).toBeDefined();
    await annotate("member-1", { "fairlead.dev/grace-period": "0s" });
    await eventually(
      fleet.client("member-1"),
      SERVICES,
      (all) => !all.some((it) => it.metadata.name === name),
    );
  });

  it("A5, A6: has a unique and valid name, regardless of the names of namespace and service", async () => {
    const long = "n".repeat(63);
    const digits = `0-${"d".repeat(40)}`;
    const pairs = [
      [`x${count}-b`, "c"],
      [`x${count}`, "b-c"],
      [long, "s".repeat(63)],
      [digits, "app"],
    ] as const;
    const names = new Set<string>();
    for (const [namespace, name] of pairs) {
      await ensureNamespace(fleet.client("member-1"), namespace);
      const own = new Scene(fleet, namespace);
      await deploy(fleet.client("member-2"), { namespace, name, addresses: ["10.2.7.1"] });
      await exportBy("fleet", fleet.client("member-2"), { namespace, name });
      await own.untilExport("member-2", ACCEPTED, name);
      await own.importBy("member-1", name);
      names.add(own.derivedName(await own.untilServed("member-1", name)));
    }
    expect(names.size).toBe(pairs.length);
    for (const name of names) expect(name).toMatch(/^[a-z][-a-z0-9]{0,61}[a-z0-9]$/);
    // One object each in the mailbox, too: no MultiClusterService evicts another one's.
    const asked = (
      await fleet.client("hub").list(INTERNAL_SERVICE_IMPORTS, { namespace: "fleet-member-member-1" })
    ).items;
    for (const [namespace, name] of pairs)
      expect(
        asked.filter((it) => it.spec.serviceImportReference.namespacedName === `${namespace}/${name}`),
      ).toHaveLength(1);
  });

  it("A6: that the server rejects is reported in a condition with the server's message, until it can be created", async () => {
    await offer();
    await scene.importBy("member-1", "app", {
      annotations: {
        "fairlead.dev/health-check-node-port": "40000",
        "fairlead.dev/external-traffic-policy": "Local",
      },
    });
    const refused = await eventuallyOne(
      fleet.client("member-1"),
      MULTI_CLUSTER_SERVICES,
      scene.key("app"),
      (it) => it.status?.conditions?.some((one) => one.reason === "ServiceRefused") === true,
    );
    expect(said(refused.status?.conditions)).toEqual([
      "Valid=True:FoundServiceImport",
      "fairlead.dev/LoadBalancer=False:ServiceRefused",
    ]);
    expect(refused.status?.conditions?.[1]?.message).toMatch(/40000/);
    await eventually(
      fleet.client("member-1"),
      EVENTS,
      (all) => all.some((it) => it.reason === "ServiceRefused" && it.type === "Warning"),
      { namespace: scene.namespace },
    );
    await annotate("member-1", { "fairlead.dev/health-check-node-port": null });
    const served = await scene.untilServed("member-1");
    expect((await untilDerived("member-1", scene.derivedName(served))).spec?.externalTrafficPolicy).toBe(
      "Local",
    );
  });

  it("C6: follows the annotations; an invalid one is reported, and the previous value stays", async () => {
    await offer("app", 80, {
      service: { sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds: 77 } } },
    });
    await scene.importBy("member-1", "app", {
      annotations: {
        "fairlead.dev/load-balancer-class": "example.com/lb",
        "fairlead.dev/load-balancer-ip": "192.0.2.7",
        "fairlead.dev/source-ranges": "192.0.2.0/24",
        "fairlead.dev/allocate-node-ports": "false",
        "metallb.io/address-pool": "public",
        "example.com/other": "x",
      },
    });
    const name = scene.derivedName(await scene.untilServed("member-1"));
    const made = await untilDerived("member-1", name);
    expect(made.metadata.annotations).toEqual({ "metallb.io/address-pool": "public" });
    expect(made.spec).toMatchObject({
      loadBalancerClass: "example.com/lb",
      loadBalancerIP: "192.0.2.7",
      loadBalancerSourceRanges: ["192.0.2.0/24"],
      allocateLoadBalancerNodePorts: false,
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 77 } },
    });
    await annotate("member-1", { "fairlead.dev/source-ranges": "everyone", "metallb.io/address-pool": null });
    const wrong = await eventuallyOne(
      fleet.client("member-1"),
      MULTI_CLUSTER_SERVICES,
      scene.key("app"),
      (it) => it.status?.conditions?.some((one) => one.reason === "OptionInvalid") === true,
    );
    expect(wrong.status?.conditions?.[1]?.message).toBe(
      'annotation fairlead.dev/source-ranges is "everyone"; it must be a comma-separated list of CIDRs: ' +
        "the Service keeps its previous settings",
    );
    const kept = await untilDerived("member-1", name, (it) => it.metadata.annotations === undefined);
    expect(kept.spec?.loadBalancerSourceRanges).toEqual(["192.0.2.0/24"]);
    await annotate("member-1", { "fairlead.dev/source-ranges": null });
    const open = await untilDerived(
      "member-1",
      name,
      (it) => it.spec?.loadBalancerSourceRanges === undefined,
    );
    expect(open.metadata.uid).toBe(made.metadata.uid);
    await scene.untilServed("member-1");
  });

  it("reports that different weights of clusters have no effect on it", async () => {
    await offer("app", 80, { annotations: { "networking.fleet.azure.com/weight": "3" } });
    await scene.importBy("member-1");
    await scene.untilServed("member-1");
    const { namespace } = scene;
    await deploy(fleet.client("member-1"), {
      namespace,
      name: "app",
      addresses: ["10.1.0.1"],
      ports: [{ port: 80, targetPort: 8080 }],
    });
    await exportBy("fleet", fleet.client("member-1"), { namespace, name: "app" });
    const reported = await eventuallyOne(
      fleet.client("member-1"),
      MULTI_CLUSTER_SERVICES,
      scene.key("app"),
      (it) =>
        said(it.status?.conditions).includes("fairlead.dev/WeightsHonored=False:ServiceProxyKnowsNoWeights"),
    );
    expect(reported.status?.conditions?.[1]?.message).toContain("member-1 1, member-2 3");
  });

  it("B8: is not written, nor is any other object, by a reconcile that changes nothing", async () => {
    await offer();
    await scene.importBy("member-1");
    const served = await scene.untilServed("member-1");
    const name = scene.derivedName(served);
    await scene.untilBehind("member-1", name, [`10.2.${count}.80`]);
    const running = fleet.running.get("member-1")!;
    const settle = () => Promise.all(running.controllers.map((it) => it.idle(AbortSignal.timeout(10_000))));
    await settle();
    const state = async () => [
      await untilDerived("member-1", name),
      await fleet.client("member-1").get(MULTI_CLUSTER_SERVICES, scene.key("app")),
      await fleet.client("member-1").get(FLEET_SERVICE_IMPORTS, scene.key("app")),
    ];
    const before = await state();
    const { local } = running.session;
    const writes = (["apply", "mergePatch", "create", "delete"] as const).map((it) => vi.spyOn(local, it));
    for (let pass = 0; pass < 3; pass += 1) {
      for (const controller of running.controllers)
        if (controller.name === "multiclusterservice") controller.enqueue(scene.key("app"));
      await settle();
    }
    for (const write of writes) {
      expect(write).not.toHaveBeenCalled();
      write.mockRestore();
    }
    const versions = (of: typeof before) => of.map((it) => it.metadata.resourceVersion);
    expect(versions(await state())).toEqual(versions(before));
    expect(before[0]).toHaveProperty(["spec", "ports", 0, "nodePort"]);
  });
});
