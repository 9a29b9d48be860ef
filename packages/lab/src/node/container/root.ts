/** What a container's root is made of: which file systems and folders are mounted where. Pure. */

export interface BindMount {
  /** On the machine. */
  readonly source: string;
  /** In the container; links in it are followed inside the container. */
  readonly target: string;
  readonly readOnly: boolean;
  readonly isFile?: boolean;
  /** Not the whole source is mounted, but what this names in it. */
  readonly subPath?: SubPath;
}

export interface SubPath {
  readonly path: string;
  /** Whether a folder is made where there is nothing. */
  readonly canCreate: boolean;
}

export interface RootPlan {
  /** fstab(5) lines for mounts on folders, outermost first. */
  readonly mounts: string;
  /** Files that must exist before `fileMounts`, one a line. */
  readonly files: string;
  /** fstab(5) lines for mounts on single files. */
  readonly fileMounts: string;
}

/** Where the machine's root is to be found while the container's is put together. */
const MACHINE = "/.fairlead-machine";

/** Folders of the machine that no image would have: people's files, and what other programs run with. */
const EMPTY_FOLDERS = ["/home", "/media", "/mnt", "/root", "/run", "/tmp"];

const DEVICES = ["null", "zero", "full", "random", "urandom", "tty"];

/** Files of the kernel that change the machine, not the container. Source: containerd, oci.WithDefaultSpec. */
const READ_ONLY_KERNEL = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/** Files of the kernel with facts about the machine that containers must not see. Source: as before. */
const MASKED_KERNEL = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/scsi",
  "/proc/sched_debug",
  "/proc/timer_list",
  "/proc/timer_stats",
];

/** What of the kernel's files is kept from containers that are not privileged, as far as this machine has it. */
export interface KernelFiles {
  readonly readOnly: readonly string[];
  readonly maskedFiles: readonly string[];
  readonly maskedFolders: readonly string[];
}

/** @param kindOf - What there is at a path of the machine. */
export function kernelFiles(kindOf: (path: string) => "file" | "folder" | undefined): KernelFiles {
  return {
    readOnly: READ_ONLY_KERNEL.filter((it) => kindOf(it) !== undefined),
    maskedFiles: MASKED_KERNEL.filter((it) => kindOf(it) === "file"),
    maskedFolders: MASKED_KERNEL.filter((it) => kindOf(it) === "folder"),
  };
}

/** Top-level folders whose mounts below them belong to a container's programs. */
const SYSTEM_FOLDERS = [
  "/bin",
  "/etc",
  "/lib",
  "/lib32",
  "/lib64",
  "/nix",
  "/opt",
  "/sbin",
  "/usr",
  "/var/lib",
];

export function planRoot(options: {
  readonly binds: readonly BindMount[];
  /** Folders mounted over the machine's root, as `systemMounts` finds them: an overlay over "/" does not show them. */
  readonly system: readonly string[];
  /** Folders hidden from the container, such as the kubelet's own. */
  readonly hidden: readonly string[];
  /** Absent for a privileged container. */
  readonly kernel?: KernelFiles | undefined;
}): RootPlan {
  const folders = options.binds.filter((it) => it.isFile !== true).toSorted(byDepth);
  const files = options.binds.filter((it) => it.isFile === true);
  const system = options.system.map((path) => ({ source: path, target: path, readOnly: true }));
  const hidden = options.hidden.filter((path) => !EMPTY_FOLDERS.some((it) => path.startsWith(`${it}/`)));
  const empty = [...EMPTY_FOLDERS, ...hidden];
  const mounts = [
    fstabLine("tmpfs", "/dev", "tmpfs", "mode=755,nosuid"),
    fstabLine(
      "devpts",
      "/dev/pts",
      "devpts",
      "newinstance,ptmxmode=0666,mode=620,nosuid,noexec,X-mount.mkdir",
    ),
    fstabLine("shm", "/dev/shm", "tmpfs", "mode=1777,nosuid,nodev,X-mount.mkdir"),
    ...system.map(bindLine),
    ...empty.map((path) =>
      fstabLine("tmpfs", path, "tmpfs", `mode=${path === "/tmp" ? "1777" : "755"},X-mount.mkdir`),
    ),
    ...folders.map(bindLine),
    ...(options.kernel === undefined ? [] : kernelLines(options.kernel)),
  ];
  const devices = DEVICES.map((name) => ({
    source: `/dev/${name}`,
    target: `/dev/${name}`,
    readOnly: false,
    isFile: true,
  }));
  const onFiles = [...devices, ...files];
  return {
    mounts: mounts.join(""),
    files: onFiles.map((it) => `${it.target}\n`).join(""),
    fileMounts: onFiles.map(bindLine).join(""),
  };
}

function kernelLines({ readOnly, maskedFiles, maskedFolders }: KernelFiles): readonly string[] {
  const flags = "ro,nosuid,nodev,noexec";
  return [
    ...readOnly.map((path) => fstabLine(path, path, "none", `bind,${flags}`)),
    ...maskedFiles.map((path) => fstabLine(`${MACHINE}/dev/null`, path, "none", "bind")),
    ...maskedFolders.map((path) => fstabLine("tmpfs", path, "tmpfs", flags)),
  ];
}

/** What becomes read-only with `readOnlyRootFilesystem`: all but volumes and the file systems of the kernel. */
export function readOnlyFolders(volumes: readonly BindMount[]): readonly string[] {
  const targets = new Set(volumes.map((it) => it.target));
  return ["/", ...EMPTY_FOLDERS.filter((it) => !targets.has(it))];
}

/** Folders of the running system that are mount points. */
export function systemMounts(mountinfo: string): readonly string[] {
  const points: string[] = [];
  for (const line of mountinfo.split("\n")) {
    const fields = line.split(" ");
    const point = fields[4];
    const type = fields[fields.indexOf("-", 6) + 1];
    if (point === undefined || type === undefined || PSEUDO.has(type)) continue;
    const path = point.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCodePoint(Number.parseInt(octal, 8)),
    );
    // A container engine mounts these three as single files; each container has its own here.
    if (["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"].includes(path)) continue;
    if (SYSTEM_FOLDERS.some((it) => path === it || path.startsWith(`${it}/`))) points.push(path);
  }
  return [...new Set(points)].toSorted((a, b) => depth(a) - depth(b));
}

const PSEUDO = new Set([
  "proc",
  "sysfs",
  "devtmpfs",
  "devpts",
  "nsfs",
  "cgroup",
  "cgroup2",
  "mqueue",
  "autofs",
]);

function bindLine(bind: BindMount): string {
  const mkdir = bind.isFile === true ? "" : ",X-mount.mkdir";
  return fstabLine(
    MACHINE + bind.source,
    bind.target,
    "none",
    `${bind.readOnly ? "bind,ro" : "bind"}${mkdir}`,
  );
}

/** fstab(5): white space, backslash and "#" in a field are written as three octal digits. */
function fstabLine(source: string, target: string, type: string, options: string): string {
  return `${escapeField(source)} ${escapeField(target)} ${type} ${options} 0 0\n`;
}

function escapeField(text: string): string {
  return text.replaceAll(/[\s\\#]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`);
}

function byDepth(a: BindMount, b: BindMount): number {
  return depth(a.target) - depth(b.target);
}

function depth(path: string): number {
  return path.split("/").length;
}
