import { byText } from "@fairlead/base/text.ts";
import {
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  stringMapAt,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";

/** The Pod Security Standards (KEP-2579), as of their latest version. Source: k8s.io/pod-security-admission, policy. */

export interface PodLike {
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: Fields;
}

/** Why a pod does not meet a standard: "reason (detail)". */
type Check = (pod: PodLike) => string | undefined;

interface Container {
  readonly name: string;
  readonly fields: Fields;
  readonly security: Fields;
}

function containersOf({ spec }: PodLike): readonly Container[] {
  return ["initContainers", "containers", "ephemeralContainers"].flatMap((list) =>
    itemsAt(spec, list).map((fields) => ({
      name: textAt(fields, "name"),
      fields,
      security: fieldsAt(fields, "securityContext") ?? {},
    })),
  );
}

function podSecurityOf({ spec }: PodLike): Fields {
  return fieldsAt(spec, "securityContext") ?? {};
}

const isWindows = ({ spec }: PodLike): boolean => textAt(fieldsAt(spec, "os"), "name") === "windows";
const isInUserNamespace = ({ spec }: PodLike): boolean => spec["hostUsers"] === false;

function quoted(items: readonly string[]): string {
  return items.map((it) => `"${it}"`).join(", ");
}

function many(one: string, more: string, count: number): string {
  return count === 1 ? one : more;
}

/** `container "a"`, `containers "a", "b"`. */
function named(what: string, names: readonly string[]): string {
  return `${many(what, `${what}s`, names.length)} ${quoted(names)}`;
}

function sorted(values: Iterable<string>): readonly string[] {
  return [...new Set(values)].toSorted(byText);
}

/** Those that set something wrong: the pod itself, and containers. */
function settersOf(isPodBad: boolean, containers: readonly string[], ...more: readonly string[]): string[] {
  return [
    ...(isPodBad ? ["pod"] : []),
    ...(containers.length === 0 ? [] : [named("container", containers)]),
    ...more,
  ];
}

const DEFAULT_CAPABILITIES = new Set([
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "MKNOD",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
]);

function capabilitiesOf({ security }: Container, field: "add" | "drop"): readonly string[] {
  return stringsAt(fieldsAt(security, "capabilities"), field);
}

function addedBeyond(pod: PodLike, allowed: ReadonlySet<string>): string | undefined {
  const beyond = (it: Container): readonly string[] =>
    capabilitiesOf(it, "add").filter((cap) => !allowed.has(cap));
  const bad = containersOf(pod).filter((it) => beyond(it).length > 0);
  if (bad.length === 0) return undefined;
  const names = bad.map((it) => it.name);
  const capabilities = sorted(bad.flatMap(beyond));
  return `${named("container", names)} must not include ${quoted(capabilities)} in securityContext.capabilities.add`;
}

const baselineCapabilities: Check = (pod) => {
  const detail = addedBeyond(pod, DEFAULT_CAPABILITIES);
  return detail === undefined ? undefined : `non-default capabilities (${detail})`;
};

const NET_BIND = new Set(["NET_BIND_SERVICE"]);

const restrictedCapabilities: Check = (pod) => {
  if (isWindows(pod)) return undefined;
  const keeping = containersOf(pod).filter((it) => !capabilitiesOf(it, "drop").includes("ALL"));
  const names = keeping.map((it) => it.name);
  const details = [
    names.length === 0
      ? undefined
      : `${named("container", names)} must set securityContext.capabilities.drop=["ALL"]`,
    addedBeyond(pod, NET_BIND),
  ].filter((it) => it !== undefined);
  return details.length === 0 ? undefined : `unrestricted capabilities (${details.join("; ")})`;
};

const appArmor: Check = (pod) => {
  const typeOf = (security: Fields): string => textAt(fieldsAt(security, "appArmorProfile"), "type");
  const isBad = (type: string): boolean => type === "Unconfined";
  const bad = containersOf(pod).filter((it) => isBad(typeOf(it.security)));
  const isPodBad = isBad(typeOf(podSecurityOf(pod)));
  const annotations = Object.entries(pod.annotations)
    .filter(
      ([key, value]) =>
        key.startsWith("container.apparmor.security.beta.kubernetes.io/") && !allowsProfile(value),
    )
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .toSorted(byText);
  const values = [...(bad.length > 0 || isPodBad ? ["Unconfined"] : []), ...annotations];
  if (values.length === 0) return undefined;
  const more = annotations.length === 0 ? [] : [many("annotation", "annotations", annotations.length)];
  const setters = settersOf(
    isPodBad,
    bad.map((it) => it.name),
    ...more,
  );
  const reason = many("forbidden AppArmor profile", "forbidden AppArmor profiles", values.length);
  return `${reason} (${setters.join(" and ")} must not set AppArmor profile type to ${quoted(values)})`;
};

function allowsProfile(value: string): boolean {
  return value === "" || value === "runtime/default" || value.startsWith("localhost/");
}

const hostNamespaces: Check = ({ spec }) => {
  const used = ["hostNetwork", "hostPID", "hostIPC"]
    .filter((it) => spec[it] === true)
    .map((it) => `${it}=true`);
  return used.length === 0 ? undefined : `host namespaces (${used.join(", ")})`;
};

const hostPathVolumes: Check = ({ spec }) => {
  const bad = itemsAt(spec, "volumes").filter((it) => it["hostPath"] !== undefined);
  const names = bad.map((it) => textAt(it, "name"));
  return names.length === 0 ? undefined : `hostPath volumes (${named("volume", names)})`;
};

const hostPorts: Check = (pod) => {
  const portsOf = ({ fields }: Container): readonly string[] =>
    itemsAt(fields, "ports")
      .map((it) => numberAt(it, "hostPort") ?? 0)
      .filter((it) => it !== 0)
      .map(String);
  const bad = containersOf(pod).filter((it) => portsOf(it).length > 0);
  if (bad.length === 0) return undefined;
  const ports = sorted(bad.flatMap(portsOf));
  const uses = `${many("uses", "use", bad.length)} ${many("hostPort", "hostPorts", ports.length)}`;
  return `hostPort (${named(
    "container",
    bad.map((it) => it.name),
  )} ${uses} ${ports.join(", ")})`;
};

const LOCAL_HOSTS = new Set(["", "127.0.0.1", "::1"]);

/** Hosts of probes and hooks that are not the pod itself. */
const probeHosts: Check = (pod) => {
  const hostsOf = ({ fields }: Container): readonly string[] => {
    const lifecycle = fieldsAt(fields, "lifecycle");
    const handlers = [
      ...["livenessProbe", "readinessProbe", "startupProbe"].map((it) => fieldsAt(fields, it)),
      ...["postStart", "preStop"].map((it) => fieldsAt(lifecycle, it)),
    ];
    return handlers
      .flatMap((it) => ["httpGet", "tcpSocket"].map((kind) => textAt(fieldsAt(it, kind), "host")))
      .filter((it) => !LOCAL_HOSTS.has(it));
  };
  const bad = containersOf(pod).filter((it) => hostsOf(it).length > 0);
  if (bad.length === 0) return undefined;
  const hosts = sorted(bad.flatMap(hostsOf));
  const what = many("probe or lifecycle host", "probe or lifecycle hosts", hosts.length);
  const names = sorted(bad.map((it) => it.name));
  return `probe or lifecycle host (${named("container", names)} ${many("uses", "use", bad.length)} ${what} ${quoted(hosts)})`;
};

const privileged: Check = (pod) => {
  const bad = containersOf(pod).filter((it) => it.security["privileged"] === true);
  const names = bad.map((it) => it.name);
  if (names.length === 0) return undefined;
  return `privileged (${named("container", names)} must not set securityContext.privileged=true)`;
};

const procMount: Check = (pod) => {
  if (isInUserNamespace(pod)) return undefined;
  return unmaskedProc(pod);
};

const unmaskedProc: Check = (pod) => {
  const typeOf = ({ security }: Container): string => textAt(security, "procMount");
  const bad = containersOf(pod).filter((it) => !["", "Default"].includes(typeOf(it)));
  if (bad.length === 0) return undefined;
  const names = bad.map((it) => it.name);
  const types = sorted(bad.map(typeOf));
  return `procMount (${named("container", names)} must not set securityContext.procMount to ${quoted(types)})`;
};

const SE_LINUX_TYPES = new Set([
  "",
  "container_t",
  "container_init_t",
  "container_kvm_t",
  "container_engine_t",
]);

const seLinux: Check = (pod) => {
  const optionsOf = (security: Fields): Fields => fieldsAt(security, "seLinuxOptions") ?? {};
  const isBad = (options: Fields): boolean =>
    !SE_LINUX_TYPES.has(textAt(options, "type")) ||
    textAt(options, "user") !== "" ||
    textAt(options, "role") !== "";
  const podOptions = optionsOf(podSecurityOf(pod));
  const bad = containersOf(pod).filter((it) => isBad(optionsOf(it.security)));
  const all = [podOptions, ...bad.map((it) => optionsOf(it.security))].filter(isBad);
  if (all.length === 0) return undefined;
  const types = sorted(all.map((it) => textAt(it, "type")).filter((it) => !SE_LINUX_TYPES.has(it)));
  const data = [
    ...(types.length === 0 ? [] : [named("type", types)]),
    ...["user", "role"]
      .filter((field) => all.some((it) => textAt(it, field) !== ""))
      .map((field) => `${field} may not be set`),
  ];
  const setters = settersOf(
    isBad(podOptions),
    bad.map((it) => it.name),
  ).join(" and ");
  return `seLinuxOptions (${setters} set forbidden securityContext.seLinuxOptions: ${data.join("; ")})`;
};

function seccompTypeOf(security: Fields): string | undefined {
  const profile = fieldsAt(security, "seccompProfile");
  return profile === undefined ? undefined : textAt(profile, "type");
}

function badSeccomp(pod: PodLike, isBad: (type: string) => boolean): string | undefined {
  const podType = seccompTypeOf(podSecurityOf(pod));
  const bad = containersOf(pod).filter((it) => {
    const type = seccompTypeOf(it.security);
    return type !== undefined && isBad(type);
  });
  const isPodBad = podType !== undefined && isBad(podType);
  const setters = settersOf(
    isPodBad,
    bad.map((it) => it.name),
  ).join(" and ");
  if (setters === "") return undefined;
  const values = sorted([
    ...(isPodBad ? [podType] : []),
    ...bad.map((it) => seccompTypeOf(it.security) ?? ""),
  ]);
  return `seccompProfile (${setters} must not set securityContext.seccompProfile.type to ${quoted(values)})`;
}

const baselineSeccomp: Check = (pod) => badSeccomp(pod, (type) => type === "Unconfined");

const SECCOMP_TYPES = new Set(["Localhost", "RuntimeDefault"]);

const restrictedSeccomp: Check = (pod) => {
  if (isWindows(pod)) return undefined;
  const bad = badSeccomp(pod, (type) => !SECCOMP_TYPES.has(type));
  if (bad !== undefined || seccompTypeOf(podSecurityOf(pod)) !== undefined) return bad;
  const names = containersOf(pod)
    .filter((it) => seccompTypeOf(it.security) === undefined)
    .map((it) => it.name);
  if (names.length === 0) return undefined;
  const wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"';
  return `seccompProfile (pod or ${named("container", names)} ${wanted})`;
};

const SAFE_SYSCTLS = new Set([
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.ping_group_range",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_wmem",
]);

const sysctls: Check = (pod) => {
  const bad = itemsAt(podSecurityOf(pod), "sysctls")
    .map((it) => textAt(it, "name"))
    .filter((it) => !SAFE_SYSCTLS.has(it));
  return bad.length === 0 ? undefined : `forbidden sysctls (${bad.join(", ")})`;
};

const windowsHostProcess: Check = (pod) => {
  const isSet = (security: Fields): boolean => fieldsAt(security, "windowsOptions")?.["hostProcess"] === true;
  const bad = containersOf(pod).filter((it) => isSet(it.security));
  const setters = settersOf(
    isSet(podSecurityOf(pod)),
    bad.map((it) => it.name),
  ).join(" and ");
  if (setters === "") return undefined;
  return `hostProcess (${setters} must not set securityContext.windowsOptions.hostProcess=true)`;
};

const privilegeEscalation: Check = (pod) => {
  if (isWindows(pod)) return undefined;
  const bad = containersOf(pod).filter((it) => it.security["allowPrivilegeEscalation"] !== false);
  const names = bad.map((it) => it.name);
  if (names.length === 0) return undefined;
  const detail = `${named("container", names)} must set securityContext.allowPrivilegeEscalation=false`;
  return `allowPrivilegeEscalation != false (${detail})`;
};

const VOLUME_TYPES = new Set([
  "configMap",
  "csi",
  "downwardAPI",
  "emptyDir",
  "ephemeral",
  "persistentVolumeClaim",
  "projected",
  "secret",
  "image",
]);

const restrictedVolumes: Check = ({ spec }) => {
  const typeOf = (volume: Fields): string => Object.keys(volume).find((it) => it !== "name") ?? "emptyDir";
  const bad = itemsAt(spec, "volumes").filter((it) => !VOLUME_TYPES.has(typeOf(it)));
  if (bad.length === 0) return undefined;
  const types = sorted(bad.map(typeOf));
  const what = many("restricted volume type", "restricted volume types", types.length);
  const names = bad.map((it) => textAt(it, "name"));
  return `restricted volume types (${named("volume", names)} ${many("uses", "use", bad.length)} ${what} ${quoted(types)})`;
};

const runAsNonRoot: Check = (pod) => {
  if (isInUserNamespace(pod)) return undefined;
  const ofPod = podSecurityOf(pod)["runAsNonRoot"];
  const containers = containersOf(pod);
  const bad = containers.filter((it) => it.security["runAsNonRoot"] === false).map((it) => it.name);
  const setters = settersOf(ofPod === false, bad).join(" and ");
  if (setters !== "")
    return `runAsNonRoot != true (${setters} must not set securityContext.runAsNonRoot=false)`;
  if (ofPod === true) return undefined;
  const silent = containers.filter((it) => it.security["runAsNonRoot"] === undefined).map((it) => it.name);
  if (silent.length === 0) return undefined;
  const detail = `pod or ${named("container", silent)} must set securityContext.runAsNonRoot=true`;
  return `runAsNonRoot != true (${detail})`;
};

const runAsUser: Check = (pod) => {
  if (isInUserNamespace(pod)) return undefined;
  const bad = containersOf(pod).filter((it) => it.security["runAsUser"] === 0);
  const setters = settersOf(
    podSecurityOf(pod)["runAsUser"] === 0,
    bad.map((it) => it.name),
  ).join(" and ");
  return setters === "" ? undefined : `runAsUser=0 (${setters} must not set runAsUser=0)`;
};

/** In the order of the real server: by the names of the checks. */
const BASELINE: readonly Check[] = [
  appArmor,
  baselineCapabilities,
  hostNamespaces,
  hostPathVolumes,
  hostPorts,
  probeHosts,
  privileged,
  procMount,
  seLinux,
  baselineSeccomp,
  sysctls,
  windowsHostProcess,
];

/** Stricter checks stand in for those of the baseline on the same. */
const RESTRICTED: readonly Check[] = [
  appArmor,
  hostNamespaces,
  hostPorts,
  probeHosts,
  privileged,
  seLinux,
  sysctls,
  windowsHostProcess,
  privilegeEscalation,
  restrictedCapabilities,
  unmaskedProc,
  restrictedVolumes,
  runAsNonRoot,
  runAsUser,
  restrictedSeccomp,
];

const LEVELS: Readonly<Record<string, readonly Check[]>> = { baseline: BASELINE, restricted: RESTRICTED };

/** Why a pod does not meet a level; undefined if it does. */
export function violations(level: string, pod: PodLike): string | undefined {
  const found = (LEVELS[level] ?? []).flatMap((check) => check(pod) ?? []);
  return found.length === 0 ? undefined : found.join(", ");
}

/** As `violations`, without the details of single containers. */
export function violatedRules(level: string, pod: PodLike): string | undefined {
  const found = (LEVELS[level] ?? []).flatMap((check) => check(pod)?.split(" (", 1) ?? []);
  return found.length === 0 ? undefined : found.join(", ");
}

export function podLike(metadata: Fields | undefined, spec: Fields): PodLike {
  return { annotations: stringMapAt(metadata, "annotations"), spec };
}
