import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ContainerStatus, CONFIG_MAPS, type Pod, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { exec } from "@fairlead/base/exec.ts";
import { readShimReport } from "@fairlead/lab/node/container/folder.ts";
import { isRunning } from "@fairlead/lab/node/container/process.ts";
import { createCriClient } from "@fairlead/os/cri/client.ts";
import { readNetwork } from "@fairlead/os/iproute/driver.ts";
import type { OpenNetns } from "@fairlead/os/netns/open.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { ECHO, IDLE, isReady, NodeWorld, script } from "./node-world.ts";

describeOnKernel("a node of the lab", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const container = (pod: Pod | undefined, name: string): ContainerStatus | undefined =>
    [...(pod?.status?.initContainerStatuses ?? []), ...(pod?.status?.containerStatuses ?? [])].find(
      (it) => it.name === name,
    );
  const logOf = (pod: Pod, name: string): string =>
    readFileSync(join(world.runFolder(pod, name), "log"), "utf8");

  it("runs a pod that becomes ready and answers on an address of each family", async () => {
    await world.createPod("answers", [ECHO]);
    const pod = await world.untilReady("answers");
    const [v4, v6] = (pod.status?.podIPs ?? []).map((it) => it.ip);
    expect(pod.status).toMatchObject({ phase: "Running", podIP: v4, hostIP: world.nodeIP });
    const overV4: unknown = JSON.parse(
      await world.run("curl", "-s", "-m", "5", `http://${v4}:8080/?format=json`),
    );
    expect(overV4).toMatchObject({ pod: "answers", serverAddress: v4, clientAddress: world.nodeIP });
    const overV6: unknown = JSON.parse(
      await world.run("curl", "-s", "-m", "5", `http://[${v6}]:8080/?format=json`),
    );
    expect(overV6).toMatchObject({ pod: "answers", serverAddress: v6 });
    await world.deletePod("answers");
  });

  it("keeps pods and their readiness when the kubelet is killed, and the next one takes them over as they are", async () => {
    await world.createPod("outlives", [ECHO]);
    const before = await world.untilReady("outlives");
    const lost: Pod[] = [];
    using _watch = world.pods.subscribe(({ after }) => {
      if (after?.metadata.name === "outlives" && !isReady(after)) lost.push(after);
    });
    await world.killNode();
    const url = `http://${before.status?.podIP}:8080/`;
    expect(await world.run("curl", "-s", "-m", "5", url)).toContain(
      "default/outlives".replace("default", ""),
    );
    await world.startNode();
    await world.createPod("after-restart", [script(IDLE)]);
    const other = await world.untilReady("after-restart");
    expect(other.status?.podIP).not.toBe(before.status?.podIP);
    expect(container(world.pod("outlives"), "echo")).toMatchObject({
      containerID: container(before, "echo")?.containerID,
      restartCount: 0,
      ready: true,
    });
    expect(lost).toEqual([]);
    await world.deletePod("after-restart");
    await world.deletePod("outlives");
  });

  it("shows other programs the network namespace of a pod by the CRI, also after a restart", async () => {
    await world.createPod("found", [script(IDLE)]);
    const pod = await world.untilReady("found");
    const signal = AbortSignal.timeout(20_000);
    await using runtime = createCriClient({ socket: join(world.dataDir, "cri.sock") });
    const open = async (): Promise<OpenNetns | undefined> => {
      const sandbox = (await runtime.sandboxes(signal)).find((it) => it.podUid === pod.metadata.uid);
      expect(sandbox).toMatchObject({ podNamespace: "default", podName: "found", hostNetwork: false });
      return sandbox && runtime.openNetns(sandbox, signal);
    };
    using netns = await open();
    const { addresses } = await readNetwork(["eth0"], { netns: netns?.path ?? "", signal });
    expect(addresses).toContainEqual({ device: "eth0", address: `${pod.status?.podIP}/32` });
    await world.killNode();
    await world.startNode();
    await expect
      .poll(async () => (await runtime.sandboxes(signal).catch(() => [])).length)
      .toBeGreaterThan(0);
    using again = await open();
    expect(again?.inode).toBe(netns?.inode);
    await world.deletePod("found");
  });

  it("reports how a container ended while no kubelet ran", async () => {
    await world.createPod("ended", [script("trap 'exit 42' USR1; while :; do sleep 3600 & wait $!; done")], {
      restartPolicy: "Never",
    });
    const pod = await world.untilReady("ended");
    await world.killNode();
    const folder = world.runFolder(pod, "main");
    process.kill(readShimReport(folder).process?.pid ?? 0, "SIGUSR1");
    await world.startNode();
    const after = await world.until("ended", (it) => it?.status?.phase === "Failed");
    expect(container(after, "main")?.state?.terminated).toMatchObject({ exitCode: 42, reason: "Error" });
    await world.deletePod("ended");
  });

  it("restarts a killed container, and reports how it ended", async () => {
    await world.createPod("killed", [script(IDLE)]);
    const pod = await world.untilReady("killed");
    process.kill(readShimReport(world.runFolder(pod, "main")).process?.pid ?? 0, "SIGKILL");
    const after = await world.until(
      "killed",
      (it) => container(it, "main")?.restartCount === 1 && isReady(it),
    );
    expect(container(after, "main")?.lastState?.terminated).toMatchObject({ exitCode: 137, reason: "Error" });
    await world.deletePod("killed");
  });

  it("restarts a container whose exit code is lost, when its holder is killed too", async () => {
    await world.createPod("unheld", [script(IDLE)]);
    const pod = await world.untilReady("unheld");
    const report = readShimReport(world.runFolder(pod, "main"));
    process.kill(report.holder?.pid ?? 0, "SIGKILL");
    const after = await world.until(
      "unheld",
      (it) => container(it, "main")?.restartCount === 1 && isReady(it),
    );
    expect(container(after, "main")?.lastState?.terminated?.reason).toBe("ContainerStatusUnknown");
    expect(report.process !== undefined && isRunning(report.process)).toBe(false);
    await world.deletePod("unheld");
  });

  it("backs off between restarts of a container that keeps failing", async () => {
    await world.createPod("fails", [script("echo failing; exit 7")]);
    const pod = await world.until(
      "fails",
      (it) => container(it, "main")?.state?.waiting?.reason === "CrashLoopBackOff",
    );
    expect(container(pod, "main")?.lastState?.terminated).toMatchObject({ exitCode: 7, reason: "Error" });
    expect(container(pod, "main")?.state?.waiting?.message).toContain(
      "back-off 10s restarting failed container=main",
    );
    await world.deletePod("fails");
  });

  it("stops a deleted pod's programs, kills them after the grace period, and leaves nothing behind", async () => {
    await world.createPod("told", [
      script("trap 'echo told; exit 0' TERM; while :; do sleep 3600 & wait $!; done"),
    ]);
    await world.createPod("deaf", [script("trap '' TERM; while :; do sleep 3600; done")]);
    const [reported, deaf] = [await world.untilReady("told"), await world.untilReady("deaf")];
    const processes = [reported, deaf].flatMap(
      (it) => readShimReport(world.runFolder(it, "main")).process ?? [],
    );
    await Promise.all([world.deletePod("told"), world.deletePod("deaf")]);
    expect(processes.map((it) => isRunning(it))).toEqual([false, false]);
    expect(world.processes()).toEqual([]);
    expect(readdirSync(join(world.dataDir, "pods"))).toEqual([]);
    expect(await world.run("ip", "-o", "link", "show", "type", "veth")).not.toContain("pod");
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(world.dataDir);
  });

  it("runs a preStop hook before it stops the program", async () => {
    const main = script(
      "trap 'test -e /tmp/hooked; exit $?' TERM; touch /tmp/trapped; while :; do sleep 3600 & wait $!; done",
    );
    // A first process without a handler takes no notice of SIGTERM (pid_namespaces(7)).
    const hook = "until test -e /tmp/trapped; do sleep 0.05; done; touch /tmp/hooked";
    await world.createPod(
      "hooked",
      [{ ...main, lifecycle: { preStop: { exec: { command: ["sh", "-c", hook] } } } }],
      { terminationGracePeriodSeconds: 20 },
    );
    await world.untilReady("hooked");
    const ended = world.until("hooked", (it) => container(it, "main")?.state?.terminated !== undefined);
    await world.deletePod("hooked");
    expect(container(await ended, "main")?.state?.terminated?.exitCode).toBe(0);
  });

  it("removes a pod that was deleted by force while no kubelet ran", async () => {
    await world.createPod("forced", [script(IDLE)]);
    await world.untilReady("forced");
    await world.killNode();
    await world.deletePod("forced", 0);
    await world.startNode();
    await world.createPod("next", [script(IDLE)]);
    await world.untilReady("next");
    const isAlone = (): boolean => readdirSync(join(world.dataDir, "pods")).length === 1;
    await expect.poll(isAlone, { timeout: 20_000 }).toBe(true);
    const own = world.pod("next")?.metadata.uid ?? "";
    expect(world.processes().filter((it) => !it.line.includes(own))).toEqual([]);
    await world.deletePod("next");
  });

  it("gives a container its environment and nothing else, and its files", async () => {
    await world.client.create(CONFIG_MAPS, {
      metadata: { name: "settings", namespace: "default" },
      data: { colour: "blue", "app.conf": "a=1\n" },
    });
    await world.client.create(SECRETS, {
      metadata: { name: "secrets", namespace: "default" },
      stringData: { password: "two\nlines" },
    });
    await world.createPod(
      "configured",
      [
        {
          ...script(
            'env -0 | sort -z | tr "\\0" "|"; echo; cat /etc/config/app.conf /only/colour; cat /etc/resolv.conf; stat -L -c %a /etc/config/app.conf',
          ),
          env: [
            { name: "COLOUR", valueFrom: { configMapKeyRef: { name: "settings", key: "colour" } } },
            { name: "PASSWORD", valueFrom: { secretKeyRef: { name: "secrets", key: "password" } } },
            { name: "IPS", valueFrom: { fieldRef: { fieldPath: "status.podIPs" } } },
            { name: "GREETING", value: "$(COLOUR) $$(COLOUR) $(UNSET)" },
          ],
          volumeMounts: [
            { name: "config", mountPath: "/etc/config" },
            { name: "config", mountPath: "/only/colour", subPath: "colour" },
          ],
        },
      ],
      {
        volumes: [{ name: "config", configMap: { name: "settings", defaultMode: 0o440 } }],
        restartPolicy: "Never",
      },
    );
    const pod = await world.until("configured", (it) => it?.status?.phase === "Succeeded");
    const [env = "", ...rest] = logOf(pod!, "main").split("|\n");
    const ips = pod?.status?.podIPs?.map((it) => it.ip).join(",");
    const own = env.split("|").filter((it) => !/^(KUBERNETES_|PWD=|_=|SHLVL=|OLDPWD=)/.test(it));
    expect(own).toEqual([
      "COLOUR=blue",
      "GREETING=blue $(COLOUR) $(UNSET)",
      "HOME=/root",
      "HOSTNAME=configured",
      `IPS=${ips}`,
      "PASSWORD=two\nlines",
      "PATH=/run/fairlead/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ]);
    expect(rest.join("")).toBe(
      "a=1\nbluesearch default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n440\n",
    );
    await world.deletePod("configured");
  });

  it("delays a container whose ConfigMap is missing, and starts it once the ConfigMap exists", async () => {
    await world.createPod("waits", [{ ...script(IDLE), envFrom: [{ configMapRef: { name: "late" } }] }]);
    const waiting = await world.until(
      "waits",
      (it) => container(it, "main")?.state?.waiting?.message !== undefined,
    );
    expect(container(waiting, "main")?.state?.waiting).toEqual({
      reason: "CreateContainerConfigError",
      message: 'configmap "late" not found',
    });
    await world.client.create(CONFIG_MAPS, {
      metadata: { name: "late", namespace: "default" },
      data: { A: "b" },
    });
    await world.untilReady("waits");
    await world.deletePod("waits");
  });

  it("issues a token of the pod's service account, by which the API server identifies the pod", async () => {
    const folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    await world.createPod(
      "token",
      [script(`cat ${folder}/token; echo; cat ${folder}/namespace; echo; head -c 27 ${folder}/ca.crt`)],
      { restartPolicy: "Never" },
    );
    const pod = await world.until("token", (it) => it?.status?.phase === "Succeeded");
    const [token = "", namespace, ca] = logOf(pod!, "main").split("\n");
    const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
    expect(claims).toMatchObject({
      sub: "system:serviceaccount:default:default",
      "kubernetes.io": { pod: { name: "token" } },
    });
    expect([namespace, ca]).toEqual(["default", "-----BEGIN CERTIFICATE-----"]);
    await world.deletePod("token");
  });

  it("runs init containers one after another before the others, and starts none of these when one fails", async () => {
    const volumeMounts = [{ name: "shared", mountPath: "/shared" }];
    const volumes = [{ name: "shared", emptyDir: {} }];
    const first = { ...script("echo 1 >> /shared/order", "first"), volumeMounts };
    const second = { ...script("echo 2 >> /shared/order", "second"), volumeMounts };
    const main = { ...script("cat /shared/order"), volumeMounts };
    await world.createPod("init", [main], {
      initContainers: [first, second],
      volumes,
      restartPolicy: "Never",
    });
    const pod = await world.until("init", (it) => it?.status?.phase === "Succeeded");
    expect(logOf(pod!, "main")).toBe("1\n2\n");
    const wrong = script("exit 3", "wrong");
    await world.createPod("init-fails", [main], { initContainers: [wrong], volumes, restartPolicy: "Never" });
    const failed = await world.until("init-fails", (it) => it?.status?.phase === "Failed");
    expect(container(failed, "main")?.state?.waiting?.reason).toBe("PodInitializing");
    await Promise.all([world.deletePod("init"), world.deletePod("init-fails")]);
  });

  it("follows what a readiness probe finds", async () => {
    await world.createPod("switched", [ECHO]);
    const { status } = await world.untilReady("switched");
    const at = `http://${status?.podIP}:8080/readyz`;
    await world.run("curl", "-s", "-m", "5", "-X", "PUT", `${at}/off`);
    await world.until("switched", (it) => it !== undefined && !isReady(it));
    await world.run("curl", "-s", "-m", "5", "-X", "PUT", `${at}/on`);
    await world.untilReady("switched");
    await world.deletePod("switched");
  });

  it("probes by programs in the container and by connecting, too", async () => {
    const byProgram = {
      ...script(`sleep 0.2; touch /tmp/ready; ${IDLE}`),
      readinessProbe: { exec: { command: ["test", "-e", "/tmp/ready"] }, periodSeconds: 1 },
    };
    const byConnection = {
      ...ECHO,
      readinessProbe: { tcpSocket: { port: "web" }, periodSeconds: 1 },
      ports: [{ name: "web", containerPort: 8080 }],
    };
    await world.createPod("probed", [byProgram, byConnection]);
    await world.untilReady("probed");
    await world.deletePod("probed");
  });

  it("restarts a container whose liveness probe fails", async () => {
    const failing = {
      ...script(`touch /tmp/alive; ${IDLE}`),
      livenessProbe: {
        exec: { command: ["test", "-e", "/tmp/dead"] },
        periodSeconds: 1,
        failureThreshold: 1,
      },
    };
    await world.createPod("sick", [failing]);
    await world.until("sick", (it) => (container(it, "main")?.restartCount ?? 0) > 0);
    await world.deletePod("sick");
  });

  it("lists the catalogue for an image that is not in it", async () => {
    await world.createPod("unknown", [{ name: "main", image: "example.org/unheard-of:v1" }]);
    const pod = await world.until(
      "unknown",
      (it) => container(it, "main")?.state?.waiting?.message !== undefined,
    );
    expect(["ErrImagePull", "ImagePullBackOff"]).toContain(container(pod, "main")?.state?.waiting?.reason);
    const message = container(pod, "main")?.state?.waiting?.message;
    for (const it of ["fairlead.dev/echo, fairlead.dev/fairlead,", "e2e-test-images/agnhost,", "busybox"])
      expect(message).toContain(it);
    await world.deletePod("unknown");
  });

  it("rejects a hostPath volume with a reason", async () => {
    const mount = { ...script(IDLE), volumeMounts: [{ name: "etc", mountPath: "/machine" }] };
    await world.createPod("curious", [mount], { volumes: [{ name: "etc", hostPath: { path: "/etc" } }] });
    await expect
      .poll(() => world.events("curious"), { timeout: 20_000 })
      .toContainEqual(
        expect.stringMatching(
          /^FailedMount: MountVolume.SetUp failed for volume "etc" : hostPath is refused/,
        ),
      );
    await world.until(
      "curious",
      (it) => container(it, "main")?.state?.waiting?.reason === "ContainerCreating",
    );
    await world.deletePod("curious");
  });

  it("protects the machine's files from writes of containers", async () => {
    const name = `/etc/fairlead-test-${process.pid}`;
    await world.createPod(
      "writes",
      [
        script(
          `echo x > ${name} && rm /etc/hostname && cat ${name}; ls -A /root /home /tmp | grep -v : | sort -u`,
        ),
      ],
      { restartPolicy: "Never" },
    );
    const pod = await world.until("writes", (it) => it?.status?.phase === "Succeeded");
    expect(logOf(pod!, "main").trim()).toBe("x");
    expect(existsSync(name)).toBe(false);
    expect((await exec("cat", ["/etc/hostname"])).stdout).not.toBe("");
    await world.deletePod("writes");
  });
});
