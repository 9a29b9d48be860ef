import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { Exec, KubeConfig, Log, PortForward, type V1Status } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { startLab, type TestLab } from "../support/lab-fixture.ts";
import { HELM, OLDER_HELM } from "../../packages/apiserver/test/support.ts";

/** Clients that are not ours, on a cluster that runs pods. */

const CHART = fileURLToPath(new URL("chart", import.meta.url));
const CLUSTER = "member-1";
/** The versions differ in how they apply (Helm 4: on the server) and in the name of one flag. */
const PROGRAMS = [
  { version: 4, program: HELM, orRollBack: "--rollback-on-failure" },
  { version: 3, program: OLDER_HELM, orRollBack: "--atomic" },
];

let lab: TestLab;
let home = "";
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "clients-"));
  lab = await startLab({ name: "clients", members: 1, nodes: 1 });
});
afterAll(async () => {
  await lab?.[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

describe.skipIf(HELM === undefined)("Helm", () => {
  describe.for(PROGRAMS)("$version", ({ version, program = "", orRollBack }) => {
    const namespace = `helm-${version}`;
    const release = "shop";

    function helm(args: readonly string[], allowFailure = false): Promise<ExecResult> {
      return exec(program, [...args, "--namespace", namespace], {
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: home,
          KUBECONFIG: lab.layout.kubeconfig,
          HELM_KUBECONTEXT: CLUSTER,
        },
        timeoutMs: 90_000,
        allowFailure,
      });
    }
    async function get(what: string, path: string): Promise<string> {
      const args = [
        "-n",
        namespace,
        "get",
        ...what.split(" "),
        "-o",
        `jsonpath={${path}}`,
        "--ignore-not-found",
      ];
      return (await lab.kubectl(CLUSTER, args)).stdout;
    }

    it("installs: definitions first, then hooks, then the rest, and waits until it serves", async () => {
      await helm(["install", release, CHART, "--create-namespace", "--wait", "--timeout", "60s"]);
      expect(await get(`deploy ${release}`, ".status.readyReplicas")).toBe("1");
      expect(await get(`job ${release}-pre-install`, ".status.succeeded")).toBe("1");
      expect(await get(`gadget ${release}`, ".spec.size")).toBe("3");
      expect(await get(`cm ${release}`, ".data.apiserver")).toBe(
        await get("svc kubernetes -n default", ".spec.clusterIP"),
      );
      const status: unknown = JSON.parse((await helm(["status", release, "-o", "json"])).stdout);
      expect(status).toMatchObject({ version: 1, info: { status: "deployed" } });
    });

    it("runs the chart's test", async () => {
      expect((await helm(["test", release, "--timeout", "60s"])).stdout).toContain("Succeeded");
    });

    it("upgrades what differs, and rolls it back", async () => {
      const set = ["--set", "replicas=2,greeting=welcome"];
      await helm(["upgrade", release, CHART, ...set, "--wait", "--timeout", "60s"]);
      expect(await get(`deploy ${release}`, ".status.readyReplicas")).toBe("2");
      expect(await get(`cm ${release}`, ".data.greeting")).toBe("welcome");
      expect(await get(`job ${release}-post-upgrade`, ".status.succeeded")).toBe("1");
      await helm(["rollback", release, "1", "--wait", "--timeout", "60s"]);
      expect(await get(`deploy ${release}`, ".spec.replicas")).toBe("1");
      expect(await get(`cm ${release}`, ".data.greeting")).toBe("hello");
    });

    it("gives up waiting for what never serves, and puts back what was there", async () => {
      const broken = ["upgrade", release, CHART, "--set", "image=example.invalid/none"];
      const refused = await helm([...broken, orRollBack, "--wait", "--timeout", "4s"], true);
      expect(refused.exitCode).not.toBe(0);
      expect(await get(`deploy ${release}`, ".spec.template.spec.containers[0].image")).toBe(
        "fairlead.dev/echo",
      );
      const history = JSON.parse((await helm(["history", release, "-o", "json"])).stdout) as {
        status: string;
      }[];
      expect(history.map((it) => it.status)).toEqual([
        "superseded",
        "superseded",
        "superseded",
        "failed",
        "deployed",
      ]);
    });

    it("removes all but the definitions, after the hook that comes before", async () => {
      await helm(["uninstall", release, "--wait", "--timeout", "60s"]);
      expect(
        await get("deploy,svc,cm,gadget -l app.kubernetes.io/managed-by=Helm", ".items[*].metadata.name"),
      ).toBe("");
      expect(await get(`deploy ${release}`, ".metadata.name")).toBe("");
      expect(await get(`job ${release}-pre-delete`, ".status.succeeded")).toBe("1");
      expect(await get("crd gadgets.example.io", ".metadata.name")).toBe("gadgets.example.io");
      expect((await helm(["list", "-q"])).stdout.trim()).toBe("");
    });
  });
});

describe("@kubernetes/client-node", () => {
  const pod = "server";
  let config: KubeConfig;
  beforeAll(async () => {
    config = new KubeConfig();
    config.loadFromFile(lab.layout.kubeconfig);
    config.setCurrentContext(CLUSTER);
    // A connection that is forwarded before the server listens is refused.
    const readinessProbe = { httpGet: { path: "/readyz", port: 8080 }, periodSeconds: 1 };
    const containers = [
      { name: "echo", image: "fairlead.dev/echo", ports: [{ containerPort: 8080 }], readinessProbe },
      { name: "talk", image: "busybox", command: ["sh", "-c", "echo said; exec sleep infinity"] },
    ];
    const metadata = { namespace: "default", name: pod };
    await lab.apply(CLUSTER, { apiVersion: "v1", kind: "Pod", metadata, spec: { containers } });
    await lab.kubectl(CLUSTER, ["wait", "--for=condition=Ready", `pod/${pod}`]);
  });

  it("runs a command with input, and receives its exit code", async () => {
    const output = new PassThrough();
    const input = new PassThrough();
    input.end("given\n");
    const { promise: status, resolve } = Promise.withResolvers<V1Status>();
    const command = ["sh", "-c", "read line; echo got $line; exit 7"];
    const streams = [output, new PassThrough(), input] as const;
    await new Exec(config).exec("default", pod, "talk", command, ...streams, false, resolve);
    expect(await status).toMatchObject({
      status: "Failure",
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: "7" }] },
    });
    output.end();
    expect(await text(output)).toBe("got given\n");
  });

  it("forwards a port", async () => {
    const output = new PassThrough();
    const input = new PassThrough();
    const socket = await new PortForward(config).portForward("default", pod, [8080], output, null, input);
    input.write("GET /readyz HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n");
    const [first] = (await once(output, "data")) as [Buffer];
    expect(first.toString()).toContain("HTTP/1.1 200 OK");
    if (typeof socket !== "function") socket.close();
  });

  it("reads logs", async () => {
    const logs = new PassThrough();
    await new Log(config).log("default", pod, "talk", logs, { tailLines: 1 });
    expect(await text(logs)).toBe("said\n");
  });
});
