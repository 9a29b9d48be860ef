import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isObject } from "@fairlead/base/json.ts";
import { ConfigError } from "./environment.ts";

/** The user and the privileges of a container: its security context merged with its pod's. Pure. */

export interface User {
  readonly uid: number;
  readonly gid: number;
  /** Supplementary groups, without the primary one. */
  readonly groups: readonly number[];
}

export interface Identity extends User {
  /** Names of Linux capabilities in lower case, without CAP_; undefined for all that there are. */
  readonly capabilities: readonly string[] | undefined;
  readonly noNewPrivileges: boolean;
  readonly readOnlyRoot: boolean;
  /** The kernel's files are not kept from it. */
  readonly isPrivileged: boolean;
}

/** What container engines leave to a container that asks for nothing. Source: containerd, oci.WithDefaultSpec. */
const DEFAULT_CAPABILITIES = [
  "audit_write",
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "mknod",
  "net_bind_service",
  "net_raw",
  "setfcap",
  "setgid",
  "setpcap",
  "setuid",
  "sys_chroot",
] as const;

/** @throws {ConfigError} when the pod must not run as root and would. */
export function identityOf(pod: Pod, container: Container): Identity {
  const ofPod = pod.spec?.securityContext ?? {};
  const own = container.securityContext ?? {};
  const merged = { ...ofPod, ...own };
  const uid = numberOf(merged["runAsUser"]);
  const groups = [ofPod["supplementalGroups"]].flat().map(numberOf);
  const isPrivileged = own["privileged"] === true;
  if (merged["runAsNonRoot"] === true && (uid ?? 0) === 0)
    throw new ConfigError(`${nonRootProblem(uid)} (pod: "${fullName(pod)}", container: ${container.name})`);
  return {
    uid: uid ?? 0,
    gid: numberOf(merged["runAsGroup"]) ?? 0,
    groups: [...groups, numberOf(ofPod["fsGroup"])].filter((it) => it !== undefined),
    capabilities: isPrivileged ? undefined : capabilitiesOf(own["capabilities"]),
    noNewPrivileges: own["allowPrivilegeEscalation"] === false,
    readOnlyRoot: own["readOnlyRootFilesystem"] === true,
    isPrivileged,
  };
}

/** The group that a pod's volumes belong to. */
export function fsGroupOf(pod: Pod): number | undefined {
  return numberOf(pod.spec?.securityContext?.["fsGroup"]);
}

/** The user that all containers of the pod run as, where that is one that is named. */
export function fsUserOf(pod: Pod): number | undefined {
  const ofPod = numberOf(pod.spec?.securityContext?.["runAsUser"]);
  const containers = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
  const users = new Set(containers.map((it) => numberOf(it.securityContext?.["runAsUser"]) ?? ofPod));
  return users.size === 1 ? [...users][0] : undefined;
}

/** "name_namespace(uid)", as messages of a kubelet name a pod. */
export function fullName({ metadata }: Pod): string {
  return `${metadata.name}_${metadata.namespace ?? ""}(${metadata.uid ?? ""})`;
}

/**
 * The command that gives up what the identity does not have, before the program. Empty where nothing is given up.
 * Its words come from numbers and a fixed list of names.
 */
export function identityCommand(identity: Identity): readonly string[] {
  const { uid, gid, groups, capabilities, noNewPrivileges } = identity;
  const isRoot = uid === 0 && gid === 0 && groups.length === 0;
  const options = [
    ...(isRoot
      ? []
      : [
          `--reuid=${uid}`,
          `--regid=${gid}`,
          groups.length > 0 ? `--groups=${groups.join(",")}` : "--clear-groups",
        ]),
    ...(capabilities === undefined
      ? []
      : [`--bounding-set=${["-all", ...capabilities.map((it) => `+${it}`)].join(",")}`, "--inh-caps=-all"]),
    ...(noNewPrivileges ? ["--no-new-privs"] : []),
  ];
  return options.length === 0 ? [] : ["/usr/bin/setpriv", ...options, "--"];
}

function capabilitiesOf(wish: unknown): readonly string[] | undefined {
  const { add, drop } = isObject(wish) ? wish : {};
  const [added, dropped] = [namesIn(add), namesIn(drop)];
  if (added.includes("all") && dropped.length === 0) return undefined;
  const base = dropped.includes("all") ? [] : added.includes("all") ? ALL_CAPABILITIES : DEFAULT_CAPABILITIES;
  const kept = [...base, ...added].filter((it) => ALL_CAPABILITIES.includes(it));
  return [...new Set(kept)].filter((it) => added.includes(it) || !dropped.includes(it));
}

function namesIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map((it) => String(it).toLowerCase().replace(/^cap_/, "")) : [];
}

/** capabilities(7). */
const ALL_CAPABILITIES: readonly string[] = [
  ...DEFAULT_CAPABILITIES,
  "audit_control",
  "audit_read",
  "block_suspend",
  "bpf",
  "checkpoint_restore",
  "dac_read_search",
  "ipc_lock",
  "ipc_owner",
  "lease",
  "linux_immutable",
  "mac_admin",
  "mac_override",
  "net_admin",
  "net_broadcast",
  "perfmon",
  "sys_admin",
  "sys_boot",
  "sys_module",
  "sys_nice",
  "sys_pacct",
  "sys_ptrace",
  "sys_rawio",
  "sys_resource",
  "sys_time",
  "sys_tty_config",
  "syslog",
  "wake_alarm",
];

function nonRootProblem(uid: number | undefined): string {
  return uid === undefined
    ? "container has runAsNonRoot and image will run as root"
    : "container's runAsUser breaks non-root policy";
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;
}
