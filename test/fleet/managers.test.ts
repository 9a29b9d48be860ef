import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MULTI_CLUSTER_SERVICES } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { start } from "@fairlead/base/exec.ts";
import { requestToken } from "@fairlead/kube/client/token-request.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { CLUSTER_CRDS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/crds.ts";
import { KubeFleet } from "../support/kubefleet.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { addressesOf, deploy, exportBy, Restartable, testDeps } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** The managers under the names, flags and variables that fleet-networking's charts call them by, as processes. */

const MAIN = fileURLToPath(new URL("../../packages/fairlead/src/main.ts", import.meta.url));
const SECRET_HEADER = "very-secret-header";

interface Cluster {
  readonly server: ApiServer;
  readonly config: ClusterConfig;
  readonly client: KubeClient;
}
interface Program {
  readonly child: ChildProcess;
  readonly log: string[];
  readonly ended: Promise<number | null>;
}

const stack = new AsyncDisposableStack();
let dir: string;
let tokenFile: string;
let token: string;
let hub: Cluster;
let member: Cluster;
let hubNet: Program;
let memberNet: Program;
let mcs: Program;
let hubPort: number;
let memberPort: number;
let metricsPort: number;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "fairlead-managers-"));
  stack.defer(() => rm(dir, { recursive: true, force: true }));
  tokenFile = join(dir, "token");
  [hub, member] = [await startCluster("hub"), await startCluster("member")];
  [hubPort, memberPort, metricsPort] = [await freePort(), await freePort(), await freePort()];
  for (const [mode, { server }] of [
    ["hub", hub],
    ["member", member],
  ] as const) {
    const installer = launch("net-crd-installer", server, [`--mode=${mode}`, "--v=2", "--e2e-test=false"]);
    expect(await installer.ended).toBe(0);
  }
  // The arguments of the published charts; addresses that several programs of one machine can have.
  hubNet = launch("hub-net-controller-manager", hub.server, [
    "--leader-election-namespace=fleet-system",
    "--v=2",
    "--add_dir_header",
    "--force-delete-wait-time=2m0s",
    "--enable-traffic-manager-feature=true",
    "--cloud-config=/etc/kubernetes/provider/azure.json",
    `-metrics-bind-address=127.0.0.1:${metricsPort}`,
    "--health-probe-bind-address=127.0.0.1:0",
  ]);
  memberNet = launch("member-net-controller-manager", member.server, [
    "--leader-election-namespace=fleet-system",
    "--clock-offset=-86400",
    "--tls-insecure=false",
    "-v",
    "10",
    "--add_dir_header",
    "--hub-metrics-bind-address=0",
    "--member-metrics-bind-address=0",
    `--hub-health-probe-bind-address=127.0.0.1:${hubPort}`,
    `--member-health-probe-bind-address=127.0.0.1:${memberPort}`,
    "--enable-traffic-manager-feature=false",
  ]);
  mcs = launch("mcs-controller-manager", member.server, [
    "--leader-election-namespace=fleet-system",
    "--clock-offset=86400",
    "--tls-insecure=false",
    "--v=2",
    "--hub-metrics-bind-address=0",
    "--metrics-bind-address=0",
    "--hub-health-probe-bind-address=0",
    "--health-probe-bind-address=0",
  ]);
  const installing = AbortSignal.timeout(20_000);
  await installCrds(hub.client, { crds: CLUSTER_CRDS, fieldManager: "test" }, testDeps("test"), installing);
  stack.use(new Restartable((stopping) => new KubeFleet(hub.client).run(stopping))).start();
  await hub.client.create(MEMBER_CLUSTERS, {
    metadata: { name: "east" },
    spec: {
      identity: { kind: "ServiceAccount", name: "agent", namespace: "fleet-member-east" },
      heartbeatPeriodSeconds: 1,
    },
  });
  await eventuallyOne(hub.client, NAMESPACES, objectKey(undefined, "fleet-member-east"));
  await hub.client.create(SERVICE_ACCOUNTS, { metadata: { namespace: "fleet-member-east", name: "agent" } });
  const account = { namespace: "fleet-member-east", name: "agent", seconds: 3600 };
  token = await requestToken(hub.client, account, AbortSignal.timeout(10_000));
  // The programs run already: a sidecar may start later.
  await writeFile(tokenFile, token);
  await chmod(tokenFile, 0o600);
});

