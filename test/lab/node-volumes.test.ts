import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CONFIG_MAPS, type ContainerStatus, type Pod, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { NodeWorld, script } from "./node-world.ts";

const PATIENCE = { timeout: 20_000 };

describeOnKernel("what a pod is given", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const statusOf = (pod: Pod | undefined): ContainerStatus | undefined => pod?.status?.containerStatuses?.[0];
  const logOf = (pod: Pod | undefined): string =>
    pod === undefined ? "" : readFileSync(join(world.runFolder(pod, "main"), "log"), "utf8");
  /** The log of a pod of one script that runs once. */
  async function outputOf(
    name: string,
    text: string,
    more: { container?: object; spec?: Partial<Pod["spec"]> } = {},
  ): Promise<string> {
    await world.createPod(name, [{ ...script(text), ...more.container }], {
      restartPolicy: "Never",
      ...more.spec,
    });
    const pod = await world.until(name, (it) => ["Succeeded", "Failed"].includes(it?.status?.phase ?? ""));
    const said = logOf(pod);
    await world.deletePod(name);
    return said;
  }

  it("runs as the requested user and groups, with a volume that they can write", async () => {
    const text =
      "id -u; id -g; id -G; stat -c '%g %a' /data; echo mine >/data/file && stat -c '%u %g' /data/file; " +
      "cat /var/run/secrets/kubernetes.io/serviceaccount/token | wc -w; echo ok >/dev/stdout; grep NoNewPrivs /proc/self/status";
    const said = await outputOf("as-user", text, {
      container: {
        volumeMounts: [{ name: "data", mountPath: "/data" }],
        securityContext: { runAsUser: 1234, allowPrivilegeEscalation: false },
      },
      spec: {
        securityContext: { runAsGroup: 3000, fsGroup: 2000, supplementalGroups: [4000] },
        volumes: [{ name: "data", emptyDir: {} }],
      },
    });
    expect(said.trim().split("\n")).toEqual([
      "1234",
      "3000",
      "3000 2000 4000",
      "2000 2777",
      "1234 2000",
      "1",
      "ok",
      "NoNewPrivs:\t1",
    ]);
  });

  it("has the default capabilities, or those that it requests", async () => {
    const text = "awk '/CapEff/ {print $2}' /proc/self/status";
    // capabilities(7): the fourteen that container engines leave.
    expect(await outputOf("caps", text)).toBe("00000000a80425fb\n");
    const capabilities = { drop: ["ALL"], add: ["NET_BIND_SERVICE"] };
    const container = { securityContext: { capabilities } };
    expect(await outputOf("caps-few", text, { container })).toBe("0000000000000400\n");
    const privileged = { securityContext: { privileged: true } };
    const all = await outputOf("caps-all", text, { container: privileged });
    expect(BigInt(`0x${all.trim()}`) & (1n << 21n)).not.toBe(0n);
  });

  it("does not start as root if runAsNonRoot is set", async () => {
    await world.createPod("no-root", [{ ...script("id"), securityContext: { runAsNonRoot: true } }]);
    const pod = await world.until("no-root", (it) => statusOf(it)?.state?.waiting?.message !== undefined);
    const uid = pod?.metadata.uid;
    expect(statusOf(pod)?.state?.waiting).toEqual({
      reason: "CreateContainerConfigError",
      message: `container has runAsNonRoot and image will run as root (pod: "no-root_default(${uid})", container: main)`,
    });
    await world.deletePod("no-root");
  });

  it("can write its volumes, but not a read-only root", async () => {
    const text = "touch /x /tmp/x /etc/x 2>&1 | grep -c 'Read-only'; echo v >/tmp/own/x && cat /tmp/own/x";
    const said = await outputOf("read-only", text, {
      container: {
        securityContext: { readOnlyRootFilesystem: true },
        volumeMounts: [{ name: "own", mountPath: "/tmp/own" }],
      },
      spec: { volumes: [{ name: "own", emptyDir: {} }] },
    });
    expect(said).toBe("3\nv\n");
  });

  it("is limited to the size of a bounded volume, and leaves no mount behind", async () => {
    const text =
      "head -c 3000000 /dev/zero >/data/a 2>/dev/null && echo fits || echo full; stat -f -c %T /data";
    const said = await outputOf("bounded", text, {
      container: { volumeMounts: [{ name: "data", mountPath: "/data" }] },
      spec: { volumes: [{ name: "data", emptyDir: { sizeLimit: "2Mi" } }] },
    });
    expect(said).toBe("full\ntmpfs\n");
    // A pod that is over is forgotten at once; its node cleans up after it.
    const mounts = (): string => readFileSync("/proc/self/mountinfo", "utf8");
    await expect.poll(mounts, PATIENCE).not.toContain(`${world.dataDir}/pods/`);
  });

  it("sees a ConfigMap change in its volume, but not by subPath, and waits for an absent one", async () => {
    const mounts = [
      { name: "conf", mountPath: "/conf" },
      { name: "conf", mountPath: "/one", subPath: "k" },
    ];
    const text = "while ! grep -q new /conf/k; do sleep 0.05; done; cat /one; exec sleep 3600";
    await world.createPod("live", [{ ...script(text), volumeMounts: mounts }], {
      volumes: [{ name: "conf", configMap: { name: "live" } }],
    });
    await expect
      .poll(() => world.events("live"), PATIENCE)
      .toContain('FailedMount: MountVolume.SetUp failed for volume "conf" : configmap "live" not found');
    expect(statusOf(world.pod("live"))?.state?.waiting?.reason).toBe("ContainerCreating");
    const metadata = { name: "live", namespace: "default" };
    await world.client.create(CONFIG_MAPS, { metadata, data: { k: "old\n" } });
    const pod = await world.untilReady("live");
    await world.client.mergePatch(CONFIG_MAPS, objectKey("default", "live"), { data: { k: "new\n" } });
    await expect.poll(() => logOf(pod), PATIENCE).toBe("old\n");
    await world.deletePod("live");
  });

  it("has the Services of its namespace, unless enableServiceLinks is false", async () => {
    await world.client.create(SERVICES, {
      metadata: { name: "my-db", namespace: "default" },
      spec: { clusterIP: "10.96.0.77", ports: [{ port: 5432, name: "sql" }] },
    });
    const text = "env | grep -c ^KUBERNETES_SERVICE_HOST=; env | grep ^MY_DB_ | sort";
    const said = await outputOf("links", text);
    expect(said.split("\n").slice(0, 4)).toEqual([
      "1",
      "MY_DB_PORT=tcp://10.96.0.77:5432",
      "MY_DB_PORT_5432_TCP=tcp://10.96.0.77:5432",
      "MY_DB_PORT_5432_TCP_ADDR=10.96.0.77",
    ]);
    expect(await outputOf("no-links", text, { spec: { enableServiceLinks: false } })).toBe("1\n");
  });

  it("has its FQDN as its host name if it requests that", async () => {
    const spec = { hostname: "me", subdomain: "group", setHostnameAsFQDN: true };
    expect(await outputOf("fqdn", "hostname; hostname -f", { spec })).toBe(
      "me.group.default.svc.cluster.local\nme.group.default.svc.cluster.local\n",
    );
  });
});
