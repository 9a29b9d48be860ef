import { afterAll, beforeAll, expect, it } from "vitest";
import { IDENTITY_SLICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { addressesOf, endOf, trafficOf } from "@fairlead/fleet/cli/policy/ends.ts";
import { explain } from "@fairlead/fleet/cli/policy/explain.ts";
import { lint } from "@fairlead/fleet/cli/policy/lint.ts";
import { readCluster } from "@fairlead/fleet/cli/policy/read.ts";
import { ClusterView } from "@fairlead/fleet/cli/policy/view.ts";
import { whatIf } from "@fairlead/fleet/cli/policy/what-if.ts";
import { NODES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { ensureNamespace, startFleet, type TestFleet } from "../support/fleet.ts";
import { addNode, createProfile, setProfile } from "../support/mesh.ts";
import { admit, runPod } from "../support/pods.ts";
import { eventually } from "../support/waiting.ts";

/** "fairlead policy", with what real agents wrote. */

let fleet: TestFleet;
const signal = new AbortController().signal;

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"] });
  await createProfile(fleet.client("hub"), "p", { network: { mode: "flat" } });
  for (const [at, name] of ["a", "b"].entries()) {
    const client = fleet.client(name);
    await addNode(client, "n1", { address: `192.168.${at}.1`, podCIDR: `10.${at + 1}.0.0/16` });
    await ensureNamespace(client, "shop");
    await setProfile(fleet.client("hub"), name, "p");
    await eventually(client, MESH_NETWORKS, (all) => all.length === 1);
  }
});
afterAll(() => fleet[Symbol.asyncDispose]());

it("explains and checks policies by what the members know of each other", async () => {
  await runPod(fleet.client("a"), "front", {
    namespace: "shop",
    labels: { app: "front" },
    address: "10.1.0.5",
  });
  await runPod(fleet.client("b"), "cart", {
    namespace: "shop",
    labels: { app: "cart" },
    address: "10.2.0.5",
  });
  const labels = { app: "front", "io.cilium.k8s.policy.cluster": "a" };
  await admit(fleet.client("b"), "front-of-a", { namespace: "shop", labels });
  await eventually(fleet.client("b"), IDENTITY_SLICES, (all) => all.some((it) => it.spec.type === "Pods"));
  const views = await Promise.all(
    ["a", "b"].map(async (it) => new ClusterView(await readCluster(fleet.client(it), it, signal))),
  );
  const ends = [endOf("a/shop/front", views), endOf("b/shop/cart", views)] as const;
  const [, destination] = addressesOf(...ends);
  const there = explain(views, ...ends, trafficOf("8080", destination));
  expect(there).toMatchObject({
    verdict: "Allowed",
    ingress: { rule: "NetworkPolicy shop/front-of-a spec.ingress[0]" },
  });
  expect(explain(views, ends[1], ends[1], trafficOf("8080", destination)).verdict).toBe("Denied");
  expect(lint(views)).toEqual([]);
}, 40_000);

it("lists who gains or loses if the profile has other defaults", async () => {
  for (const name of ["a", "b"]) {
    const service = { namespace: "shop", name: "cart", annotations: { "service.cilium.io/global": "true" } };
    await fleet.client(name).create(SERVICES, { metadata: service, spec: { ports: [{ port: 80 }] } });
  }
  const clusters = await Promise.all(["a", "b"].map((it) => readCluster(fleet.client(it), it, signal)));
  const { services, clusters: views } = whatIf(clusters, { defaultGlobalNamespace: false });
  expect(services.map((it) => `${it.cluster} ${it.change} ${it.service} of ${it.endpointsOf}`)).toEqual([
    "a loses shop/cart of b",
    "b loses shop/cart of a",
  ]);
  const lost = views.find((it) => it.cluster === "b")?.changes ?? [];
  expect(new Set(lost.map((it) => `${it.change} ${it.from} ${it.to}`))).toEqual(
    new Set(["loses a/shop/front b/shop/cart"]),
  );
});

it("finds policies that cannot hold across clusters where a network plugin enforces policies itself", async () => {
  await fleet.client("b").mergePatch(NODES, objectKey(undefined, "n1"), {
    metadata: { annotations: { "projectcalico.org/IPv4Address": "192.168.1.1/24" } },
  });
  const found = lint([new ClusterView(await readCluster(fleet.client("b"), "b", signal))]);
  const fields = found.map((it) => `${it.policy} ${it.field}`);
  expect(fields).toEqual([
    "all network plugin",
    "NetworkPolicy shop/front-of-a io.cilium.k8s.policy.cluster",
    "NetworkPolicy shop/front-of-a spec.ingress[0]",
  ]);
  expect(found[0]?.problem).toContain("annotation projectcalico.org/IPv4Address of the Node n1");
});

it("explains policies of a cluster without a profile, under the name that it is given", async () => {
  const hub = fleet.client("hub");
  await ensureNamespace(hub, "kube-shop");
  for (const [name, address] of [
    ["one", "10.9.0.1"],
    ["two", "10.9.0.2"],
  ] as const)
    await runPod(hub, name, { namespace: "kube-shop", labels: { app: name }, address });
  await admit(hub, "only-three", { namespace: "kube-shop", labels: { app: "three" } });
  const views = [new ClusterView(await readCluster(hub, "home", signal))];
  const ends = [endOf("home/kube-shop/one", views), endOf("kube-shop/two", views)] as const;
  const [, destination] = addressesOf(...ends);
  const found = explain(views, ...ends, trafficOf("80", destination));
  expect(found.verdict).toBe("Denied");
  expect(found.ingress.reason).toContain("NetworkPolicy kube-shop/only-three");
  expect(() => endOf("kube-shop/four", views)).toThrow("kube-shop/four");
  expect(() => trafficOf("http", destination)).toThrow("http is not a port");
});
