import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { EVENTS, SERVICES, type ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { deploy, exportBy, PATIENCE_MS, sliceOf, startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { ACCEPTED, giveAddresses, MEMBERS, REFUSED, Scene } from "./world.ts";

/** The assertions of fleet-networking's end-to-end tests of exports, against all of Fairlead. */

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

const PORTS: readonly ServicePort[] = [{ port: 80, targetPort: 8080 }];

/** The workload of both members: two pods each, behind a Service of type LoadBalancer. */
async function deployTo(
  member: (typeof MEMBERS)[number],
  ports = PORTS,
  more: Partial<Parameters<typeof deploy>[1]> = {},
): Promise<string[]> {
  const net = MEMBERS.indexOf(member) + 1;
  const addresses = [`10.${net}.${count}.1`, `10.${net}.${count}.2`];
  const { namespace } = scene;
  await deploy(fleet.client(member), {
    namespace,
    name: "app",
    ports,
    addresses,
    service: { type: "LoadBalancer" },
    ...more,
  });
  return addresses;
}

async function exportFromBoth(): Promise<string[]> {
  const addresses: string[] = [];
  for (const member of MEMBERS) {
    addresses.push(...(await deployTo(member)));
    await exportBy("fleet", fleet.client(member), { namespace: scene.namespace, name: "app" });
    await scene.untilExport(member, ACCEPTED);
  }
  return addresses;
}

describe("a service exported from both members", () => {
  it("is valid and without conflict, has one import on the hub, and one address that leads to both", async () => {
    const addresses = await exportFromBoth();
    await scene.importBy("member-1");
    const served = await scene.untilServed("member-1");
    const { status } = await scene.untilImport((it) => it?.clusters?.length === 2);
    expect(status).toEqual({
      type: "ClusterSetIP",
      clusters: [{ cluster: "member-1" }, { cluster: "member-2" }],
      ports: [{ protocol: "TCP", port: 80, targetPort: 8080 }],
    });
    const derived = await fleet
      .client("member-1")
      .get(SERVICES, objectKey("fleet-system", scene.derivedName(served)));
    expect(derived.spec?.ports?.map(({ port, targetPort }) => ({ port, targetPort }))).toEqual([
      { port: 80, targetPort: 8080 },
    ]);
    const slices = await scene.untilBehind("member-1", scene.derivedName(served), addresses);
    for (const member of MEMBERS) expect(slices.some((it) => it.metadata.name.includes(member))).toBe(true);
    for (const slice of slices)
      expect(slice.metadata.labels).toMatchObject({
        "endpointslice.kubernetes.io/managed-by": "endpointsliceimport-controller.networking.fleet.azure.com",
      });
  });

  it("may have the name of one in another namespace, and there may be others in the same namespace", async () => {
    await exportFromBoth();
    const first = scene;
    await scene.importBy("member-1");
    const one = await scene.untilServed("member-1");
    count += 1;
    scene = await Scene.create(fleet, `my-ns-${count}`);
    const addresses = await exportFromBoth();
    await scene.importBy("member-1");
    const two = await scene.untilServed("member-1");
    expect(scene.derivedName(two)).not.toBe(first.derivedName(one));
    await scene.untilBehind("member-1", scene.derivedName(two), addresses);
    const other = [`10.1.${count}.9`];
    await deployTo("member-1", PORTS, { name: "other", addresses: other });
    await exportBy("fleet", fleet.client("member-1"), { namespace: scene.namespace, name: "other" });
    await scene.untilExport("member-1", ACCEPTED, "other");
    await scene.importBy("member-1", "other");
    const third = await scene.untilServed("member-1", "other");
    await scene.untilBehind("member-1", scene.derivedName(third), other);
    await scene.untilBehind("member-1", scene.derivedName(two), addresses);
  });

  it("follows its pods", async () => {
    const [first = "", second = "", ...others] = await exportFromBoth();
    await scene.importBy("member-1");
    const derived = scene.derivedName(await scene.untilServed("member-1"));
    await scene.untilBehind("member-1", derived, [first, second, ...others]);
    const scale = (addresses: string[]) =>
      fleet.client("member-1").mergePatch(ENDPOINT_SLICES, scene.key("app-abcde"), {
        endpoints: sliceOf({ name: "app", ports: PORTS, addresses }).endpoints,
      });
    await scale([first, second, "10.1.99.3"]);
    await scene.untilBehind("member-1", derived, [first, second, "10.1.99.3", ...others]);
    await scale([first]);
    await scene.untilBehind("member-1", derived, [first, ...others]);
  });

  it("leaves nothing behind when it is no longer exported", async () => {
    await exportFromBoth();
    await scene.importBy("member-1");
    await scene.untilServed("member-1");
    for (const member of MEMBERS) await fleet.client(member).delete(FLEET_SERVICE_EXPORTS, scene.key("app"));
    for (const member of MEMBERS)
      await eventually(
        fleet.client(member),
        FLEET_SERVICE_EXPORTS,
        (all) => !all.some((it) => it.metadata.namespace === scene.namespace),
      );
    await scene.untilUnknown("member-1");
    await eventually(
      fleet.client("hub"),
      FLEET_SERVICE_IMPORTS,
      (all) => !all.some((it) => it.metadata.namespace === scene.namespace),
    );
  });
});

describe("a service whose ports change", () => {
  const changePort = (member: string, port: number) =>
    fleet
      .client(member)
      .jsonPatch(SERVICES, scene.key("app"), [{ op: "replace", path: "/spec/ports/0/port", value: port }]);

  it("has a load balancer that keeps its address while one cluster exports it", async () => {
    await deployTo("member-1");
    await exportBy("fleet", fleet.client("member-1"), { namespace: scene.namespace, name: "app" });
    await scene.importBy("member-1");
    const before = await scene.untilServed("member-1");
    await changePort("member-1", 8081);
    const derived = objectKey("fleet-system", scene.derivedName(before));
    await eventually(fleet.client("member-1"), SERVICES, (all) =>
      all.some(
        (it) =>
          objectKey(it.metadata.namespace, it.metadata.name) === derived &&
          it.spec?.ports?.[0]?.port === 8081,
      ),
    );
    await scene.untilExport("member-1", ACCEPTED);
    const after = await scene.untilServed("member-1");
    expect(after.status?.loadBalancer).toEqual(before.status?.loadBalancer);
  });

  it("A8: that differs from another cluster's is in conflict, which names field and winner, and stays out until it agrees", async () => {
    const addresses = await exportFromBoth();
    await scene.importBy("member-1");
    const derived = scene.derivedName(await scene.untilServed("member-1"));
    await scene.untilBehind("member-1", derived, addresses);
    await changePort("member-2", 8081);
    const refused = await scene.untilExport("member-2", REFUSED);
    const conflict = refused.status?.conditions?.find((it) => it.type === "Conflict");
    expect(conflict?.message).toBe(
      `the ports of ${scene.namespace}/app in cluster member-2 are TCP/8081->8080, but those imported, from cluster ` +
        "member-1, are TCP/80->8080",
    );
    const slices = await scene.untilBehind("member-1", derived, addresses.slice(0, 2));
    expect(slices.some((it) => it.metadata.name.includes("member-2"))).toBe(false);
    await changePort("member-2", 80);
    await scene.untilExport("member-2", ACCEPTED);
    await scene.untilBehind("member-1", derived, addresses);
  });

  it("A8: keeps all endpoints while clusters change one after another, if ports are united", async () => {
    const annotations = { "fairlead.dev/ports": "union" };
    const addresses: string[] = [];
    for (const member of MEMBERS) {
      addresses.push(...(await deployTo(member, [{ name: "http", port: 80, targetPort: 8080 }])));
      await exportBy("fleet", fleet.client(member), { namespace: scene.namespace, name: "app", annotations });
      await scene.untilExport(member, ACCEPTED);
    }
    await scene.importBy("member-1");
    const derived = scene.derivedName(await scene.untilServed("member-1"));
    await scene.untilBehind("member-1", derived, addresses);
    await fleet
      .client("member-2")
      .jsonPatch(SERVICES, scene.key("app"), [
        { op: "add", path: "/spec/ports/-", value: { name: "admin", port: 9000, targetPort: 9000 } },
      ]);
    await eventually(fleet.client("member-1"), SERVICES, (all) =>
      all.some((it) => it.metadata.name === derived && it.spec?.ports?.length === 2),
    );
    await scene.untilBehind("member-1", derived, addresses);
    await scene.untilExport("member-1", ACCEPTED);
    // Its pods have no port 9000.
    const lacking = "fairlead.dev/Endpoints=False:NoSuchPort";
    await scene.untilExport("member-2", [...ACCEPTED, lacking]);
    await changePort("member-2", 8081);
    const refused = await scene.untilExport("member-2", [...REFUSED, lacking]);
    expect(refused.status?.conditions?.find((it) => it.type === "Conflict")?.message).toMatch(
      /^port http of .* is TCP\/8081 in cluster member-2 and TCP\/80 in cluster member-1, whose export is older and wins/,
    );
    // Its pods answer on a port alone that is not imported.
    await scene.untilBehind("member-1", derived, addresses.slice(0, 2));
  });
});

const POLICIES = "/apis/admissionregistration.k8s.io/v1";

/** Makes the hub refuse to delete exported endpoints, and lets it do so again. */
async function holdEndpoints(isHeld: boolean): Promise<void> {
  const hub = fleet.client("hub");
  const metadata = { name: "hold-endpoints" };
  const rule = {
    apiGroups: ["networking.fleet.azure.com"],
    apiVersions: ["*"],
    resources: ["endpointsliceexports"],
    operations: ["DELETE"],
  };
  const kinds = {
    validatingadmissionpolicies: {
      metadata,
      spec: { matchConstraints: { resourceRules: [rule] }, validations: [{ expression: "false" }] },
    },
    validatingadmissionpolicybindings: {
      metadata,
      spec: { policyName: metadata.name, validationActions: ["Deny"] },
    },
  };
  for (const [plural, object] of Object.entries(kinds)) {
    if (isHeld) await hub.request("POST", `${POLICIES}/${plural}`, object);
    else await hub.request("DELETE", `${POLICIES}/${plural}/${metadata.name}`);
  }
}

describe("an export", () => {
  it("whose ports differ from those exported before is in conflict from the start", async () => {
    await deployTo("member-1");
    await exportBy("fleet", fleet.client("member-1"), { namespace: scene.namespace, name: "app" });
    await scene.untilExport("member-1", ACCEPTED);
    await deployTo("member-2", [{ port: 8081, targetPort: 8080 }]);
    await exportBy("fleet", fleet.client("member-2"), { namespace: scene.namespace, name: "app" });
    await scene.untilExport("member-2", REFUSED);
    await scene.untilExport("member-1", ACCEPTED);
  });

  it.each([
    ["headless", { clusterIP: "None", type: "ClusterIP" as const }],
    ["of type ExternalName", { type: "ExternalName" as const, externalName: "example.com" }],
  ])("C2: of a Service that is %s is ineligible, and has no Conflict condition", async (_, service) => {
    await deployTo("member-1", PORTS, { service });
    await exportBy("fleet", fleet.client("member-1"), { namespace: scene.namespace, name: "app" });
    await scene.untilExport("member-1", ["Valid=False:ServiceIneligible"]);
  });

  it("A3: of weight 0 withdraws its endpoints before the service, and has no Conflict condition", async () => {
    const addresses = await exportFromBoth();
    await scene.importBy("member-1");
    const derived = scene.derivedName(await scene.untilServed("member-1"));
    await scene.untilBehind("member-1", derived, addresses);
    const hub = fleet.client("hub");
    await holdEndpoints(true);
    await fleet.client("member-2").mergePatch(FLEET_SERVICE_EXPORTS, scene.key("app"), {
      metadata: { annotations: { "networking.fleet.azure.com/weight": "0" } },
    });
    const drained = await scene.untilExport("member-2", ["Valid=True:ServiceIsValid"]);
    expect(drained.status?.conditions?.[0]?.message).toBe(
      `exported service ${scene.namespace}/app with 0 weight`,
    );
    const isExported = async (): Promise<boolean> => {
      const { items } = await hub.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-member-2" });
      return items.some((it) => it.spec?.serviceReference.namespace === scene.namespace);
    };
    // The service stays while its endpoints cannot go.
    const exports = fleet.running.get("member-2")?.controllers.find((it) => it.name === "serviceexport");
    await exports?.idle(AbortSignal.timeout(PATIENCE_MS));
    expect(exports).toBeDefined();
    expect(await isExported()).toBe(true);
    await holdEndpoints(false);
    await scene.untilBehind("member-1", derived, addresses.slice(0, 2));
    await scene.untilImport((it) => it?.clusters?.length === 1);
    await eventually(
      hub,
      INTERNAL_SERVICE_EXPORTS,
      (all) =>
        !all.some(
          (it) =>
            it.metadata.namespace === "fleet-member-member-2" &&
            it.spec?.serviceReference.namespace === scene.namespace,
        ),
    );
  });

  it("A4: with an invalid weight keeps the last one and its endpoints; a new one reports it and is not exported", async () => {
    const [address = ""] = await deployTo("member-1");
    const { namespace } = scene;
    const annotations = { "networking.fleet.azure.com/weight": "7" };
    await exportBy("fleet", fleet.client("member-1"), { namespace, name: "app", annotations });
    const weigh = (weight: string) =>
      fleet.client("member-1").mergePatch(FLEET_SERVICE_EXPORTS, scene.key("app"), {
        metadata: { annotations: { "networking.fleet.azure.com/weight": weight } },
      });
    const isExported = (weight: number) =>
      eventually(fleet.client("hub"), INTERNAL_SERVICE_EXPORTS, (all) =>
        all.some((it) => it.spec?.serviceReference.namespace === namespace && it.spec.weight === weight),
      );
    await isExported(7);
    await weigh("heavy");
    const reported = await eventually(fleet.client("member-1"), FLEET_SERVICE_EXPORTS, (all) =>
      all.some(
        (it) =>
          it.metadata.namespace === namespace &&
          it.status?.conditions?.some((one) => one.reason === "ServiceExportInvalidWeightAnnotation"),
      ),
    );
    const valid = reported
      .find((it) => it.metadata.namespace === namespace)
      ?.status?.conditions?.find((it) => it.type === "Valid");
    expect(valid?.message).toBe(
      'the weight must be a whole number from 0 to 1000, got "heavy"; the last valid one, 7, stays',
    );
    await isExported(7);
    const slices = await eventually(fleet.client("hub"), ENDPOINT_SLICE_EXPORTS, (all) =>
      all.some((it) => it.spec.ownerServiceReference.namespace === namespace),
    );
    expect(JSON.stringify(slices)).toContain(address);
    await fleet.client("member-1").delete(FLEET_SERVICE_EXPORTS, scene.key("app"));
    await eventually(
      fleet.client("hub"),
      INTERNAL_SERVICE_EXPORTS,
      (all) => !all.some((it) => it.spec?.serviceReference.namespace === namespace),
    );
    const bad = { "networking.fleet.azure.com/weight": "heavy" };
    await exportBy("fleet", fleet.client("member-1"), { namespace, name: "app", annotations: bad });
    const fresh = await eventually(fleet.client("member-1"), FLEET_SERVICE_EXPORTS, (all) =>
      all.some((it) => it.metadata.namespace === namespace && it.status?.conditions !== undefined),
    );
    expect(
      fresh
        .find((it) => it.metadata.namespace === namespace)
        ?.status?.conditions?.find((it) => it.type === "Valid")?.message,
    ).toContain("nothing is exported until it is");
  });

  it("C9: has events with the original names, one for each change", async () => {
    await deployTo("member-1");
    const { namespace } = scene;
    await exportBy("fleet", fleet.client("member-1"), { namespace, name: "app" });
    await scene.untilExport("member-1", ACCEPTED);
    const client = fleet.client("member-1");
    for (const value of ["1", "2", "3"])
      await client.mergePatch(FLEET_SERVICE_EXPORTS, scene.key("app"), {
        metadata: { labels: { pass: value } },
      });
    await fleet.client("member-1").delete(SERVICES, scene.key("app"));
    await scene.untilExport("member-1", ["Valid=False:ServiceNotFound"]);
    const events = await eventually(
      client,
      EVENTS,
      (all) => all.some((it) => it.reason === "ServiceNotFound"),
      { namespace },
    );
    const about = events.filter((it) => it.involvedObject.kind === "ServiceExport");
    expect(about.map((it) => `${it.type} ${it.reason} ${it.count}`).toSorted()).toEqual([
      "Normal NoServiceExportConflictFound 1",
      "Normal PendingExportConflictResolution 1",
      "Normal ValidServiceExport 1",
      "Warning ServiceNotFound 1",
    ]);
  });
});
