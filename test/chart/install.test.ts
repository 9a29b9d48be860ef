import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { KUBECTL, startTestServer, type TestServer } from "../../packages/apiserver/test/support.ts";
import { type Chart, chartFolder, HELMS, runHelm } from "../support/helm.ts";
import { runJobs, runProgram } from "./jobs.ts";

/**
 * The charts in a cluster that has an API server and no nodes. Jobs are run as processes here, with the rights of their
 * ServiceAccount and nothing else.
 */

let server: TestServer;
let client: KubeClient;
let home = "";
let jobs: AsyncDisposable;
/** What Jobs printed, in order. */
let printed: string[];

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "charts-"));
  server = await startTestServer();
  client = connect(await loadKubeconfig(server.server.kubeconfig), systemDeps(silentLogger));
  printed = [];
  jobs = await runJobs({ server: server.server, client, home }, async (args, kubeconfig) => {
    const result = await runProgram([...args, "--kubeconfig", kubeconfig]);
    printed.push(result.stdout + result.stderr);
    return result.exitCode === 0;
  });
});
afterEach(async () => {
  await jobs[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

describe.skipIf(KUBECTL === undefined || HELMS.length === 0).for(HELMS)(
  "Helm $version on an API server",
  ({ program }) => {
    const helm = (args: readonly string[], allowFailure = false) =>
      runHelm(program, args, { kubeconfig: server.server.kubeconfig, home, allowFailure, timeoutMs: 90_000 });
    const install = (chart: Chart, values: readonly string[] = []) =>
      helm(["install", chart, chartFolder(chart), "--create-namespace", ...set(values)]);
    const set = (values: readonly string[]): string[] => values.flatMap((it) => ["--set", it]);
    const get = async (what: string, path: string): Promise<string> => {
      const namespace = what.startsWith("internalserviceexport") ? "default" : "fleet-system";
      const args = ["-n", namespace, "get", ...what.split(" "), "--ignore-not-found"];
      return (await server.kubectl([...args, "-o", `jsonpath={${path}}`])).stdout;
    };

    it("installs the hub after its kinds, upgrades, rolls back and removes all but the kinds", async () => {
      await install("fairlead-hub");
      for (const crd of HUB_CRDS)
        expect(
          await get(`crd ${crd.metadata.name}`, '.status.conditions[?(@.type=="Established")].status'),
        ).toBe("True");
      expect(await get("deploy fairlead-hub", ".spec.replicas")).toBe("2");
      // Nothing that could write kinds is left.
      expect(
        await get(
          "job,sa,clusterrole,clusterrolebinding -l app.kubernetes.io/component=crds",
          ".items[*].metadata.name",
        ),
      ).toBe("");

      await helm([
        "upgrade",
        "fairlead-hub",
        chartFolder("fairlead-hub"),
        ...set(["replicaCount=3", "memberLeaseSeconds=30"]),
      ]);
      expect(await get("deploy fairlead-hub", ".spec.replicas")).toBe("3");
      await helm(["rollback", "fairlead-hub", "1"]);
      expect(await get("deploy fairlead-hub", ".spec.replicas")).toBe("2");
      await helm(["uninstall", "fairlead-hub"]);
      expect(
        await get(
          "deploy,sa,role,rolebinding,pdb -l app.kubernetes.io/part-of=fairlead",
          ".items[*].metadata.name",
        ),
      ).toBe("");
      expect(
        await get(
          "clusterrole,clusterrolebinding -l app.kubernetes.io/part-of=fairlead",
          ".items[*].metadata.name",
        ),
      ).toBe("");
      expect(await get(`crd ${HUB_CRDS[0]?.metadata.name ?? ""}`, ".metadata.name")).not.toBe("");
    }, 120_000);

    it("keeps the token that the member has renewed, through an upgrade", async () => {
      const values = [
        "config.hubURL=https://hub.example",
        "config.memberClusterName=east",
        "config.token=first",
      ];
      await install("fairlead-member", values);
      const token = async (): Promise<string> =>
        Buffer.from(await get("secret fairlead-hub", ".data.token"), "base64").toString("utf8");
      expect(await token()).toBe("first");
      const data = { token: Buffer.from("renewed").toString("base64") };
      await server.kubectl([
        "-n",
        "fleet-system",
        "patch",
        "secret",
        "fairlead-hub",
        "--type=merge",
        "-p",
        JSON.stringify({ data }),
      ]);
      await helm([
        "upgrade",
        "fairlead-member",
        chartFolder("fairlead-member"),
        ...set([...values, "replicaCount=3"]),
      ]);
      expect(await token()).toBe("renewed");
      expect(await get("deploy fairlead-member", ".spec.replicas")).toBe("3");
    });

    it("installs the agents of nodes with the command of the guide, and removes them", async () => {
      const guide = readFileSync(
        join(chartFolder("fairlead-node"), "../../docs/guide/parallel-network.md"),
        "utf8",
      );
      expect(guide).toContain(
        "helm upgrade --install fairlead-node charts/fairlead-node --kube-context member-1 --namespace fleet-system\n",
      );
      await helm(["install", "fairlead-node", chartFolder("fairlead-node"), "--create-namespace"]);
      const args = ".spec.template.spec.containers[0].args";
      expect(await get("daemonset fairlead-node", args)).toContain("--node-name=$(NODE_NAME)");
      // The member that a profile asks to install them does not take this one for its own.
      expect(
        await get("daemonset -l app.kubernetes.io/name=fairlead-node", ".items[*].metadata.labels"),
      ).not.toContain("fairlead.dev/managed-by");
      await helm(["uninstall", "fairlead-node"]);
      expect(
        await get(
          "daemonset,sa,role,rolebinding -l app.kubernetes.io/part-of=fairlead",
          ".items[*].metadata.name",
        ),
      ).toBe("");
    });

    it("updates the CRDs of a legacy installer, and keeps every object", async () => {
      for (const crd of ORIGINAL_CRDS)
        await server.kubectl(["create", "-f", "-"], { input: JSON.stringify(crd) });
      await server.kubectl(["wait", "--for=condition=Established", "crd", "--all"]);
      await server.kubectl(["create", "-f", "-"], { input: JSON.stringify(ORIGINAL_EXPORT) });
      const uid = await get(`internalserviceexport ${ORIGINAL_EXPORT.metadata.name}`, ".metadata.uid");
      expect(uid).not.toBe("");

      await install("fairlead-hub");
      const definition = "crd internalserviceexports.networking.fleet.azure.com";
      const fields = ".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties";
      expect(JSON.parse(await get(definition, fields))).toMatchObject({ weight: {}, sessionAffinity: {} });
      // What their installer finds its definitions by stays.
      expect(await get(definition, ".metadata.labels")).toContain(
        "crd-installer.networking.azure.fleet.com/managed",
      );
      expect(await get(`internalserviceexport ${ORIGINAL_EXPORT.metadata.name}`, ".metadata.uid")).toBe(uid);
      expect(await get(`internalserviceexport ${ORIGINAL_EXPORT.metadata.name}`, ".spec.ports[0].port")).toBe(
        "80",
      );
      await helm(["uninstall", "fairlead-hub"]);
      expect(await get(`internalserviceexport ${ORIGINAL_EXPORT.metadata.name}`, ".metadata.uid")).toBe(uid);
    });

    it("fails if the CRDs cannot be installed, the Job has the cause, and the same command again continues", async () => {
      // Another kind has the name already, which no definition may take.
      const squatter = definitionOf("memberclusters.cluster.kubernetes-fleet.io", "Namespaced", "Squatter");
      await server.kubectl(["create", "-f", "-"], { input: JSON.stringify(squatter) });
      // As docs/install.md has it.
      const args = [
        "upgrade",
        "--install",
        "fairlead-hub",
        chartFolder("fairlead-hub"),
        "--create-namespace",
      ];
      const refused = await helm(args, true);
      expect(refused.exitCode).not.toBe(0);
      expect(printed.join("")).toMatch(/memberclusters.*(immutable|scope)/s);
      expect(await get("deploy fairlead-hub", ".metadata.name")).toBe("");
      await server.kubectl(["delete", "crd", "memberclusters.cluster.kubernetes-fleet.io"]);
      await helm(args);
      expect(await get("deploy fairlead-hub", ".metadata.name")).toBe("fairlead-hub");
    }, 120_000);
  },
);

/** As a legacy installer left it: fewer fields than ours, and a label to identify it. */
function definitionOf(name: string, scope: string, kind: string, spec: object = {}): Record<string, unknown> {
  const [plural = "", ...group] = name.split(".");
  const schema = {
    openAPIV3Schema: {
      type: "object",
      properties: { spec: { type: "object", ...spec }, status: { type: "object" } },
    },
  };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name,
      annotations: { "controller-gen.kubebuilder.io/version": "v0.20.0" },
      labels: { "crd-installer.networking.azure.fleet.com/managed": "true" },
    },
    spec: {
      group: group.join("."),
      names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
      scope,
      versions: [{ name: "v1alpha1", served: true, storage: true, schema, subresources: { status: {} } }],
    },
  };
}

const ORIGINAL_CRDS = [
  definitionOf("internalserviceexports.networking.fleet.azure.com", "Namespaced", "InternalServiceExport", {
    properties: {
      ports: {
        type: "array",
        items: {
          type: "object",
          properties: { name: { type: "string" }, port: { type: "integer", format: "int32" } },
        },
      },
      serviceReference: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    },
  }),
];

const ORIGINAL_EXPORT = {
  apiVersion: "networking.fleet.azure.com/v1alpha1",
  kind: "InternalServiceExport",
  metadata: { name: "shop-cart", namespace: "default" },
  spec: {
    ports: [{ name: "http", port: 80 }],
    serviceReference: {
      clusterId: "east",
      kind: "Service",
      namespace: "shop",
      name: "cart",
      namespacedName: "shop/cart",
      resourceVersion: "1",
      generation: 0,
      uid: "0b5f3a1e-9b0f-4d53-8f0e-6f7f6a3c2d11",
    },
  },
};
