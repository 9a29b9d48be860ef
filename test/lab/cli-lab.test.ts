/** The commands of people around a lab, and membership of a fleet. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { DRAIN_ANNOTATION } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { start } from "@fairlead/base/exec.ts";
import { follow } from "../support/followed.ts";
import { checkout, runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";
import { echoDeployment, mcsExport, namespace, service } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const HELLO = { namespace: "work", name: "hello" };
let lab: TestLab;

const output = async (...args: readonly string[]) =>
  runFairlead(lab.stateRoot, args, { allowFailure: true, timeoutMs: 60_000 });

/** Flags with which a cluster of the lab joins or leaves its hub. */
const fleetFlags = (): readonly string[] => [
  "--hub-kubeconfig",
  lab.layout.kubeconfig,
  "--hub-context",
  "hub",
  "--member-kubeconfig",
  lab.layout.kubeconfig,
  "--member-context",
  "member-1",
];

/** A lab starts agents by itself. */
const joinFlags = (): readonly string[] => [...fleetFlags(), "--agent", "none"];

describeOnKernel("the commands of a lab", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "ecli", members: 1 });
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("kubectl runs the real one against a cluster and ends with its code", async () => {
    const nodes = await output("lab", "kubectl", "--name", "ecli", "member-1", "get", "nodes", "-o", "name");
    expect(nodes).toMatchObject({ exitCode: 0, stdout: "node/member-1-node-1\n" });
    const absent = await output("lab", "kubectl", "--name", "ecli", "member-1", "get", "pod", "absent");
    expect(absent.exitCode).toBe(1);
    expect(absent.stderr).toContain("NotFound");
    const nowhere = await output("lab", "kubectl", "--name", "ecli", "member-9", "get", "pods");
    expect(nowhere.exitCode).toBe(2);
    expect(nowhere.stderr).toContain("it has: hub member-1");
  });

  it("kubeconfig prints a file with a context for each cluster", async () => {
    const { stdout } = await output("lab", "kubeconfig", "--name", "ecli");
    expect(stdout).toBe(`${lab.layout.kubeconfig}\n`);
    const contexts = await lab.kubectl("hub", ["config", "get-contexts", "-o", "name"]);
    expect(contexts.stdout.trim().split("\n").toSorted()).toEqual(["hub", "member-1"]);
  });

  it("logs prints the log of a program, its last lines, and new lines", async () => {
    const all = await output("lab", "logs", "--name", "ecli", "hub/apiserver");
    expect(all.stdout).toContain('"msg":"ready"');
    const last = await output("lab", "logs", "--name", "ecli", "--tail", "1", "hub/apiserver");
    expect(last.stdout.trim().split("\n")).toHaveLength(1);
    const odd = await output("lab", "logs", "--name", "ecli", "hub/nothing");
    expect(odd.exitCode).toBe(2);
    expect(odd.stderr).toContain("hub/apiserver");
    const logs = follow(lab.stateRoot, ["lab", "logs", "--name", "ecli", "-f", "hub/apiserver"]);
    await logs.untilPrinted("it prints the log", (it) => it.includes('"msg":"ready"'));
    const file = lab.layout.logOf("hub/apiserver");
    writeFileSync(file, "one line more\n", { flag: "a" });
    await logs.untilPrinted("it follows", (it) => it.endsWith("one line more\n"));
    await logs.interrupt();
  });

  it("shell runs in the network of a place, with kubectl at hand", async () => {
    const node = await output("lab", "shell", "--name", "ecli", "member-1-node-1", "hostname", "-I");
    expect(node.stdout).toContain(lab.cluster("member-1").nodes[0]?.address.v4);
    const here = await output(
      "lab",
      "shell",
      "--name",
      "ecli",
      "member-1",
      "sh",
      "-c",
      "kubectl config current-context; exit 7",
    );
    expect(here).toMatchObject({ exitCode: 7, stdout: "hub\n" });
  });

  it("shell runs the command after --, in a place or without one", async () => {
    const at = await output("lab", "shell", "--name", "ecli", "member-1-node-1", "--", "hostname", "-I");
    expect(at.stdout).toContain(lab.cluster("member-1").nodes[0]?.address.v4);
    const nowhere = await output("lab", "shell", "--name", "ecli", "--", "sh", "-c", "echo $KUBECONFIG");
    expect(nowhere).toMatchObject({ exitCode: 0, stdout: `${lab.layout.kubeconfig}\n` });
  });

  it("list names the labs, as do a command for an unknown lab and down --all, which asks for confirmation", async () => {
    expect((await output("lab", "list", "-o", "name")).stdout).toBe("ecli\n");
    const { stdout } = await output("lab", "list");
    expect(stdout).toMatch(
      /^LAB +MEMBERS +PROCESSES +AGE +KUBECONFIG\necli +1 +\d+ +\d+\w+ +\/.+\/kubeconfig\n$/,
    );
    const other = await output("lab", "status", "--name", "enone");
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toContain("lab enone does not exist; labs that are up: ecli; create it: ");
    const all = await output("lab", "down", "--all");
    expect(all.exitCode).not.toBe(0);
    expect(all.stderr).toContain("ecli");
    expect(all.stderr).toContain("pass --yes");
    expect((await output("lab", "status", "--name", "ecli")).exitCode).toBe(0);
  });

  it("kill and restore wait for one another", async () => {
    const programs = ["member-1/lab-dns", "member-1/dns", "hub/hub", "member-1/member"];
    const all = async (verb: string) =>
      Promise.all(programs.map(async (it) => (await output("lab", verb, "--name", "ecli", it)).stdout));
    const killed = await all("kill");
    expect(killed.map((it) => it.split(" ").slice(0, 3).join(" "))).toEqual(
      programs.map((it) => `${it} is dead.`),
    );
    const status = async () => (await output("lab", "status", "--name", "ecli", "-o", "json")).stdout;
    expect(new Set((JSON.parse(await status()) as { killed: string[] }).killed)).toEqual(new Set(programs));
    expect(await all("restore")).toEqual(programs.map((it) => `${it} is back.\n`));
    expect(JSON.parse(await status())).toMatchObject({ killed: [] });
  });

  it("restore reports a program that was not dead", async () => {
    const { stdout } = await output("lab", "restore", "--name", "ecli", "member-1/dns");
    expect(stdout).toBe("member-1/dns was not dead.\n");
  });

  it("up that is interrupted explains how to continue", async () => {
    const child = start(`${checkout}bin/fairlead`, ["lab", "up", "--name", "ehalf", "--members", "1"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"] ?? "", FAIRLEAD_STATE: lab.stateRoot },
    });
    const ended = new Promise<number | null>((resolve) => {
      child.once("close", resolve);
    });
    let said = "";
    child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString("utf8")));
    child.stdout?.once("data", () => child.kill("SIGINT"));
    expect(await ended).toBe(130);
    expect(said).toBe(
      'fairlead lab: interrupted: lab ehalf may be partly up; run "fairlead lab up" again to continue, or "fairlead lab down" to remove it\n',
    );
    await output("lab", "down", "--name", "ehalf");
  });

  it("up that cannot write its folder names it, and how to choose another", async () => {
    const folder = join(checkout, "package.json", "labs");
    const { exitCode, stderr } = await runFairlead(folder, ["lab", "up", "--name", "enone"], {
      allowFailure: true,
    });
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`cannot write the folder of the labs, ${folder}: `);
    expect(stderr).toContain("set FAIRLEAD_STATE");
  });

  it("kubectl debug of a node reports that hostPath is not supported", async () => {
    const volumes = [{ name: "host-root", hostPath: { path: "/" } }];
    const spec = {
      containers: [{ name: "debugger", image: "busybox" }],
      volumes,
      nodeName: "member-1-node-1",
    };
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "node-debugger" }, spec };
    await lab.kubectl("member-1", ["wait", "--for=create", "serviceaccount/default"]);
    const { stderr } = await lab.kubectl("member-1", ["apply", "-f", "-"], { input: JSON.stringify(pod) });
    expect(stderr).toContain("Warning: ");
    expect(stderr).toContain("nodes of a lab have no hostPath");
    await lab.kubectl("member-1", ["delete", "pod", "node-debugger", "--grace-period=0", "--force"]);
  });

  it("kill and restore reject an unknown target, and list the known ones", async () => {
    for (const verb of ["kill", "restore"]) {
      const odd = await output("lab", verb, "--name", "ecli", "member-1/nothing");
      expect(odd.exitCode).toBe(2);
      expect(odd.stderr).toContain("member-1/lab-controllers");
    }
    expect((await output("lab", "status", "--name", "enone")).stderr).toContain("lab enone does not exist");
  });
});

