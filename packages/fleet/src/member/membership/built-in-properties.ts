import type { Clock } from "@fairlead/base/clock.ts";
import { type Namespace, type Node, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { Informer, KubeClient, ListOptions } from "@fairlead/kube/types.ts";
import {
  AUTHORITY_PROPERTY,
  ENTRYPOINT_PROPERTY,
  NODE_COUNT_PROPERTY,
  VERSION_PROPERTY,
} from "#domain/cluster-properties.ts";
import { planNamespaces } from "./namespaces.ts";
import { resourceUsageOf } from "#domain/resource-usage.ts";
import type { PropertyProvider } from "./property-provider.ts";

/** How others reach the cluster's API server. */
export interface ClusterAddress {
  readonly server: string;
  /** Certificates, PEM. */
  readonly ca?: string;
}

export interface BuiltIn {
  readonly client: KubeClient;
  readonly nodes: Informer<Node>;
  readonly address: ClusterAddress | undefined;
  /** Undefined: they are not reported. */
  readonly namespaces: Informer<Namespace> | undefined;
  readonly clock: Clock;
}

/** As KubeFleet: a server keeps its version for long. Unit: milliseconds. */
const VERSION_MS = 15 * 60_000;
/** Pods of one response. */
const PAGE = 500;

/** The properties that every cluster reports. */
export function builtInProperties(of: BuiltIn): PropertyProvider {
  const { client, nodes, address, clock } = of;
  let version: { readonly text: string; readonly untilMs: number } | undefined;
  const versionOf = async (signal: AbortSignal): Promise<string> => {
    if (version !== undefined && clock.monotonic() < version.untilMs) return version.text;
    const { gitVersion = "" } = (await client.request("GET", "/version", undefined, { signal })) as {
      readonly gitVersion?: string;
    };
    version = { text: gitVersion, untilMs: clock.monotonic() + VERSION_MS };
    return gitVersion;
  };
  return {
    async collect(signal) {
      const [pods, kubernetes] = await Promise.all([allPods(client, signal), versionOf(signal)]);
      return {
        properties: new Map([
          [NODE_COUNT_PROPERTY, String(nodes.store.size)],
          [VERSION_PROPERTY, kubernetes],
          ...(address === undefined ? [] : [[ENTRYPOINT_PROPERTY, address.server] as const]),
          ...(address?.ca === undefined
            ? []
            : [[AUTHORITY_PROPERTY, Buffer.from(address.ca).toString("base64")] as const]),
        ]),
        resourceUsage: resourceUsageOf(nodes.store.list(), pods, clock.now()),
        ...(of.namespaces === undefined ? {} : planNamespaces(of.namespaces.store.list())),
      };
    },
  };
}

async function allPods(client: KubeClient, signal: AbortSignal): Promise<readonly Pod[]> {
  const pods: Pod[] = [];
  let next = "";
  do {
    const at: ListOptions = next === "" ? {} : { continue: next };
    const { items, metadata } = await client.list(PODS, { limit: PAGE, ...at, signal });
    pods.push(...items);
    next = metadata.continue ?? "";
  } while (next !== "");
  return pods;
}
