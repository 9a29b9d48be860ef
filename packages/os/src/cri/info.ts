import { isObject } from "@fairlead/base/json.ts";
import type { PodSandbox } from "./runtime.ts";
import { NAMESPACE_OF_NODE, type PodSandboxAnswer, SANDBOX_STATE } from "./service.ts";

/** Reads a verbose PodSandboxStatus. Undefined if the sandbox is not ready. */
export function readSandbox({ status, info }: PodSandboxAnswer): PodSandbox | undefined {
  if (status?.state !== SANDBOX_STATE.ready || status.metadata === undefined) return undefined;
  const { id, metadata, linux, runtimeHandler } = status;
  const hostNetwork = linux?.namespaces?.options?.network === NAMESPACE_OF_NODE;
  return {
    id,
    podUid: metadata.uid,
    podNamespace: metadata.namespace,
    podName: metadata.name,
    hostNetwork,
    runtimeHandler,
    netns: hostNetwork ? undefined : netnsOf(info["info"] ?? ""),
  };
}

/**
 * File of the network namespace in what containerd and CRI-O add to a verbose answer: JSON with the sandbox's OCI
 * runtime spec and the id of its process.
 */
export function netnsOf(info: string): string | undefined {
  const value = parse(info);
  const spec = objectAt(value, "runtimeSpec");
  const namespaces: unknown = objectAt(spec, "linux")["namespaces"];
  const network = (Array.isArray(namespaces) ? namespaces : []).find(
    (it: unknown): it is Readonly<Record<string, unknown>> => isObject(it) && it["type"] === "network",
  );
  const path = network?.["path"];
  if (typeof path === "string" && path.startsWith("/")) return path;
  // Without an entry in the spec, the process is in the namespace of the machine. An entry without a path is a namespace
  // that the runtime made for the process.
  const isOwn = network !== undefined || Object.keys(spec).length === 0;
  const { pid } = value;
  return isOwn && typeof pid === "number" && Number.isInteger(pid) && pid > 1
    ? `/proc/${pid}/ns/net`
    : undefined;
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function objectAt(value: Readonly<Record<string, unknown>>, key: string): Readonly<Record<string, unknown>> {
  const found = value[key];
  return isObject(found) ? found : {};
}
