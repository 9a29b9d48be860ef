import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Container, ContainerStatus, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { ECHO, IDLE, isReady, NodeWorld, script } from "./node-world.ts";

const PATIENCE = { timeout: 20_000 };

describeOnKernel("the life of a pod", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const container = (pod: Pod | undefined, name = "main"): ContainerStatus | undefined =>
    [...(pod?.status?.initContainerStatuses ?? []), ...(pod?.status?.containerStatuses ?? [])].find(
      (it) => it.name === name,
    );
  const logOf = (pod: Pod | undefined, name = "main"): string =>
    pod === undefined ? "" : readFileSync(join(world.runFolder(pod, name), "log"), "utf8");
  const untilOver = (name: string) =>
    world.until(name, (it) => ["Succeeded", "Failed"].includes(it?.status?.phase ?? ""));
  const sidecar = (text: string, name: string): Container => ({
    ...script(text, name),
    restartPolicy: "Always",
  });
  const shared = { volumes: [{ name: "shared", emptyDir: {} }] };
  const mount = [{ name: "shared", mountPath: "/shared" }];

  it("starts sidecars before the init containers after them, and ends them last and in reverse, with the work done", async () => {
    const report = (name: string) =>
      `echo ${name} starts >>/shared/log; trap 'echo ${name} ends >>/shared/log; exit 0' TERM; touch /tmp/up; ` +
      "while :; do sleep 3600 & wait $!; done";
    const startupProbe = { exec: { command: ["test", "-e", "/tmp/up"] }, periodSeconds: 1 };
    const first = { ...sidecar(report("first"), "first"), volumeMounts: mount, startupProbe };
    const second = { ...sidecar(report("second"), "second"), volumeMounts: mount, startupProbe };
    const init = { ...script("echo init >>/shared/log", "init"), volumeMounts: mount };
    const reader = {
      ...sidecar("trap 'cat /shared/log; exit 0' TERM; while :; do sleep 3600 & wait $!; done", "reader"),
      volumeMounts: mount,
    };
    const main = { ...script("echo main >>/shared/log"), volumeMounts: mount };
    await world.createPod("sidecars", [main], {
      ...shared,
      initContainers: [reader, first, init, second],
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 30,
    });
    const pod = await untilOver("sidecars");
    expect(pod?.status?.phase).toBe("Succeeded");
    expect(logOf(pod, "reader").trim().split("\n")).toEqual([
      "first starts",
      "init",
      "second starts",
      "main",
      "second ends",
      "first ends",
    ]);
    await world.deletePod("sidecars");
  });

  it("waits with an event for an address that has been free for two minutes", async () => {
    const waited =
      "FailedCreatePodSandBox: Failed to create pod sandbox: no address of the node's pod CIDR 10.97.0.0/24 has been free for 2 minutes";
    let reported: readonly string[] = [];
    // A busy machine may start the node and the pod so late that the time is over.
    for (const leftMs of [4000, 30_000]) {
      if (reported.length > 0) break;
      await world.killNode();
      const freedMs = systemClock.now() - 120_000 + leftMs;
      const all = Array.from({ length: 254 }, (_, at) => [`10.97.0.${at + 1}`, freedMs]);
      writeFileSync(join(world.dataDir, "free-addresses.json"), JSON.stringify(all));
      await world.startNode();
      await world.createPod("addressless", [script(IDLE)]);
      const { status } = await world.untilReady("addressless");
      expect(status?.podIP).toMatch(/^10\.97\.0\./);
      reported = (await world.events("addressless")).filter((it) => it.startsWith("Failed"));
      await world.deletePod("addressless");
    }
    expect(reported).toEqual([waited]);
  });

  it("counts a sidecar's readiness as the pod's", async () => {
    await world.createPod("proxied", [script(IDLE)], {
      initContainers: [{ ...ECHO, restartPolicy: "Always" }],
    });
    const { status } = await world.untilReady("proxied");
    await world.run("curl", "-s", "-m", "5", "-X", "PUT", `http://${status?.podIP}:8080/readyz/off`);
    const after = await world.until("proxied", (it) => it !== undefined && !isReady(it));
    expect(after?.status?.conditions?.find((it) => it.type === "Ready")?.message).toBe(
      "containers with unready status: [echo]",
    );
    await world.deletePod("proxied");
  });

  it("restarts by the rules of a container, also in a pod that is never restarted", async () => {
    const picky: Container = {
      ...script("n=$(cat /shared/n 2>/dev/null || echo 42); echo 7 >/shared/n; exit $n"),
      volumeMounts: mount,
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "In", values: [42] } }],
    };
    await world.createPod("picky", [picky], { ...shared, restartPolicy: "Never" });
    const pod = await untilOver("picky");
    expect(pod?.status?.phase).toBe("Failed");
    expect(container(pod)).toMatchObject({
      restartCount: 1,
      state: { terminated: { exitCode: 7 } },
      lastState: { terminated: { exitCode: 42 } },
    });
    await world.deletePod("picky");
  });

  it("restarts all containers, the init containers first, if a rule requires it", async () => {
    const init = { ...script("echo init >>/shared/log", "init"), volumeMounts: mount };
    const main: Container = {
      ...script("[ $(wc -l </shared/log) -ge 2 ] || exit 3; echo main >>/shared/log; cat /shared/log"),
      volumeMounts: mount,
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [3] } }],
    };
    await world.createPod("again", [main], { ...shared, initContainers: [init], restartPolicy: "Never" });
    const pod = await untilOver("again");
    expect(pod?.status?.phase).toBe("Succeeded");
    expect([container(pod, "init")?.restartCount, container(pod)?.restartCount]).toEqual([1, 1]);
    expect(pod?.status?.conditions?.find((it) => it.type === "AllContainersRestarting")?.status).toBe(
      "False",
    );
    await world.deletePod("again");
  });

  it("gives the addresses of a pod back that is over, and keeps what it said", async () => {
    await world.createPod("over", [script("echo done")], { restartPolicy: "Never" });
    const isReleased = (it: Pod | undefined): boolean =>
      it?.status?.conditions?.find(({ type }) => type === "PodReadyToStartContainers")?.status === "False" &&
      it.status.phase === "Succeeded";
    const pod = await world.until("over", isReleased);
    const links = (): Promise<string> => world.run("ip", "-o", "link", "show", "type", "veth");
    await expect.poll(links, PATIENCE).not.toContain("pod");
    await world.killNode();
    await world.startNode();
    expect(logOf(world.pod("over"))).toBe("done\n");
    expect(world.pod("over")?.status).toEqual(pod?.status);
    await world.deletePod("over");
    await expect
      .poll(() => existsSync(world.runFolder(pod ?? { metadata: { name: "" } }, "main")), PATIENCE)
      .toBe(false);
  });

  it("ends a pod that has been active for too long", async () => {
    await world.createPod("late", [script(IDLE)], { activeDeadlineSeconds: 1 });
    const pod = await untilOver("late");
    expect(pod?.status).toMatchObject({
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "Pod was active on the node longer than the specified deadline",
    });
    expect(container(pod)?.state?.terminated?.exitCode).toBe(0);
    await world.deletePod("late");
  });

  it("keeps the termination message of a program, or the end of its log if it fails without one", async () => {
    const spoken = script("echo noise; printf 'all gone' >/dev/termination-log; exit 3", "spoken");
    const silent: Container = {
      ...script("echo one; echo two; exit 4", "silent"),
      terminationMessagePolicy: "FallbackToLogsOnError",
    };
    const quiet: Container = {
      ...script("echo one; exit 0", "quiet"),
      terminationMessagePolicy: "FallbackToLogsOnError",
    };
    await world.createPod("spoken", [spoken, silent, quiet], { restartPolicy: "Never" });
    const pod = await untilOver("spoken");
    const said = (name: string) => container(pod, name)?.state?.terminated?.message;
    expect([said("spoken"), said("silent"), said("quiet")]).toEqual(["all gone", "one\ntwo\n", undefined]);
    await world.deletePod("spoken");
  });

  it("reports its actions in the kubelet's words", async () => {
    await world.createPod("told", [{ ...script("exit 1"), image: "busybox:1.37" }]);
    await world.until("told", (it) => container(it)?.state?.waiting?.reason === "CrashLoopBackOff");
    const uid = world.pod("told")?.metadata.uid;
    await expect
      .poll(() => world.events("told"), PATIENCE)
      .toEqual(
        expect.arrayContaining([
          'Pulled: Container image "busybox:1.37" already present on machine and can be accessed by the pod',
          "Created: Container created",
          "Started: Container started",
          `BackOff: Back-off restarting failed container main in pod told_default(${uid})`,
        ]),
      );
    await world.deletePod("told");
  });

  it("reports why an image is missing, and that it backs off", async () => {
    const image = "example.org/none:v1";
    await world.createPod("no-image", [
      { name: "pull", image },
      { name: "never", image, imagePullPolicy: "Never" },
      { name: "wrong", image: "No Such Name" },
    ]);
    const pod = await world.until(
      "no-image",
      (it) => container(it, "wrong")?.state?.waiting?.message !== undefined,
    );
    expect(container(pod, "never")?.state?.waiting).toEqual({
      reason: "ErrImageNeverPull",
      message: `Container image "${image}" is not present with pull policy of Never`,
    });
    expect(container(pod, "wrong")?.state?.waiting?.reason).toBe("InvalidImageName");
    await expect
      .poll(() => world.events("no-image"), PATIENCE)
      .toEqual(
        expect.arrayContaining([
          `Pulling: Pulling image "${image}"`,
          "Failed: Error: ErrImagePull",
          `ErrImageNeverPull: Container image "${image}" is not present with pull policy of Never`,
        ]),
      );
    await world.deletePod("no-image");
  });

  it("restarts a container whose postStart hook fails", async () => {
    const hooked: Container = {
      ...script(IDLE),
      lifecycle: { postStart: { exec: { command: ["sh", "-c", "exit 1"] } } },
    };
    await world.createPod("hook-fails", [hooked]);
    await world.until("hook-fails", (it) => (container(it)?.restartCount ?? 0) > 0);
    await expect
      .poll(() => world.events("hook-fails"), PATIENCE)
      .toEqual(
        expect.arrayContaining(["FailedPostStartHook: PostStartHook failed", "Killing: FailedPostStartHook"]),
      );
    await world.deletePod("hook-fails");
  });

  it("rejects a pod that requests more than the node has", async () => {
    const greedy: Container = { ...script(IDLE), resources: { requests: { cpu: "4096" } } };
    await world.createPod("greedy", [greedy]);
    const pod = await untilOver("greedy");
    expect(pod?.status).toMatchObject({ phase: "Failed", reason: "OutOfcpu" });
    expect(pod?.status?.message).toMatch(
      /^Pod was rejected: Node didn't have enough resource: cpu, requested: 4096000, used: \d+, capacity: \d+$/,
    );
    await world.deletePod("greedy");
  });

  it("rejects an unsafe sysctl, and sets a safe one", async () => {
    const sysctls = (name: string, value: string) => ({ securityContext: { sysctls: [{ name, value }] } });
    await world.createPod("unsafe", [script(IDLE)], sysctls("kernel.msgmax", "65536"));
    const unsafe = await untilOver("unsafe");
    expect(unsafe?.status?.reason).toBe("SysctlForbidden");
    await world.createPod("safe", [script("cat /proc/sys/net/ipv4/tcp_fin_timeout")], {
      ...sysctls("net.ipv4.tcp_fin_timeout", "17"),
      restartPolicy: "Never",
    });
    expect(logOf(await untilOver("safe"))).toBe("17\n");
    await Promise.all([world.deletePod("unsafe"), world.deletePod("safe")]);
  });

  it.each([
    ["hostPID", { hostPID: true }],
    ["shareProcessNamespace", { shareProcessNamespace: true }],
  ])("reports that it cannot create the sandbox of a pod with %s", async (what, spec) => {
    const name = what.toLowerCase();
    await world.createPod(name, [script(IDLE)], spec);
    await expect
      .poll(() => world.events(name), PATIENCE)
      .toContain(`FailedCreatePodSandBox: Failed to create pod sandbox: nodes of the lab have no ${what}`);
    expect(world.pod(name)?.status?.phase).toBe("Pending");
    await world.deletePod(name);
  });
});
