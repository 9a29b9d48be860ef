import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nodeDaemonSet } from "@fairlead/fleet/domain/node-daemon-set.ts";
import { exec } from "@fairlead/base/exec.ts";
import { CGROUPS, useCgroups } from "../support/containerd.ts";
import { checkout } from "../support/lab-fixture.ts";

/**
 * A container as the kubelet and containerd make one of the DaemonSet of node agents: its mounts with their propagation, privileged, with the
 * PIDs of the node. What is the node's is in a folder of the test.
 */

const RUNC = join(checkout, "node_modules/.tools/containerd/usr/sbin/runc");
/** A container gets no capability that this process lacks. */
const CAPABILITIES = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_KILL",
  "CAP_NET_ADMIN",
  "CAP_NET_RAW",
  "CAP_SYS_ADMIN",
  "CAP_SYS_CHROOT",
  "CAP_SYS_PTRACE",
];
const OPTIONS: Readonly<Record<string, string>> = {
  None: "rprivate",
  HostToContainer: "rslave",
  Bidirectional: "rshared",
};

export interface Container extends AsyncDisposable {
  /** Where a path of the container is on the node. */
  onNode(path: string): string;
  /** Ends it as a kubelet does: all processes in its cgroup are killed, and nothing of it stays. */
  end(): Promise<void>;
}

/** Starts `script` by a shell in a container with this root file system. */
export async function runContainer(folder: string, rootfs: string, script: string): Promise<Container> {
  await using stack = new AsyncDisposableStack();
  stack.use(await useCgroups(AbortSignal.timeout(30_000)));
  const node = join(folder, "node");
  const cgroups = join(node, "sys/fs/cgroup");
  mkdirSync(cgroups, { recursive: true });
  // As systemd has it: mounts below are seen by all that share it.
  await exec("mount", ["--bind", node, node]);
  stack.defer(async () => {
    await exec("umount", ["--recursive", "--lazy", node]);
  });
  await exec("mount", ["--make-rshared", node]);
  await exec("mount", ["--bind", CGROUPS, cgroups]);
  writeFileSync(join(folder, "config.json"), JSON.stringify(specOf(node, rootfs, script)));
  const runc = (...args: readonly string[]) =>
    exec(RUNC, ["--root", join(folder, "runc"), ...args], { cwd: folder, allowFailure: true });
  // What it prints would keep this waiting for as long as it runs.
  const started = await exec(
    "sh",
    ["-c", '"$0" --root "$1" run --detach one >"$2" 2>&1', RUNC, join(folder, "runc"), join(folder, "log")],
    {
      cwd: folder,
      allowFailure: true,
    },
  );
  if (started.exitCode !== 0) throw new Error(readFileSync(join(folder, "log"), "utf8"));
  const end = async (): Promise<void> => {
    await runc("kill", "--all", "one", "KILL");
    await runc("delete", "--force", "one");
    rmSync(rootfs, { recursive: true, force: true });
  };
  stack.defer(end);
  const kept = stack.move();
  return {
    onNode: (path) => join(node, path),
    end,
    [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose](),
  };
}

function specOf(node: string, rootfs: string, script: string): object {
  const { spec } = nodeDaemonSet({ image: "", isRemoving: false });
  const pod = spec?.template?.spec;
  const mounts = (pod?.containers?.[0]?.volumeMounts ?? []).map((it) => {
    const path = pod?.volumes?.find((volume) => volume.name === it.name)?.hostPath?.path ?? "";
    mkdirSync(join(node, path), { recursive: true });
    const options = [
      "rbind",
      it.readOnly === true ? "ro" : "rw",
      OPTIONS[it.mountPropagation ?? "None"] ?? "",
    ];
    return { destination: it.mountPath, type: "bind", source: join(node, path), options };
  });
  const capabilities = { bounding: CAPABILITIES, effective: CAPABILITIES, permitted: CAPABILITIES };
  return {
    ociVersion: "1.0.2",
    root: { path: rootfs, readonly: true },
    process: {
      user: { uid: 0, gid: 0 },
      args: ["sh", "-ec", script],
      env: ["PATH=/usr/local/bin:/usr/bin"],
      cwd: "/",
      capabilities,
    },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["mode=755"] },
      { destination: "/sys", type: "sysfs", source: "sysfs" },
      ...mounts,
    ],
    linux: {
      // The network and the PIDs of the node.
      namespaces: [{ type: "mount" }, { type: "ipc" }, { type: "uts" }],
      cgroupsPath: "/fairlead-test-container",
      // As containerd does for a volume that is Bidirectional.
      rootfsPropagation: "rshared",
      resources: { devices: [{ allow: true, access: "rwm" }] },
      devices: [{ path: "/dev/net/tun", type: "c", major: 10, minor: 200, fileMode: 438 }],
    },
  };
}
