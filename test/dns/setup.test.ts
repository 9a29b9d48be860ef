import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import {
  CONFIG_MAPS,
  NAMESPACES,
  PODS,
  SERVICE_ACCOUNTS,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { AKS, EKS, K3S, KUBEADM, NODE_LOCAL } from "@fairlead/fleet/cli/dns-setup/corefiles.fake.ts";
import { type DnsSetupOptions, previewDns, setUpDns, undoDns } from "@fairlead/fleet/cli/dns-setup/setup.ts";
import { MESH_CRDS } from "@fairlead/fleet/api/fairlead.dev/mesh-crds.ts";
import { MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { startTestServer, type TestServer } from "../../packages/apiserver/test/support.ts";

/** `fairlead dns setup` on an API server. The test supplies what its pod would find out. */

const LABELS = { "app.kubernetes.io/part-of": "fairlead", "app.kubernetes.io/component": "dns" };
const OPTIONS: DnsSetupOptions = {
  zones: ["clusterset.local", "fleetboard.local"],
  verify: true,
  seconds: 30,
};

let server: TestServer;
let client: KubeClient;
let stop: AbortController;
let said: string[];
/** What the pod of a Job finds: whether names resolve. */
let resolves: () => boolean;
let jobs: Job[];
/** Pods that have to be there before their Job fails. */
let pods: Promise<unknown>[];
let watching: AsyncDisposable;

beforeEach(async () => {
  server = await startTestServer();
  client = connect(await loadKubeconfig(server.server.kubeconfig), systemDeps(silentLogger));
  stop = new AbortController();
  said = [];
  jobs = [];
  pods = [];
  resolves = () => true;
  await client.create(NAMESPACES, { metadata: { name: "fleet-system" } });
  const metadata = { namespace: "fleet-system", name: "fairlead-member-dns", labels: LABELS };
  await client.create(SERVICES, {
    metadata,
    spec: { clusterIP: "10.96.1.2", ports: [{ port: 53, protocol: "UDP" }] },
  });
  const containers = [{ name: "dns", image: "example.org/fairlead:v9" }];
  await client.create(DEPLOYMENTS, {
    metadata,
    spec: {
      selector: { matchLabels: LABELS },
      template: { metadata: { labels: LABELS }, spec: { containers } },
    },
  });
  watching = await finishJobs();
});
afterEach(async () => {
  stop.abort();
  await watching[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function finishJobs(): Promise<AsyncDisposable> {
  const informer = createInformer(client, JOBS, {}, systemDeps(silentLogger));
  const running: Promise<unknown>[] = [];
  informer.subscribe(({ before, after }) => {
    if (before !== undefined || after === undefined) return;
    jobs.push(after);
    const time = "2026-01-01T00:00:00Z";
    const isFound = resolves();
    const ended = Promise.all(pods);
    const [first, type] = isFound ? ["SuccessCriteriaMet", "Complete"] : ["FailureTarget", "Failed"];
    const conditions = [first, type].map((it) => ({
      type: it,
      status: "True",
      reason: "Test",
      lastTransitionTime: time,
      lastProbeTime: time,
    }));
    const counts = type === "Complete" ? { succeeded: 1, completionTime: time } : { failed: 1 };
    const status = {
      startTime: time,
      conditions,
      ...counts,
      uncountedTerminatedPods: {},
      ready: 0,
      terminating: 0,
    };
    running.push(
      ended
        .then(() => client.mergePatch(JOBS, keyOf(after), { status }, { subresource: "status" }))
        .catch(() => {}),
    );
  });
  informer.start(stop.signal);
  await informer.synced(stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(running);
      await informer[Symbol.asyncDispose]();
    },
  };
}

/** A pod of a Job that has ended, as a kubelet reports it. */
async function endPod(job: string, message: string): Promise<void> {
  const name = `${job}-x`;
  await client.create(SERVICE_ACCOUNTS, { metadata: { namespace: "fleet-system", name: "default" } });
  await client.create(PODS, {
    metadata: { namespace: "fleet-system", name, labels: { "job-name": job } },
    spec: { containers: [{ name: "check", image: "example.org/fairlead:v9" }] },
  });
  const terminated = { exitCode: 1, message };
  const check = {
    name: "check",
    image: "",
    imageID: "",
    ready: false,
    restartCount: 0,
    state: { terminated },
  };
  const status = { phase: "Failed", containerStatuses: [check] };
  await client.mergePatch(PODS, objectKey("fleet-system", name), { status }, { subresource: "status" });
}

const deps = () => ({ ...systemDeps(silentLogger), progress: (step: string) => void said.push(step) });
const put = async (name: string, data: Record<string, string>) =>
  client.create(CONFIG_MAPS, { metadata: { namespace: "kube-system", name }, data });
const find = async (name: string) => client.find(CONFIG_MAPS, objectKey("kube-system", name));
const setUp = async (options = {}) => setUpDns(client, { ...OPTIONS, ...options }, deps(), stop.signal);
const undo = async () => undoDns(client, OPTIONS, deps(), stop.signal);

describe("the setup of a cluster's DNS", () => {
  it.each([
    ["kubeadm", KUBEADM],
    ["EKS", EKS],
  ])("adds the block to the Corefile of %s, keeps the rest, and removes it with undo", async (_, text) => {
    await put("coredns", { Corefile: text });
    await setUp();
    const after = await find("coredns");
    expect(after?.data?.["Corefile"]).toContain("clusterset.local:53 fleetboard.local:53 {");
    expect(after?.data?.["Corefile"]).toContain("forward . 10.96.1.2");
    expect(after?.metadata.annotations?.["fairlead.dev/dns-backup"]).toBe(text);
    expect(said).toContain("pods resolve names of clusterset.local");

    await setUp();
    expect((await find("coredns"))?.metadata.resourceVersion).toBe(after?.metadata.resourceVersion);
    expect(said).toContain("the cluster's DNS is already configured");

    await undo();
    expect((await find("coredns"))?.data).toEqual({ Corefile: text });
    expect((await find("coredns"))?.metadata.annotations ?? {}).toEqual({});
  });

  it.each([
    ["k3s", K3S],
    ["AKS", AKS],
  ])("adds a custom file next to the Corefile of %s, and removes it with its ConfigMap", async (_, text) => {
    await put("coredns", { Corefile: text });
    await setUp();
    expect((await find("coredns"))?.data).toEqual({ Corefile: text });
    expect((await find("coredns-custom"))?.data?.["fairlead.server"]).toContain("forward . 10.96.1.2");
    await undo();
    expect(await find("coredns-custom")).toBeUndefined();
  });

  it("leaves the files of others next to it", async () => {
    await put("coredns", { Corefile: AKS });
    await put("coredns-custom", { "test.override": "log" });
    await setUp();
    await undo();
    expect((await find("coredns-custom"))?.data).toEqual({ "test.override": "log" });
  });

  it("gives the zone to caches on nodes, and to kube-dns", async () => {
    await put("kube-dns", { stubDomains: '{"example.org":["10.0.0.1"]}' });
    await setUp();
    expect((await find("kube-dns"))?.data?.["stubDomains"]).toBe(
      '{"example.org":["10.0.0.1"],"clusterset.local":["10.96.1.2"],"fleetboard.local":["10.96.1.2"]}',
    );
    await undo();
    expect((await find("kube-dns"))?.data?.["stubDomains"]).toBe('{"example.org":["10.0.0.1"]}');
    await put("coredns", { Corefile: KUBEADM });
    await put("node-local-dns", { Corefile: NODE_LOCAL });
    await setUp();
    expect((await find("node-local-dns"))?.data?.["Corefile"]).toContain(
      "bind 169.254.20.10 10.96.0.10\n    forward . 10.96.1.2",
    );
    await undo();
    expect((await find("node-local-dns"))?.data?.["Corefile"]).toBe(NODE_LOCAL);
  });

  it("has a pod of the same image query the zone and the cluster's own names, and removes the pod", async () => {
    await put("coredns", { Corefile: KUBEADM });
    await setUp();
    expect(jobs).toHaveLength(1);
    expect(jobs[0]?.spec?.template.spec?.containers[0]).toMatchObject({
      image: "example.org/fairlead:v9",
      args: [
        "dns",
        "check",
        "--zone",
        "clusterset.local",
        "--name",
        "kubernetes.default.svc",
        "--timeout",
        "30",
      ],
    });
    expect(
      (await client.list(JOBS)).items.filter((it) => it.metadata.deletionTimestamp === undefined),
    ).toEqual([]);
  });

  it("has the pod ask every replica of the cluster's DNS, until all have the zone or, after its removal, none", async () => {
    await put("coredns", { Corefile: KUBEADM });
    const metadata = { namespace: "kube-system", name: "kube-dns" };
    const ports = [{ name: "dns", port: 53, protocol: "UDP" as const }];
    await client.create(SERVICES, {
      metadata: { ...metadata, labels: { "k8s-app": "kube-dns" } },
      spec: { clusterIP: "10.96.0.10", ports },
    });
    for (const [name, addressType, addresses] of [
      ["kube-dns-a", "IPv4", ["10.1.0.5", "10.1.1.5"]],
      ["kube-dns-b", "IPv6", ["fd00::5"]],
    ] as const)
      await client.create(ENDPOINT_SLICES, {
        metadata: { ...metadata, name, labels: { [SERVICE_NAME_LABEL]: "kube-dns" } },
        addressType,
        endpoints: addresses.map((it) => ({ addresses: [it] })),
        ports,
      });
    await setUp();
    await undo();
    const [set, gone] = jobs.map((it) => it.spec?.template.spec?.containers[0]?.args ?? []);
    const replicas = ["10.1.0.5:53", "10.1.1.5:53", "[fd00::5]:53"].flatMap((it) => ["--also", it]);
    expect(set?.slice(4, 10)).toEqual(replicas);
    expect(gone?.slice(4, 11)).toEqual([...replicas, "--gone"]);
    expect(said.at(-1)).toBe("the cluster's DNS no longer answers for clusterset.local");
  });

  it("fails if a replica still serves the removed zone", async () => {
    await put("coredns", { Corefile: KUBEADM });
    await setUp();
    resolves = () => false;
    await expect(undo()).rejects.toThrow(/replicas of the cluster's DNS still answer for clusterset.local/);
    expect((await find("coredns"))?.data).toEqual({ Corefile: KUBEADM });
  });

  it.each([
    ["the Corefile", KUBEADM, "coredns", { Corefile: KUBEADM }],
    ["a custom file", K3S, "coredns-custom", undefined],
  ])("restores %s if names do not resolve", async (_, text, name, before) => {
    await put("coredns", { Corefile: text });
    resolves = () => false;
    await expect(setUp()).rejects.toThrow(/cannot resolve.*configuration of the cluster's DNS was restored/s);
    expect((await find(name))?.data).toEqual(before);
  });

  it("reports a failure once, with the last log line of the pod, which the termination message keeps", async () => {
    await put("coredns", { Corefile: KUBEADM });
    resolves = () => {
      pods.push(endPod(jobs.at(-1)?.metadata.name ?? "", "starting\nerror: unknown option '--gone'\n"));
      return false;
    };
    await expect(setUp()).rejects.toThrow(
      /^a pod of Job \S+ cannot resolve [^;]* within 30 s; it said: error: unknown option '--gone'; the previous configuration of the cluster's DNS was restored$/,
    );
    expect(jobs[0]?.spec?.template.spec?.containers[0]?.terminationMessagePolicy).toBe(
      "FallbackToLogsOnError",
    );
  });

  it("does not revert a concurrent change, and reports it", async () => {
    await put("coredns", { Corefile: KUBEADM });
    const theirs = KUBEADM.replace("cache 30", "cache 60");
    const touched: Promise<unknown>[] = [];
    resolves = () => {
      touched.push(
        client.mergePatch(CONFIG_MAPS, objectKey("kube-system", "coredns"), { data: { Corefile: theirs } }),
      );
      return false;
    };
    await expect(setUp()).rejects.toThrow(/cannot be restored.*--undo/s);
    await Promise.all(touched);
    expect((await find("coredns"))?.data?.["Corefile"]).toBe(theirs);
  });

  it("restarts servers that do not reload", async () => {
    await put("coredns", { Corefile: KUBEADM.replace("    reload\n", "") });
    const labels = { "k8s-app": "kube-dns" };
    const spec = { containers: [{ name: "coredns", image: "coredns" }] };
    await client.create(DEPLOYMENTS, {
      metadata: { namespace: "kube-system", name: "coredns" },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    });
    await setUp();
    const deployment = await client.get(DEPLOYMENTS, objectKey("kube-system", "coredns"));
    expect(deployment.spec?.template.metadata?.annotations).toHaveProperty(
      "kubectl.kubernetes.io/restartedAt",
    );
  });

  it("changes nothing where it only shows what it would do, and where the Corefile is not understood", async () => {
    const map = await put("coredns", { Corefile: KUBEADM });
    expect((await previewDns(client, OPTIONS, stop.signal)).edits).toHaveLength(1);
    expect((await find("coredns"))?.metadata.resourceVersion).toBe(map.metadata.resourceVersion);
    const bare = { data: { Corefile: ".:53\nerrors\n" } };
    const broken = await client.mergePatch(CONFIG_MAPS, objectKey("kube-system", "coredns"), bare);
    await expect(setUp()).rejects.toThrow(/^line 1 of the Corefile/);
    expect((await find("coredns"))?.metadata.resourceVersion).toBe(broken.metadata.resourceVersion);
  });

  it("forwards the reverse names of fleet addresses in a cluster that is in a parallel network", async () => {
    await put("coredns", { Corefile: KUBEADM });
    const prefixes = { ipv4: "10.112.0.0/14", ipv6: "fd00:1:2::/48" };
    await installCrds(client, { crds: MESH_CRDS, fieldManager: "test" }, deps(), stop.signal);
    await client.create(MESH_NETWORKS, {
      metadata: { namespace: "fleet-system", name: "site" },
      spec: {
        mode: "parallel",
        ...prefixes,
        vipIPv4: "10.115.0.0/16",
        vipIPv6: "fd00:1:2:ff00::/56",
        keyEpoch: 1,
      },
    });
    await setUp();
    const domains = ["112", "113", "114", "115"].map((it) => `${it}.10.in-addr.arpa:53`);
    expect((await find("coredns"))?.data?.["Corefile"]).toContain(
      `\nclusterset.local:53 fleetboard.local:53 ${domains.join(" ")} 2.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa:53 {\n`,
    );
    await undo();
    expect((await find("coredns"))?.data).toEqual({ Corefile: KUBEADM });
  });

  it("reports what is missing: a DNS server to forward to, an image to verify with", async () => {
    await put("coredns", { Corefile: KUBEADM });
    await client.delete(DEPLOYMENTS, objectKey("fleet-system", "fairlead-member-dns"));
    await expect(setUp()).rejects.toThrow(/--image or --no-verify/);
    await client.delete(SERVICES, objectKey("fleet-system", "fairlead-member-dns"));
    await expect(setUp()).rejects.toThrow(/install the chart fairlead-member.*--dns-address/);
    await setUp({ addresses: ["10.9.9.9"], verify: false });
    expect((await find("coredns"))?.data?.["Corefile"]).toContain("forward . 10.9.9.9");
  });
});
