import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";

/** What nodes of the lab do not have, though the API takes it. Pure. */

/** The reason why no sandbox can be created for the pod, in the words of a container engine. */
export function sandboxProblem({ spec }: Pod): string | undefined {
  const hasHostPort = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].some(
    (it) => spec?.hostNetwork !== true && it.ports?.some(({ hostPort = 0 }) => hostPort > 0) === true,
  );
  const refused: readonly (readonly [isAsked: boolean, what: string])[] = [
    [spec?.hostPID === true, "hostPID"],
    [spec?.hostIPC === true, "hostIPC"],
    [spec?.hostUsers === false, "user namespaces for pods (hostUsers: false)"],
    [spec?.shareProcessNamespace === true, "shareProcessNamespace"],
    [spec?.runtimeClassName !== undefined, "runtime classes"],
    [hasHostPort, "host ports: use a Service"],
  ];
  const asked = refused.flatMap(([isAsked, what]) => (isAsked ? [what] : []));
  return asked.length === 0 ? undefined : `nodes of the lab have no ${asked.join(", no ")}`;
}

/** Namespaced, and harmless to others. Source: pkg/kubelet/sysctl/safe_sysctls.go. */
const SAFE_SYSCTLS: ReadonlySet<string> = new Set([
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.tcp_wmem",
]);

export interface Sysctl {
  readonly name: string;
  readonly value: string;
}

/** What the pod sets in its network namespace, with dots between the parts of a name. */
export function sysctlsOf({ spec }: Pod): readonly Sysctl[] {
  const wished: unknown = spec?.securityContext?.["sysctls"];
  if (!Array.isArray(wished)) return [];
  return wished.map((it: { readonly name?: unknown; readonly value?: unknown }) => ({
    name: String(it.name).replaceAll("/", "."),
    value: String(it.value),
  }));
}

export function forbiddenSysctl(pod: Pod): string | undefined {
  const isHost = pod.spec?.hostNetwork === true;
  return sysctlsOf(pod).find(({ name }) => isHost || !SAFE_SYSCTLS.has(name))?.name;
}