describeOnKernel("membership", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "ejoin", members: 1 });
    await lab.apply(
      "member-1",
      namespace("work"),
      echoDeployment(HELLO, 1),
      service(HELLO),
      mcsExport(HELLO),
    );
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("may be asked for twice: the second join changes no member", async () => {
    const hub = await lab.client("hub");
    const before = await hub.get(MEMBER_CLUSTERS, objectKey(undefined, "member-1"));
    const twice = await output("join", "member-1", ...joinFlags(), "--heartbeat-seconds", "1");
    expect(`${twice.exitCode} ${twice.stderr}`).toMatch(/^0 /);
    expect(twice.stderr).toContain("✓ register member-1 with the hub: already there");
    const after = await hub.get(MEMBER_CLUSTERS, objectKey(undefined, "member-1"));
    expect([after.metadata.uid, after.spec]).toEqual([before.metadata.uid, before.spec]);
  });

  it("takes labels and an update group, which members are listed by and which can be changed", async () => {
    const onHub = ["--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
    const labels = ["--labels", "env=prod", "tier=web", "--update-group", "canary"];
    expect(
      (await output("join", "member-1", ...joinFlags(), "--heartbeat-seconds", "1", ...labels)).exitCode,
    ).toBe(0);
    const listed = await output("member", "list", ...onHub, "--selector", "env in (prod),tier");
    expect(listed.stdout).toMatch(/\nmember-1 +True +True +canary /);
    expect(
      (await output("member", "list", ...onHub, "--selector", "!tier", "-o", "name")).stdout.trim(),
    ).toBe("");
    const changed = await output("member", "update", "member-1", ...onHub, "--labels", "tier-", "env=test");
    expect(changed.stderr).toBe("member member-1: changed\n");
    const shown = await output("member", "show", "member-1", ...onHub);
    expect(shown.stdout).toContain("\n  env=test\n");
    expect(shown.stdout).not.toContain("tier");
  });

  it("labels the member by the region of its nodes and its version of Kubernetes, without being asked", async () => {
    await lab.kubectl("member-1", ["label", "node", "--all", "topology.kubernetes.io/region=eastus"]);
    const hub = await lab.client("hub");
    const member = await until(
      "the hub knows the region",
      () => hub.get(MEMBER_CLUSTERS, objectKey(undefined, "member-1")),
      (it) => it.metadata.labels?.["fleet.azure.com/location"] === "eastus",
    );
    expect(member.metadata.labels).toMatchObject({
      "topology.kubernetes.io/region": "eastus",
      "fleet.azure.com/member-name": "member-1",
      "fairlead.dev/kubernetes-version": expect.stringMatching(/^v1\./) as string,
    });
  });

  it("of one cluster under a second name is refused, and so is a name that cannot be", async () => {
    const other = await output("join", "other", ...joinFlags());
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toContain("member-1");
    const odd = await output("join", "No_Name", ...joinFlags());
    expect(odd.exitCode).toBe(2);
    expect(
      (await (await lab.client("hub")).list(MEMBER_CLUSTERS)).items.map((it) => it.metadata.name),
    ).toEqual(["member-1"]);
  });

  it("of a hub that does not answer is given up in time, with the address that was tried", async () => {
    const file = join(lab.stateRoot, "absent.kubeconfig");
    const { v4 } = lab.cluster("hub").api;
    writeFileSync(file, readFileSync(lab.layout.kubeconfig, "utf8").replace(`${v4}:6443`, `${v4}:6444`));
    const startMs = systemClock.monotonic();
    const flags = joinFlags().with(1, file);
    const { exitCode, stderr } = await output("join", "member-1", ...flags, "--timeout", "5");
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`${v4}:6444`);
    expect(systemClock.monotonic() - startMs).toBeLessThan(30_000);
  });

  it("is shown again by status -w when it changes, until that is interrupted", async () => {
    const onHub = ["--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
    const hub = await lab.client("hub");
    const status = follow(lab.stateRoot, ["status", "-w", ...onHub]);
    const isJoined = (it: string): boolean => /^member-1 +True +True +1/m.test(it);
    await status.untilPrinted("the fleet", (it) => isJoined(it) && it.includes("work/hello"));
    const drain = (value: string | null) =>
      hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "member-1"), {
        metadata: { annotations: { [DRAIN_ANNOTATION]: value } },
      });
    await drain("true");
    await status.untilPrinted("the drain", (it) => /^member-1 +True +True +Soft/m.test(it));
    await drain(null);
    await status.untilPrinted("its end", isJoined);
    expect(await status.interrupt()).toBe(130);
    const paths = follow(lab.stateRoot, ["status", "-w", "--paths", ...onHub]);
    await paths.untilPrinted("no paths", (it) => it.includes("No members share a parallel network"));
    expect(await paths.interrupt()).toBe(130);
  });

  it("ends with leave, which leaves what people own, and begins again with join", async () => {
    const hub = await lab.client("hub");
    const mailbox = objectKey(undefined, "fleet-member-member-1");
    const asked = await output("leave", "member-1", "--dry-run", ...fleetFlags());
    expect(`${asked.exitCode} ${asked.stdout}`).toMatch(
      /^0 member-1 would leave the fleet\. Nothing was changed\.\nServices that it would not export any more: 1;/,
    );
    const left = await output("leave", "member-1", ...fleetFlags());
    expect(`${left.exitCode} ${left.stderr}`).toMatch(/^0 /);
    expect(await hub.find(MEMBER_CLUSTERS, objectKey(undefined, "member-1"))).toBeUndefined();
    await until(
      "the mailbox is gone",
      () => hub.find(NAMESPACES, mailbox),
      (it) => it === undefined,
    );
    const kept = await lab.kubectl("member-1", [
      "-n",
      "work",
      "get",
      "service/hello",
      "deployment/hello",
      "-o",
      "name",
    ]);
    expect(kept.stdout).toBe("service/hello\ndeployment.apps/hello\n");
    const back = await output("join", "member-1", ...joinFlags(), "--heartbeat-seconds", "1");
    expect(`${back.exitCode} ${back.stderr}`).toMatch(/^0 /);
    await until(
      "the export is there again",
      async () =>
        (await output("status", "--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub")).stdout,
      (it) => /^member-1 +True +True +1/m.test(it),
    );
  });
});
