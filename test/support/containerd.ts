import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { arch } from "node:process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { exec, start } from "@fairlead/base/exec.ts";
import { createCriClient } from "@fairlead/os/cri/client.ts";
import { connectService } from "@fairlead/os/cri/connection.ts";
import type { RuntimeUnderTest } from "@fairlead/os/cri/contract.ts";
import { defineService } from "@fairlead/os/cri/proto.ts";
import { MESSAGES, METHODS, NAMESPACE_OF_NODE, RUNTIME_SERVICE } from "@fairlead/os/cri/service.ts";
import { until } from "./waiting.ts";
import { devicesIn } from "./netns-fixture.ts";
import { makePauseImage, PAUSE_IMAGE } from "./pause-image.ts";

/** Debian's containerd, runc and CNI plugins, as the set-up unpacked them. */
const tools = fileURLToPath(new URL("../../node_modules/.tools/containerd/", import.meta.url));

/** Why no containerd can be started here, or undefined if it can. */
export const cannotUseContainerd: string | undefined =
  arch !== "x64"
    ? "the test's image is for x86-64"
    : existsSync(join(tools, "usr/bin/containerd"))
      ? undefined
      : "containerd is not unpacked in node_modules/.tools; run node scripts/setup.mjs test";

/** What makes and ends sandboxes: the kubelet's part of the CRI. */
const Sandboxes = defineService(RUNTIME_SERVICE, {
  messages: {
    ...MESSAGES,
    LinuxSandboxSecurityContext: { namespaceOptions: [1, "NamespaceOption"] },
    LinuxPodSandboxConfig: {
      cgroupParent: [1, "string"],
      securityContext: [2, "LinuxSandboxSecurityContext"],
    },
    PodSandboxConfig: {
      metadata: [1, "PodSandboxMetadata"],
      logDirectory: [3, "string"],
      linux: [8, "LinuxPodSandboxConfig"],
    },
    RunPodSandboxRequest: { config: [1, "PodSandboxConfig"] },
    RunPodSandboxResponse: { podSandboxId: [1, "string"] },
    PodSandboxRequest: { podSandboxId: [1, "string"] },
    Nothing: {},
  },
  methods: {
    ...METHODS,
    RunPodSandbox: ["RunPodSandboxRequest", "RunPodSandboxResponse"],
    StopPodSandbox: ["PodSandboxRequest", "Nothing"],
    RemovePodSandbox: ["PodSandboxRequest", "Nothing"],
  },
});

/** A containerd with everything that it writes in a folder below `/run`, which the test has for itself. */
export async function startContainerd(signal: AbortSignal): Promise<RuntimeUnderTest> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync("/run/containerd-test-");
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  // Programs write there whatever their configuration says.
  const others = ["/var/lib/cni", "/run/containerd"].filter((it) => !existsSync(it));
  stack.defer(() => others.forEach((it) => rmSync(it, { recursive: true, force: true })));
  stack.use(await useCgroups(signal));
  const socket = join(folder, "containerd.sock");
  mkdirSync(join(folder, "cni"));
  writeFileSync(join(folder, "cni", "10-test.conflist"), JSON.stringify(networkOf(folder)));
  writeFileSync(join(folder, "config.toml"), configOf(folder));
  const image = await makePauseImage(join(folder, "image"), signal);

  const path = `${join(tools, "usr/bin")}:${join(tools, "usr/sbin")}:/usr/sbin:/usr/bin:/sbin:/bin`;
  const log = openSync(join(folder, "log"), "w");
  const daemon = start(join(tools, "usr/bin/containerd"), ["--config", join(folder, "config.toml")], {
    env: { PATH: path },
    stdio: ["ignore", log, log],
  });
  stack.defer(async () => {
    daemon.kill("SIGTERM");
    if (daemon.exitCode === null) await once(daemon, "exit");
  });

  const runtime = stack.use(createCriClient({ socket, timeoutMs: 20_000 }));
  await until(
    "containerd serves the CRI",
    () => runtime.version(signal),
    () => true,
  );
  const ctr = [
    "--address",
    socket,
    "--namespace",
    "k8s.io",
    "images",
    "import",
    "--snapshotter",
    "native",
    image,
  ];
  await exec(join(tools, "usr/bin/ctr"), ctr, { signal });

  const { client: kubelet } = stack.use(connectService(Sandboxes, socket));
  const sandboxes = new Map<string, string>();
  const end = async (uid: string): Promise<void> => {
    const podSandboxId = sandboxes.get(uid) ?? "";
    await kubelet.stopPodSandbox({ podSandboxId }, { signal });
    await kubelet.removePodSandbox({ podSandboxId }, { signal });
    sandboxes.delete(uid);
  };
  stack.defer(async () => {
    for (const uid of sandboxes.keys()) await end(uid);
  });

  const kept = stack.move();
  return {
    runtime,
    name: "containerd",
    run: async ({ uid, namespace, name, hostNetwork = false }) => {
      const network = hostNetwork ? NAMESPACE_OF_NODE : 0;
      const config = {
        metadata: { uid, namespace, name },
        logDirectory: join(folder, "logs"),
        linux: { securityContext: { namespaceOptions: { network } } },
      };
      const { podSandboxId } = await kubelet.runPodSandbox({ config }, { signal });
      sandboxes.set(uid, podSandboxId);
    },
    end,
    devices: (netns) => devicesIn(netns),
    [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose](),
  };
}

export const CGROUPS = "/sys/fs/cgroup";
/** SYSFS_MAGIC of linux/magic.h. */
const SYSFS = 0x6265_6572;

/** Mounts cgroups, which runc asks for. A file of tests may have a /sys of its own, in which there are none. */
export async function useCgroups(signal: AbortSignal): Promise<AsyncDisposable> {
  const isBare = statfsSync(CGROUPS).type === SYSFS;
  if (isBare) await exec("mount", ["-t", "cgroup2", "cgroup2", CGROUPS], { signal });
  return {
    async [Symbol.asyncDispose]() {
      if (isBare) await exec("umount", [CGROUPS], { signal });
    },
  };
}

/** Without a bridge: not every kernel has it. */
function networkOf(folder: string): object {
  const ranges = [[{ subnet: "10.88.0.0/24" }]];
  return {
    cniVersion: "0.4.0",
    name: "test",
    plugins: [{ type: "ptp", ipam: { type: "host-local", dataDir: join(folder, "addresses"), ranges } }],
  };
}

/** Namespaces, images and state below `folder`. Snapshots are copies: an overlay needs a file system that allows it. */
function configOf(folder: string): string {
  return `
version = 2
root = "${folder}/root"
state = "${folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "${folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "${PAUSE_IMAGE}"
disable_apparmor = true
disable_cgroup = true
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "${tools}usr/lib/cni"
conf_dir = "${folder}/cni"
`;
}