afterAll(() => stack.disposeAsync());

async function startCluster(name: string): Promise<Cluster> {
  const server = await startApiServer({ dataDir: join(dir, name), journal: "none" });
  stack.defer(() => server.close());
  const config = await loadKubeconfig(server.kubeconfig);
  return { server, config, client: stack.use(connect(config)) };
}

/** Starts a program under its name: through a link to the executable. */
function launch(name: string, server: ApiServer, flags: readonly string[]): Program {
  const env = {
    ...process.env,
    KUBECONFIG: server.kubeconfig,
    HUB_SERVER_URL: hub.config.server,
    CONFIG_PATH: tokenFile,
    HUB_CERTIFICATE_AUTHORITY: Buffer.from(hub.config.ca ?? "").toString("base64"),
    MEMBER_CLUSTER_NAME: "east",
    HUB_KUBE_HEADER: `X-Gateway-Key: ${SECRET_HEADER}\r\n`,
  };
  const child = start(process.execPath, [MAIN, name, ...flags], {
    stdio: ["ignore", "inherit", "pipe"],
    env,
  });
  const log: string[] = [];
  let rest = "";
  (child.stderr as Readable).on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split("\n");
    rest = lines.pop() ?? "";
    log.push(...lines);
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once("exit", (code) => resolve(code));
  });
  stack.defer(async () => {
    if (child.exitCode === null) child.kill("SIGKILL");
    await ended;
  });
  return { child, log, ended };
}

async function ask(port: number, path: string): Promise<{ readonly code: number; readonly text: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { code: response.status, text: await response.text() };
}

async function agents(): Promise<string[]> {
  const internalMember = await eventuallyOne(
    hub.client,
    INTERNAL_MEMBER_CLUSTERS,
    objectKey("fleet-member-east", "east"),
    (it) =>
      (it.status?.agentStatus ?? []).filter((agent) => isConditionTrue(agent.conditions, "Joined")).length >=
      2,
  );
  return (internalMember.status?.agentStatus ?? []).map((it) => it.type).toSorted();
}

const readHeartbeats = async (isNew: (type: string, atMs: number) => boolean) => {
  const { status } = await eventuallyOne(
    hub.client,
    INTERNAL_MEMBER_CLUSTERS,
    objectKey("fleet-member-east", "east"),
    (it) =>
      (it.status?.agentStatus ?? []).every((agent) =>
        isNew(agent.type, Date.parse(agent.lastReceivedHeartbeat ?? "")),
      ),
  );
  return ["MultiClusterServiceAgent", "ServiceExportImportAgent"].map((type) =>
    Date.parse(status?.agentStatus?.find((it) => it.type === type)?.lastReceivedHeartbeat ?? ""),
  );
};

const leasesOf = async (cluster: Cluster) =>
  new Map(
    (await cluster.client.list(LEASES, { namespace: "fleet-system" })).items.map(
      (it) => [it.metadata.name, it.spec?.holderIdentity ?? ""] as const,
    ),
  );

