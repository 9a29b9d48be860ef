import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { HELM } from "../../packages/apiserver/test/support.ts";
import { chartFolder, type Chart } from "../support/helm.ts";
import { runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";
import { echoDeployment, namespace, service, shellPod } from "../support/lab-manifests.ts";

/** Everything from the charts, in pods of bare clusters. The image is a name for this checkout's bundle. */

const HUB = "hub";
const MEMBER = "member-1";
const WEB = { namespace: "shop", name: "web" };
const SHELL = { namespace: "shop", name: "shell" };

/** Not those that the charts are named by: whatever looks for objects must not go by these names. */
const RELEASES: Readonly<Record<Chart, string>> = { "fairlead-hub": "shop", "fairlead-member": "east" };

let lab: TestLab;
let home = "";
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "lab-charts-"));
  lab = await startLab({ name: "charts", members: 1, nodes: 1, flags: ["--bare"] });
});
afterAll(async () => {
  await lab?.[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

function helm(cluster: string, args: readonly string[]): Promise<ExecResult> {
  return exec(HELM ?? "helm", [...args, "--namespace", "fleet-system"], {
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: home,
      KUBECONFIG: lab.layout.kubeconfig,
      HELM_KUBECONTEXT: cluster,
    },
    timeoutMs: 90_000,
  });
}

const install = (cluster: string, chart: Chart): Promise<ExecResult> =>
  helm(cluster, [
    "install",
    RELEASES[chart],
    chartFolder(chart),
    "--create-namespace",
    "--wait",
    "--timeout",
    "80s",
  ]);

describe.skipIf(HELM === undefined)("a fleet out of the charts", () => {
  it("runs the hub in pods, which install its kinds first", async () => {
    await install(HUB, "fairlead-hub");
    expect((await helm(HUB, ["test", "shop", "--timeout", "60s"])).stdout).toContain("Succeeded");
  });

  it("runs a member in pods, which are ready before it has joined", async () => {
    await install(MEMBER, "fairlead-member");
    const client = await lab.client(MEMBER);
    for (const name of ["east-fairlead-member", "east-fairlead-member-dns"]) {
      const { status } = await client.get(DEPLOYMENTS, objectKey("fleet-system", name));
      expect(status).toMatchObject({ readyReplicas: 2, availableReplicas: 2 });
    }
    expect((await helm(MEMBER, ["test", "east", "--timeout", "60s"])).stdout).toContain("Succeeded");
  });

  it("joins it to the hub", async () => {
    const flags = ["--kubeconfig", lab.layout.kubeconfig, "--hub-context", HUB, "--member-context", MEMBER];
    await runFairlead(lab.stateRoot, ["join", "east", ...flags, "--agent", "none"]);
    const members = await (await lab.client(HUB)).list(MEMBER_CLUSTERS);
    expect(members.items.map((it) => it.metadata.name)).toEqual(["east"]);
  });

  it("imports what it exports, and answers its name in pods of the DNS", async () => {
    await lab.apply(MEMBER, namespace(WEB.namespace), echoDeployment(WEB, 1), service(WEB), shellPod(SHELL), {
      apiVersion: "multicluster.x-k8s.io/v1beta1",
      kind: "ServiceExport",
      metadata: WEB,
    });
    const client = await lab.client(MEMBER);
    const key = objectKey(WEB.namespace, WEB.name);
    await until(
      "the service is imported",
      () => client.find(MCS_SERVICE_IMPORTS, key),
      (it) => (it?.spec?.ips ?? []).length > 0,
    );
    await lab.kubectl(MEMBER, [
      "-n",
      SHELL.namespace,
      "wait",
      "--for=condition=Ready",
      "--timeout=60s",
      `pod/${SHELL.name}`,
    ]);
    const service53 = "east-fairlead-member-dns.fleet-system.svc.cluster.local";
    const ips = (await client.get(MCS_SERVICE_IMPORTS, key)).spec?.ips ?? [];
    const asked = `dig +short +time=2 +tries=5 web.shop.svc.clusterset.local @$(dig +short ${service53})`;
    await until(
      "the name is answered",
      () => lab.inPod(MEMBER, `${SHELL.namespace}/${SHELL.name}`, asked),
      (it) => ips.includes(it.trim()),
    );
  });

  it("fails over when the leader's pod is deleted", async () => {
    const holder = async (): Promise<string> =>
      (
        await lab.kubectl(MEMBER, [
          "-n",
          "fleet-system",
          "get",
          "lease",
          LEASES_OF.member[0],
          "-o",
          "jsonpath={.spec.holderIdentity}",
        ])
      ).stdout;
    const before = await holder();
    await lab.kubectl(MEMBER, [
      "-n",
      "fleet-system",
      "delete",
      "pod",
      before.split("_")[0] ?? "",
      "--wait=false",
    ]);
    await until("another pod acts", holder, (it) => it !== "" && it !== before);
  });

  describe("fairlead dns setup, in a cluster whose DNS obeys its Corefile", () => {
    const setup = (...flags: readonly string[]): Promise<ExecResult> =>
      runFairlead(
        lab.stateRoot,
        ["dns", "setup", "--kubeconfig", lab.layout.kubeconfig, "--context", MEMBER, ...flags],
        { allowFailure: true },
      );
    const corefile = async (): Promise<string> =>
      (await (await lab.client(MEMBER)).get(CONFIG_MAPS, objectKey("kube-system", "coredns"))).data?.[
        "Corefile"
      ] ?? "";
    const resolved = (): Promise<string> =>
      lab.inPod(MEMBER, `${SHELL.namespace}/${SHELL.name}`, "dig +short web.shop.svc.clusterset.local");

    it("puts the Corefile back when a pod cannot resolve names of the cluster set", async () => {
      const before = await corefile();
      const failed = await setup("--timeout", "2", "--dns-address", "192.0.2.53");
      expect(failed.exitCode).toBe(1);
      expect(failed.stderr).toContain("configuration of the cluster's DNS was restored");
      expect(await corefile()).toBe(before);
    });

    it("is content when pods resolve them, and is undone without a trace", async () => {
      const before = await corefile();
      expect(await setup("--timeout", "20")).toMatchObject({ exitCode: 0 });
      const { spec } = await (
        await lab.client(MEMBER)
      ).get(MCS_SERVICE_IMPORTS, objectKey(WEB.namespace, WEB.name));
      await until("a pod resolves the name", resolved, (it) => spec?.ips?.includes(it.trim()) ?? false);
      expect(await setup("--undo")).toMatchObject({ exitCode: 0 });
      expect(await corefile()).toBe(before);
      await until("no pod resolves the name any more", resolved, (it) => it.trim() === "");
    });
  });

  it("leaves the kinds and what people made when the charts go", async () => {
    await helm(MEMBER, ["uninstall", "east", "--wait", "--timeout", "60s"]);
    await helm(HUB, ["uninstall", "shop", "--wait", "--timeout", "60s"]);
    expect(
      (
        await lab.kubectl(MEMBER, [
          "-n",
          "shop",
          "get",
          "serviceexports.multicluster.x-k8s.io",
          "web",
          "-o",
          "name",
        ])
      ).stdout,
    ).toContain("web");
  });
});
