import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { exec } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { sysctlsOf } from "../pod/refusals.ts";

/** Any user of a pod may listen on any of its ports, as container engines have it. */
const UNPRIVILEGED_PORTS = { name: "net.ipv4.ip_unprivileged_port_start", value: "0" };

/** Sets what the pod asks for in its network namespace. Names and values reach the shell as arguments. */
export async function setSysctls(netns: string, pod: Pod, signal: AbortSignal): Promise<void> {
  const wished = sysctlsOf(pod);
  const all = [...(runsAsOthers(pod) ? [UNPRIVILEGED_PORTS] : []), ...wished];
  if (all.length === 0) return;
  const words = all.flatMap(({ name, value }) => [`/proc/sys/${name.replaceAll(".", "/")}`, value]);
  const script = `while [ $# -gt 1 ]; do printf '%s' "$2" >"$1"; shift 2; done`;
  const line = inNetns(netns, "/bin/sh", ["-ec", script, "sh", ...words]);
  await exec(line.command, line.args, { signal });
}

function runsAsOthers({ spec }: Pod): boolean {
  const contexts = [spec, ...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
  return contexts.some((it) => Number(it?.securityContext?.["runAsUser"] ?? 0) !== 0);
}