describe("the three managers under their original names", () => {
  it("report the status of the two agents that the hub waits for, one each", async () => {
    expect(await agents()).toEqual(["MultiClusterServiceAgent", "ServiceExportImportAgent"]);
  });

  it("hold leases with the original names, each in its own cluster", async () => {
    const prefix = "2bf2b407";
    const domain = "networking.fleet.azure.com";
    expect([...(await leasesOf(member)).keys()].toSorted()).toEqual([
      `${prefix}.hub.${domain}`,
      `${prefix}.mcs.hub.${domain}`,
      `${prefix}.mcs.member.${domain}`,
      `${prefix}.member.${domain}`,
    ]);
    expect([...(await leasesOf(hub)).keys()]).toContain(`${prefix}.hub.${domain}`);
  });

  it("install the kinds with the labels of the original installer, three in a member", async () => {
    const { items } = await member.client.list(CUSTOM_RESOURCE_DEFINITIONS, {
      labelSelector:
        "crd-installer.networking.azure.fleet.com/managed=true,kubernetes.azure.com/managedby=fleet",
    });
    expect(items.map((it) => it.spec.names.kind).toSorted()).toEqual([
      "MultiClusterService",
      "ServiceExport",
      "ServiceImport",
    ]);
  });

  it("carry a service from its export to the load balancer of a MultiClusterService", async () => {
    await deploy(member.client, { addresses: ["10.1.0.1", "10.1.0.2"] });
    await exportBy("fleet", member.client);
    await member.client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "hello" },
      spec: { serviceImport: { name: "hello" } },
    });
    const isHere = (addresses: readonly string[]): boolean => addresses.length === 2;
    const slices = await eventually(member.client, ENDPOINT_SLICES, (all) => isHere(addressesOf(all)), {
      namespace: "fleet-system",
    });
    expect(addressesOf(slices)).toEqual(["10.1.0.1", "10.1.0.2"]);
    const [derived] = await eventually(member.client, SERVICES, (all) => all.length === 1, {
      namespace: "fleet-system",
    });
    expect(derived?.spec?.type).toBe("LoadBalancer");
  });

  it("C8: have separate probes at the hub's and the member's side", async () => {
    for (const port of [hubPort, memberPort]) {
      expect(await ask(port, "/healthz")).toMatchObject({ code: 200, text: "ok\n" });
      expect(await ask(port, "/readyz")).toMatchObject({ code: 200, text: "ok\n" });
    }
    const ofHub = (await ask(hubPort, "/readyz?verbose")).text;
    const ofMember = (await ask(memberPort, "/readyz?verbose")).text;
    expect(ofHub).toContain("[+]hub/informer/internalserviceexports.networking.fleet.azure.com ok");
    expect(ofHub).toContain("readyz check passed");
    expect(ofHub).not.toContain("informer/services ok");
    expect(ofMember).toContain("[+]informer/services ok");
    expect(ofMember).toContain("[+]leading ok");
    expect((await ask(memberPort, "/metrics")).text).toContain(
      'leader_election_master_status{name="2bf2b407.member.networking.fleet.azure.com"} 1',
    );
  });

  it("serve the metrics of the reference, all of them and no others", async () => {
    const texts = [await ask(metricsPort, "/metrics"), await ask(memberPort, "/metrics")].map(
      (it) => it.text,
    );
    const served = texts.flatMap((text) => [...text.matchAll(/^# TYPE (\S+)/gm)].map((it) => it[1] ?? ""));
    const page = await readFile(new URL("../../docs/reference/metrics.md", import.meta.url), "utf8");
    const documented = [...page.matchAll(/^\| `([a-z_]+)` \|/gm)]
      .map((it) => it[1] ?? "")
      // Of the programs of a parallel network.
      .filter((it) => !/^fairlead_(?:relay|node|tunnel)_/.test(it))
      // These managers place nothing: hub/placement/metrics.test.ts has those of programs that do.
      .filter((it) => !/^fleet_(?:workload|work|manifest)_|^scheduling_|_result_counter$/.test(it));
    expect([...new Set(served)].toSorted()).toEqual(documented.toSorted());
  });

  it("B4: measure the time from a change to the end of its reconcile, which does not wait for a timer", async () => {
    const { text } = await ask(memberPort, "/metrics");
    for (const controller of ["serviceexport", "endpointslice", "serviceimport", "endpointsliceimport"]) {
      const count = new RegExp(
        `fairlead_hop_duration_seconds_count\\{controller="${controller}"\\} (\\d+)`,
      ).exec(text);
      expect(Number(count?.[1])).toBeGreaterThan(0);
    }
    // No controller here polls.
    expect(text).toContain(
      'controller_runtime_reconcile_total{controller="endpointsliceimport",result="requeue_after"} 0',
    );
    expect(text).toContain(
      'controller_runtime_reconcile_total{controller="serviceimport",result="requeue_after"} 0',
    );
  });

  it("write only lines of JSON, and no token or header of the gateway, at any log level", () => {
    for (const { log } of [hubNet, memberNet, mcs]) {
      expect(log.length).toBeGreaterThan(0);
      for (const line of log)
        expect(Object.keys(JSON.parse(line) as object)).toEqual(
          expect.arrayContaining(["level", "ts", "msg"]),
        );
    }
    const all = [hubNet, memberNet, mcs].flatMap((it) => it.log).join("\n");
    expect(memberNet.log.some((it) => it.includes('"level":"debug"'))).toBe(true);
    expect(all).not.toContain(token);
    expect(all).not.toContain(token.split(".")[2]);
    expect(all).not.toContain(SECRET_HEADER);
  });

  it("depend only on their own clock: one is a day behind, one a day ahead, and both keep reporting", async () => {
    const [ahead = 0, behind = 0] = await readHeartbeats(() => true);
    expect(Math.round((ahead - behind) / 3_600_000)).toBe(48);
    // Each at its own pace.
    await readHeartbeats((type, atMs) => atMs > (type === "MultiClusterServiceAgent" ? ahead : behind));
  });

  it("stop together when another program holds a lease of either manager, and compete for it again", async () => {
    const name = "2bf2b407.hub.networking.fleet.azure.com";
    const key = objectKey("fleet-system", name);
    await member.client.mergePatch(LEASES, key, {
      spec: { holderIdentity: "original", leaseDurationSeconds: 1 },
    });
    // It releases its other lease, because nothing is led any more, and acquires both again.
    const taken = await eventuallyOne(
      member.client,
      LEASES,
      key,
      (it) => it.spec?.holderIdentity?.includes("fairlead-member") === true,
    );
    expect(taken.spec?.leaseTransitions).toBeGreaterThan(0);
    const other = await member.client.get(
      LEASES,
      objectKey("fleet-system", "2bf2b407.member.networking.fleet.azure.com"),
    );
    expect(other.spec?.leaseTransitions).toBeGreaterThan(0);
    expect(memberNet.child.exitCode).toBe(null);
  });

  it("release their leases when they are asked to end", async () => {
    for (const { child } of [memberNet, mcs, hubNet]) child.kill("SIGTERM");
    expect(await Promise.all([memberNet, mcs, hubNet].map((it) => it.ended))).toEqual([0, 0, 0]);
    expect(new Set((await leasesOf(member)).values())).toEqual(new Set([""]));
    expect(new Set((await leasesOf(hub)).values())).toEqual(new Set([""]));
  });
});

describe("a manager", () => {
  it.each([
    ["member-net-controller-manager", "--enable-v1alpha1-apis=true", "these APIs were removed"],
    ["member-net-controller-manager", "--hub-metrics-bind-address=nonsense", "--hub-metrics-bind-address"],
    ["mcs-controller-manager", "--fleet-system-namespace=other", "must be fleet-system"],
    ["hub-net-controller-manager", "--enable-v1beta1-apis=false", "there are no other APIs"],
    ["net-crd-installer", "--mode=all", "--mode must be hub or member"],
  ])("%s with %s says what is wrong, and ends", async (name, flag, message) => {
    const program = launch(name, member.server, [flag]);
    expect(await program.ended).toBe(2);
    expect(program.log.join("\n")).toContain(message);
  });
});
