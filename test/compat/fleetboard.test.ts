import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { exchange } from "@fairlead/dns/exchange.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { TYPE } from "@fairlead/dns/wire/types.ts";
import { derivedServiceName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { createClusterSetSync } from "@fairlead/fleet/dns/sync.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { KUBECTL, NO_KUBECTL } from "../../packages/apiserver/test/support.ts";
import { said, serve } from "../support/dns-harness.ts";
import {
  addressesOf,
  exportBy,
  PATIENCE_MS,
  sliceOf,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** Manifests of Fleetboard's example and their names, where users create the ServiceImports (docs/reference/fleetboard.md). */

const FOLDER = fileURLToPath(new URL("fleetboard/", import.meta.url));
const KEY = objectKey("default", "nginx-svc");
const NAME = "nginx-svc.default.svc.fleetboard.local.";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["server", "client"], manualImports: ["client"], leaseSeconds: 60 });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

async function kubectl(cluster: string, ...args: readonly string[]): Promise<string> {
  const { server } = cluster === "hub" ? fleet.hub : (fleet.members.get(cluster) ?? fleet.hub);
  const { stdout } = await exec(KUBECTL ?? "", ["--kubeconfig", server.kubeconfig, ...args]);
  return stdout;
}

const imported = (until: (it: ServiceImport) => boolean): Promise<ServiceImport> =>
  eventuallyOne(fleet.client("client"), MCS_SERVICE_IMPORTS, KEY, until);
const readyOf = ({ status }: ServiceImport): string => {
  const ready = status?.conditions?.find((it) => it.type === "Ready");
  return `${ready?.status} ${ready?.reason}: ${ready?.message}`;
};

describe.skipIf(KUBECTL === undefined)(
  KUBECTL === undefined ? `manifests of Fleetboard (skipped: ${NO_KUBECTL})` : "manifests of Fleetboard",
  () => {
    it("export a service, which no agent imports on its own", async () => {
      await kubectl("server", "create", "-f", `${FOLDER}server.yaml`);
      const ports = [{ protocol: "TCP" as const, port: 80, targetPort: 80 }];
      const addresses = ["10.1.0.1", "10.1.0.2"];
      await fleet
        .client("server")
        .create(ENDPOINT_SLICES, sliceOf({ namespace: "default", name: "nginx-svc", addresses, ports }));
      // The server's own member has automatic imports: once it is there, the hub has told everybody.
      await eventuallyOne(
        fleet.client("server"),
        MCS_SERVICE_IMPORTS,
        KEY,
        (it) => it.spec?.ips !== undefined,
      );
      expect(await fleet.client("client").find(MCS_SERVICE_IMPORTS, KEY)).toBeUndefined();
    });

    it("create the import with kubectl, which gets an address, endpoints and a status, and stays the user's", async () => {
      await kubectl("client", "create", "-f", `${FOLDER}client.yaml`);
      const object = await imported((it) => it.spec?.ips !== undefined && it.status?.clusters !== undefined);
      expect(object.spec?.ports).toEqual([{ name: "http", protocol: "TCP", port: 80 }]);
      expect(object.metadata.labels ?? {}).toEqual({});
      expect(object.status?.clusters).toEqual([{ cluster: "server" }]);
      expect(readyOf(object)).toMatch(/^True Ready/);
      const derived = await fleet
        .client("client")
        .get(SERVICES, objectKey("default", derivedServiceName("default", "nginx-svc")));
      expect(object.spec?.ips).toEqual(derived.spec?.clusterIPs);
      const slices = await eventually(
        fleet.client("client"),
        ENDPOINT_SLICES,
        (all) =>
          all.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "nginx-svc").length === 1,
      );
      const own = slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "nginx-svc");
      expect(addressesOf(own)).toEqual(["10.1.0.1", "10.1.0.2"]);
    });

    it("resolve by the name of the example, also with the cluster's name before it", async () => {
      const client = fleet.client("client");
      const tree = new RecordTree();
      const zone = { origin: "clusterset.local.", ttl: 5 };
      const fleetboard = { origin: "fleetboard.local.", ttl: 5 };
      await using sync = createClusterSetSync({ client, tree, zone, fleetboard }, testDeps("dns"));
      const stop = new AbortController();
      await sync.start(stop.signal);
      await using server = await serve(tree);
      const { spec } = await client.get(MCS_SERVICE_IMPORTS, KEY);
      for (const name of [NAME, `server.${NAME}`]) {
        const question = { name, type: TYPE.A, class: 1 };
        const answer = await exchange(question, {
          server: server.addresses[0]!,
          timeoutMs: 5000,
          clock: systemClock,
        });
        expect(said(answer).answer).toEqual([`${name} 5 IN A ${spec?.ips?.[0]}`]);
      }
      stop.abort();
    });

    it("report why an import cannot be served, and serve it again once it fits", async () => {
      const patch = (port: number): Promise<unknown> =>
        fleet
          .client("client")
          .mergePatch(MCS_SERVICE_IMPORTS, KEY, { spec: { ports: [{ protocol: "TCP", port }] } });
      await patch(81);
      const unmet = await imported((it) => it.spec?.ips === undefined && readyOf(it).startsWith("False"));
      expect(readyOf(unmet)).toBe("False Pending: spec.ports has TCP port 81, which no cluster exports");
      await eventually(
        fleet.client("client"),
        ENDPOINT_SLICES,
        (all) => !all.some((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "nginx-svc"),
      );
      await patch(80);
      await imported((it) => it.spec?.ips !== undefined && readyOf(it).startsWith("True"));
    });

    it("leave the import to the user when the last export goes, without an address", async () => {
      await kubectl("server", "delete", "serviceexports.multicluster.x-k8s.io", "nginx-svc");
      const object = await imported((it) => it.spec?.ips === undefined);
      expect(object.metadata.annotations ?? {}).toEqual({});
      await imported((it) => readyOf(it) === "False Pending: no cluster exports the service");
      await eventually(
        fleet.client("client"),
        SERVICES,
        (all) => !all.some((it) => it.metadata.name === derivedServiceName("default", "nginx-svc")),
      );
      await exportBy("mcs", fleet.client("server"), { namespace: "default", name: "nginx-svc" });
      await imported((it) => it.spec?.ips !== undefined);
    });

    it("have Peers, which the hub serves by Fleetboard's name", async () => {
      const hub = fleet.client("hub");
      await hub.create(NAMESPACES, { metadata: { name: "syncer-operator" } });
      await kubectl("hub", "create", "-f", `${FOLDER}peers.yaml`);
      const text = await kubectl("hub", "-n", "syncer-operator", "get", "peer", "--no-headers");
      expect(
        text
          .trim()
          .split("\n")
          .map((it) => it.split(/ +/).slice(0, 2)),
      ).toEqual([
        ["east", "east"],
        ["hub", "hub"],
      ]);
    });

    it("stay with the user when the cluster leaves the fleet, which they do not hold up", async () => {
      await leaveFleet(
        {
          name: "client",
          hub: fleet.hub.config,
          member: fleet.members.get("client")!.config,
          timeoutMs: PATIENCE_MS,
        },
        testDeps("leave"),
        AbortSignal.timeout(PATIENCE_MS),
      );
      const object = await fleet.client("client").get(MCS_SERVICE_IMPORTS, KEY);
      expect(object.spec?.ips).toBeUndefined();
      expect(object.metadata.annotations ?? {}).toEqual({});
    });
  },
);
