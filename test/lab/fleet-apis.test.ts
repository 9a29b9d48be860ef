import { readFile } from "node:fs/promises";
/** Services of one cluster used in another, by every way in and out, with real requests. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { exec, type ExecResult, start } from "@fairlead/base/exec.ts";
import { RUN_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { PROBES, type Result, SERVER_PORT } from "@fairlead/fleet/cli/verify/probes.ts";
import type { Summary } from "@fairlead/fleet/cli/verify/report.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { derivedServiceName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  INTERNAL_SERVICE_EXPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";
import { hostilities, schemaOf } from "../support/hostile.ts";
import type { FleetStatus } from "@fairlead/fleet/cli/fleet/status.ts";
import type { Answer } from "../../scripts/demo/requests.ts";
import { checkout, found, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import {
  echoDeployment,
  fleetExport,
  KINDS,
  mcsExport,
  multiClusterService,
  namespace,
  service,
  shellPod,
} from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const EXPORTERS = ["member-1", "member-2"] as const;
const IMPORTER = "member-2";
const URL_BY_NAME = "http://hello.work.svc.clusterset.local/";
let lab: TestLab;

/** Which clusters answered; "none" for requests that failed. */
function clustersIn(answers: readonly (Answer | undefined)[]): readonly string[] {
  return [...new Set(answers.map((it) => it?.cluster ?? "none"))].toSorted();
}

/** Asks until exactly these clusters answer, which takes as long as endpoints take to travel. */
function untilAnswered(from: string, url: string, clusters: readonly string[]) {
  return until(
    `${clusters.join(" and ")} answer ${url} in ${from}`,
    () => lab.ask(from, "work/client", { url, count: 20 }),
    (answers) => clustersIn(answers).join() === clusters.join(),
  );
}

async function fleetStatus(): Promise<FleetStatus> {
  const args = ["status", "--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub", "-o", "json"];
  return JSON.parse((await runFairlead(lab.stateRoot, args)).stdout) as FleetStatus;
}

function verify(...words: readonly string[]): Promise<ExecResult> {
  const args = ["verify", "--kubeconfig", lab.layout.kubeconfig, "--member-contexts", EXPORTERS.join()];
  return runFairlead(lab.stateRoot, [...args, ...words], { allowFailure: true });
}

async function namespacesOfRuns(): Promise<readonly string[]> {
  const clients = await Promise.all(EXPORTERS.map((it) => lab.client(it)));
  const lists = await Promise.all(clients.map((it) => it.list(NAMESPACES, { labelSelector: RUN_LABEL })));
  return lists.flatMap(({ items }) => items.map((it) => it.metadata.name));
}

async function dig(...words: readonly string[]): Promise<readonly string[]> {
  const text = await lab.inPod(IMPORTER, "work/client", `dig +short ${words.join(" ")}`);
  return text.split("\n").filter((it) => it !== "");
}

const reported = (conditions: readonly Condition[] | undefined, type: string): string => {
  const condition = conditions?.find((it) => it.type === type);
  return condition === undefined ? "" : `${condition.status} ${condition.reason}`;
};

async function untilMcs(cluster: string, at: string, type: string, said: string): Promise<void> {
  await eventuallyOne(
    await lab.client(cluster),
    MCS_SERVICE_EXPORTS,
    objectKey(at, "hello"),
    (it) => reported(it.status?.conditions, type) === said,
  );
}

async function untilFleet(cluster: string, at: string, type: string, said: string): Promise<void> {
  await eventuallyOne(
    await lab.client(cluster),
    FLEET_SERVICE_EXPORTS,
    objectKey(at, "hello"),
    (it) => reported(it.status?.conditions, type) === said,
  );
}

async function balancerAddresses(cluster: string, at: string): Promise<readonly string[]> {
  const object = await eventuallyOne(
    await lab.client(cluster),
    MULTI_CLUSTER_SERVICES,
    objectKey(at, "hello"),
    (it) => (it.status?.loadBalancer?.ingress?.length ?? 0) > 0,
  );
  return (object.status?.loadBalancer?.ingress ?? []).flatMap((it) => it.ip ?? []);
}

