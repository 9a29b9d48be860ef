import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { ClusterConfig } from "./config.ts";
import { fileSource } from "./file-source.ts";

export interface InClusterOptions {
  /** The environment of the process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where the ServiceAccount is mounted. Default: `/var/run/secrets/kubernetes.io/serviceaccount`. */
  readonly mount?: string;
  readonly clock?: Clock;
}

/**
 * The API server of the cluster that this pod runs in, with the token of its ServiceAccount.
 * Source: Kubernetes documentation, "Accessing the Kubernetes API from a Pod".
 *
 * @throws {FleetError} `KUBECONFIG_INVALID` outside a pod.
 */
export async function inClusterConfig(options: InClusterOptions): Promise<ClusterConfig> {
  const host = options.env["KUBERNETES_SERVICE_HOST"];
  const port = options.env["KUBERNETES_SERVICE_PORT"];
  const mount = options.mount ?? "/var/run/secrets/kubernetes.io/serviceaccount";
  if (host === undefined || port === undefined)
    throw new FleetError(
      "KUBECONFIG_INVALID",
      "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; pass a kubeconfig",
    );
  const token = fileSource(options.clock ?? systemClock, join(mount, "token"), "in-cluster token");
  try {
    const [ca, namespace] = await Promise.all([
      readFile(join(mount, "ca.crt"), "utf8"),
      readFile(join(mount, "namespace"), "utf8"),
      token.read(),
    ]);
    return {
      name: "in-cluster",
      server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      ca,
      namespace: namespace.trim(),
      credentials: {
        current: async () => ({ token: (await token.read()).trim() }),
        expire: () => token.expire(),
      },
    };
  } catch (cause) {
    throw new FleetError("KUBECONFIG_INVALID", `no ServiceAccount is mounted at ${mount}`, {
      cause,
      detail: { mount },
    });
  }
}