/** A request from this machine; undefined when it failed. */
async function askFromHere(address: string): Promise<Answer | undefined> {
  const host = address.includes(":") ? `[${address}]` : address;
  try {
    const response = await fetch(`http://${host}/?format=json`, {
      headers: { connection: "close" },
      signal: AbortSignal.timeout(2000),
    });
    return (await response.json()) as Answer;
  } catch {
    return undefined;
  }
}

describeOnKernel("services across the clusters of a lab", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "eapis" });
    for (const cluster of EXPORTERS) {
      await lab.kubectl(cluster, ["apply", "-f", `${checkout}examples/${cluster}.yaml`]);
    }
    // The importer's manifest: here one of the exporters imports too.
    await lab.kubectl(IMPORTER, ["apply", "-f", `${checkout}examples/member-3.yaml`]);
    await lab.apply("member-1", shellPod({ namespace: "work", name: "client" }));
    const ready = ["-n", "work", "wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s"];
    for (const cluster of EXPORTERS) {
      await lab.kubectl(cluster, ["-n", "work", "rollout", "status", "deployment/hello", "--timeout=60s"]);
      await lab.kubectl(cluster, ready);
    }
    await untilAnswered(IMPORTER, URL_BY_NAME, EXPORTERS);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("answers by name from the pods of both exporting clusters, which see the address of the pod that asks", async () => {
    const own = (await lab.inPod(IMPORTER, "work/client", "hostname -I")).trim().split(" ");
    const answers = await lab.ask(IMPORTER, "work/client", { url: URL_BY_NAME, count: 20 });
    expect(clustersIn(answers)).toEqual(EXPORTERS);
    for (const answer of answers) expect(own).toContain(answer?.clientAddress);
  });

  it("has A, AAAA and SRV records for a virtual address", async () => {
    const imported = await (await lab.client(IMPORTER)).get(MCS_SERVICE_IMPORTS, objectKey("work", "hello"));
    const ips = imported.spec?.ips ?? [];
    expect(await dig("hello.work.svc.clusterset.local", "A")).toEqual(ips.filter((it) => it.includes(".")));
    expect(await dig("hello.work.svc.clusterset.local", "AAAA")).toEqual(
      ips.filter((it) => it.includes(":")),
    );
    expect(await dig("_http._tcp.hello.work.svc.clusterset.local", "SRV")).toEqual([
      expect.stringMatching(/^\d+ \d+ 80 hello\.work\.svc\.clusterset\.local\.$/),
    ]);
  });

  it("names every pod of a headless service, and each name leads to that pod", async () => {
    const name = "hello-headless.work.svc.clusterset.local";
    const addresses = await until(
      "four pods in DNS",
      () => dig(name, "A"),
      (it) => it.length === 4,
    );
    const reached = await Promise.all(
      addresses.map((it) =>
        lab.ask(IMPORTER, "work/client", { url: `http://${it}:8080/?format=json`, count: 1 }),
      ),
    );
    expect(new Set(reached.flat().map((it) => it?.pod)).size).toBe(4);
    expect(clustersIn(reached.flat())).toEqual(EXPORTERS);
    expect(await dig(name, "AAAA")).toHaveLength(4);
    const targets = await dig(`_http._tcp.${name}`, "SRV");
    expect(targets.length).toBeGreaterThanOrEqual(4);
    for (const target of targets) {
      const [, , port, host] = target.split(" ");
      expect(port).toBe("8080");
      expect((await dig(found(host), "A", found(host), "AAAA")).length).toBeGreaterThan(0);
    }
  });

  it("answers at the load balancer's addresses, of both families, from the machine itself", async () => {
    const addresses = await until(
      "two addresses",
      () => balancerAddresses(IMPORTER, "work"),
      (it) => it.length === 2,
    );
    expect(addresses.filter((it) => it.includes(":"))).toHaveLength(1);
    for (const address of addresses) {
      const answers: (Answer | undefined)[] = [];
      for (let at = 0; at < 30; at += 1) answers.push(await askFromHere(address));
      expect(clustersIn(answers)).toEqual(EXPORTERS);
    }
  });

  it("has answers by IPv6 from the other cluster too", async () => {
    const [address] = await dig("hello.work.svc.clusterset.local", "AAAA");
    await untilAnswered("member-1", `http://[${address}]/`, EXPORTERS);
  });

  it("uses its own cluster's Service for its own cluster only", async () => {
    const answers = await lab.ask(IMPORTER, "work/client", {
      url: "http://hello.work.svc.cluster.local/",
      count: 10,
    });
    expect(clustersIn(answers)).toEqual([IMPORTER]);
  });

  it.each([
    ["fleet", fleetExport],
    ["multi-cluster", mcsExport],
  ] as const)("an export by the %s kind alone serves names and load balancers", async (api, exportOf) => {
    const at = `by-${api}`;
    const hello = { namespace: at, name: "hello" };
    await lab.apply("member-1", namespace(at), echoDeployment(hello, 1), service(hello), exportOf(hello));
    await lab.apply(IMPORTER, namespace(at), multiClusterService(hello));
    await untilAnswered(IMPORTER, `http://hello.${at}.svc.clusterset.local/`, ["member-1"]);
    await untilAnswered("member-1", `http://hello.${at}.svc.clusterset.local/`, ["member-1"]);
    const [address = ""] = await balancerAddresses(IMPORTER, at);
    await until(
      "the load balancer answers",
      () => askFromHere(address),
      (it) => it?.cluster === "member-1",
    );
  });

  it("loses no request while another member exports the same service with other settings", async () => {
    const at = "by-multi-cluster";
    const hub = await lab.client("hub");
    const { items } = await hub.list(INTERNAL_SERVICE_EXPORTS, { namespace: mailboxOf("member-1") });
    const spec = found(items.find((it) => it.spec?.serviceReference.namespace === at)?.spec);
    const metadata = { namespace: mailboxOf(IMPORTER), name: `${at}-hostile` };
    const forged = {
      metadata,
      spec: {
        ...spec,
        ports: [{ name: "extra", port: 99 }, ...spec.ports],
        doors: [{ group: "multicluster.x-k8s.io", createdAt: "1970-01-01T00:00:00Z" }],
        serviceReference: { ...spec.serviceReference, clusterId: IMPORTER },
      },
    };
    const url = `http://hello.${at}.svc.clusterset.local/`;
    let isOver = false;
    const asked = lab.ask(IMPORTER, "work/client", { url, count: 200 }).finally(() => (isOver = true));
    let taken = 0;
    for (const { object } of hostilities(forged, schemaOf(HUB_CRDS, "InternalServiceExport"), ["spec"])) {
      if (isOver) break;
      const write = hub.create(INTERNAL_SERVICE_EXPORTS, { ...object, metadata });
      taken += await write.then(
        () => 1,
        () => 0,
      );
      await hub.delete(INTERNAL_SERVICE_EXPORTS, keyOf({ metadata }));
    }
    expect(clustersIn(await asked)).toEqual(["member-1"]);
    expect(taken).toBeGreaterThan(0);
  });

  it("are verified end to end by one command, which removes what it created", async () => {
    const { stdout } = await verify("-o", "json");
    const { results, summary } = JSON.parse(stdout) as {
      readonly results: readonly Result[];
      readonly summary: Summary;
    };
    expect(results.filter((it) => it.status !== "passed")).toEqual([]);
    expect(summary).toMatchObject({ pairs: 2, pairsPassed: 2 });
    // Every check over both families, from each of both clusters.
    expect(summary.checks).toBe(2 * 2 * PROBES.length);
    expect(await namespacesOfRuns()).toEqual([]);
  });

  it("fail the verification where one protocol does not pass: exit code 3 and the pair, check and family", async () => {
    const [node] = lab.cluster(IMPORTER).nodes;
    const drop = "add chain inet hole in { type filter hook prerouting priority -350; }";
    const rule = `add rule inet hole in meta nfproto ipv4 udp dport ${SERVER_PORT} drop`;
    const nft = async (script: string): Promise<unknown> => {
      const line = inNetns(lab.layout.netnsOf(nodeNetns(found(node))), "nft", [script]);
      return exec(line.command, line.args);
    };
    await nft(`add table inet hole; ${drop}; ${rule}`);
    try {
      const run = await verify("--check", "udp", "--check", "tcp", "--settle", "0");
      expect(run.exitCode).toBe(3);
      expect(run.stdout).toContain(`member-1 to ${IMPORTER}: udp over IPv4 failed: no answer within 2000 ms`);
      expect(run.stdout).toMatch(/member-1 +member-2 +ok +failed \(IPv4\)/);
    } finally {
      await nft("delete table inet hole");
    }
  });

  it("leave nothing behind when the verification is interrupted", async () => {
    const args = ["verify", "--kubeconfig", lab.layout.kubeconfig, "--member-contexts", EXPORTERS.join()];
    const child = start(`${checkout}bin/fairlead`, args, { stdio: "ignore" });
    const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
    await until("a namespace of the run", namespacesOfRuns, (it) => it.length > 0);
    child.kill("SIGINT");
    expect(await ended).toBe(130);
    expect(await namespacesOfRuns()).toEqual([]);
  });

  it("counts one service that is exported by both kinds once, and withdraws it when the last export goes", async () => {
    const at = "by-fleet";
    const url = `http://hello.${at}.svc.clusterset.local/`;
    const countOf = async () => (await fleetStatus()).services.find((it) => it.namespace === at);
    await lab.apply("member-1", mcsExport({ namespace: at, name: "hello" }));
    const both = await until("both APIs", countOf, (it) => it?.exports[0]?.doors.length === 2);
    expect(both?.exports).toHaveLength(1);
    // One pod of two families.
    expect(both?.endpoints).toBe(
      (await fleetStatus()).services.find((it) => it.namespace === "by-multi-cluster")?.endpoints,
    );
    await lab.kubectl("member-1", ["-n", at, "delete", KINDS.fleetExport, "hello"]);
    await until("one API", countOf, (it) => it?.exports[0]?.doors.length === 1);
    expect(clustersIn(await lab.ask(IMPORTER, "work/client", { url, count: 10 }))).toEqual(["member-1"]);
    await lab.kubectl("member-1", ["-n", at, "delete", KINDS.mcsExport, "hello"]);
    await until("nothing left on the hub", countOf, (it) => it === undefined);
    for (const cluster of EXPORTERS) {
      await eventually(
        await lab.client(cluster),
        MCS_SERVICE_IMPORTS,
        (all) => !all.some((it) => it.metadata.namespace === at),
      );
      await eventually(
        await lab.client(cluster),
        SERVICES,
        (all) => !all.some((it) => it.metadata.name === derivedServiceName(at, "hello")),
      );
    }
    await until(
      "no name",
      () => lab.inPod(IMPORTER, "work/client", `dig hello.${at}.svc.clusterset.local A`),
      (it) => it.includes("NXDOMAIN"),
    );
    const exported = found(await (await lab.client("member-1")).find(SERVICES, objectKey(at, "hello")));
    expect(exported.metadata.finalizers ?? []).toEqual([]);
  });

  it("imports the union of ports by the multi-cluster kind: a port of one cluster leads to its pods only", async () => {
    const hello = { namespace: "union", name: "hello" };
    await lab.apply(
      "member-1",
      namespace("union"),
      echoDeployment(hello, 1),
      service(hello),
      mcsExport(hello),
    );
    await untilMcs("member-1", "union", "Conflict", "False NoConflicts");
    await lab.apply(
      "member-2",
      namespace("union"),
      echoDeployment(hello, 1),
      service(hello, { http: 80, extra: 81 }),
      mcsExport(hello),
    );
    for (const cluster of EXPORTERS) await untilMcs(cluster, "union", "Conflict", "True PortConflict");
    for (const cluster of EXPORTERS) {
      await untilAnswered(cluster, "http://hello.union.svc.clusterset.local:81/", ["member-2"]);
      await untilAnswered(cluster, "http://hello.union.svc.clusterset.local/", EXPORTERS);
    }
  });

  it("requires equal ports of fleet exports: an export that differs from the first is excluded until it is equal", async () => {
    const hello = { namespace: "strict", name: "hello" };
    const url = "http://hello.strict.svc.clusterset.local/";
    await lab.apply(
      "member-1",
      namespace("strict"),
      echoDeployment(hello, 1),
      service(hello),
      fleetExport(hello),
    );
    await untilFleet("member-1", "strict", "Conflict", "False NoConflictFound");
    const other = [
      namespace("strict"),
      echoDeployment(hello, 1),
      service(hello, { http: 81 }),
      fleetExport(hello),
    ];
    await lab.apply("member-2", ...other);
    await untilFleet("member-2", "strict", "Conflict", "True ConflictFound");
    await untilAnswered(IMPORTER, url, ["member-1"]);
    const refused = await lab.ask(IMPORTER, "work/client", {
      url: url.replace("local/", "local:81/"),
      count: 2,
    });
    expect(clustersIn(refused)).toEqual(["none"]);
    await lab.apply("member-2", service(hello));
    await untilFleet("member-2", "strict", "Conflict", "False NoConflictFound");
    await untilAnswered(IMPORTER, url, EXPORTERS);
  });

  it("reports an invalid export in a condition: no Service, or an ExternalName Service", async () => {
    const hello = { namespace: "odd", name: "hello" };
    await lab.apply("member-1", namespace("odd"), fleetExport(hello), mcsExport(hello));
    await untilFleet("member-1", "odd", "Valid", "False ServiceNotFound");
    await untilMcs("member-1", "odd", "Valid", "False NoService");
    const spec = { type: "ExternalName", externalName: "example.com" };
    await lab.apply("member-1", { apiVersion: "v1", kind: "Service", metadata: hello, spec });
    await untilFleet("member-1", "odd", "Valid", "False ServiceIneligible");
    await untilMcs("member-1", "odd", "Valid", "False InvalidServiceType");
  });

  it("is shown by the commands of the guide", async () => {
    const page = await readFile(new URL("../../docs/guide/services.md", import.meta.url), "utf8");
    const commands = [...page.matchAll(/kubectl (get service(?:ex|im)ports[^`#\n]*)/g)].map(
      (it) => it[1] ?? "",
    );
    expect(commands.length).toBeGreaterThan(2);
    for (const command of commands) {
      const { stdout } = await lab.kubectl("member-1", command.trim().split(/\s+/));
      expect({ command, stdout }).toEqual({ command, stdout: expect.stringContaining("hello") as string });
    }
  });

  it("is printed by fairlead status as text, wide, JSON, YAML and names", async () => {
    const hub = ["status", "--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
    const print = async (output: string) => (await runFairlead(lab.stateRoot, [...hub, "-o", output])).stdout;
    const table = await print("text");
    // What a conflict is about is a sentence below the tables.
    const rows = table.split("\n").filter((it) => !it.startsWith("  "));
    for (const row of rows) expect(row.length).toBeLessThanOrEqual(80);
    expect(table).toContain("union/hello: ports differ: member-1 has");
    expect(table).toMatch(/^member-1 +True +True/m);
    expect(await print("wide")).toContain("MESSAGE");
    expect(await print("yaml")).toMatch(/name: member-1/);
    expect((await print("name")).split("\n")).toContain("membercluster.cluster.kubernetes-fleet.io/member-2");
    const work = (await fleetStatus()).services.find((it) => it.namespace === "work" && it.name === "hello");
    expect(work?.exports.map((it) => it.cluster)).toEqual(EXPORTERS);
    expect(work?.loadBalancer).toBe(IMPORTER);
    const odd = await runFairlead(lab.stateRoot, [...hub, "-o", "xml"], { allowFailure: true });
    expect(odd.exitCode).toBe(2);
    expect(odd.stderr).toContain("Allowed choices are text, wide, json, yaml, name");
  });

  it("is reported by fairlead status: invalid exports, and a hub whose program is dead", async () => {
    const args = ["status", "--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
    const status = () => runFairlead(lab.stateRoot, args, { allowFailure: true });
    await until(
      "the export of a Service that is only a name is listed",
      async () => (await status()).stdout,
      (text) => /INVALID EXPORTS\n {2}member-1: odd\/hello: .*ExternalName/.test(text),
    );
    expect(await status()).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^HUB.*\nRunning/) as string,
    });
    await lab.lab("kill", ["hub/hub"]);
    const dead = await until("status says that the hub is dead", status, (it) => it.exitCode !== 0);
    expect(dead).toMatchObject({ exitCode: 3, stdout: expect.stringMatching(/^HUB.*\nDead/) as string });
  });
});
