import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { isClusterName } from "#api/fairlead.dev/cluster-names.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type ErrorCode, FleetError, hasCode } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Checks of a cluster before a command changes anything. */

const ANSWER_TIMEOUT_MS = 10_000;

/** @throws {FleetError} `API_UNAVAILABLE` with the name and the address of the cluster. */
export async function checkReachable(
  client: KubeClient,
  cluster: { readonly who: string; readonly config: ClusterConfig },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { who, config } = cluster;
  const limit = new AbortController();
  using _timer = deps.clock.after(ANSWER_TIMEOUT_MS, () => limit.abort());
  try {
    await client.request("GET", "/version", undefined, {
      signal: AbortSignal.any([signal, limit.signal]),
    });
  } catch (error) {
    if (signal.aborted) throw error;
    if (limit.signal.aborted)
      throw new FleetError(
        "API_UNAVAILABLE",
        `${who} at ${config.server} did not answer within ${ANSWER_TIMEOUT_MS / 1000} s; if it or this machine is busy, try again, else check the address, and that its API server runs`,
      );
    if (hasCode(error, "API_UNAUTHORIZED", "API_FORBIDDEN"))
      throw new FleetError(
        "API_UNAUTHORIZED",
        `${who} at ${config.server} rejected the credentials (401 or 403)`,
        {
          cause: error,
        },
      );
    throw new FleetError(...whyUnreachable(error, `${who} at ${config.server}`), { cause: error });
  }
}

/** The codes of OpenSSL and Node for untrusted certificates. */
const UNTRUSTED = /^(?:CERT_|ERR_TLS_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_(?:VERIFY|GET_ISSUER))/;

function whyUnreachable(error: unknown, who: string): [ErrorCode, string] {
  if (hasCode(error, "KUBECONFIG_INVALID"))
    return ["KUBECONFIG_INVALID", `the kubeconfig has no usable credentials for ${who}`];
  if (codesOf(error).some((it) => UNTRUSTED.test(it)))
    return [
      "API_UNAVAILABLE",
      `cannot verify the certificate of ${who}; check certificate-authority-data and tls-server-name of its context`,
    ];
  return ["API_UNAVAILABLE", `${who} does not answer; check the address, and that its API server runs`];
}

/** Of an error and its causes. */
function codesOf(error: unknown): string[] {
  if (!Error.isError(error)) return [];
  const own = "code" in error && typeof error.code === "string" ? [error.code] : [];
  return [...own, ...codesOf(error.cause)];
}

/** False where a cluster says that it does not know who shows these credentials, such as after it got a new authority. */
export async function takesCredential(
  config: ClusterConfig,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<boolean> {
  await using client = connect(config, deps);
  try {
    await client.request("GET", "/version", undefined, { signal });
    return true;
  } catch (error) {
    if (signal.aborted) throw error;
    return !hasCode(error, "API_UNAUTHORIZED");
  }
}

/** The identity of a cluster, whatever its name: the UID of kube-system (KEP-2149). */
export async function clusterUid(client: KubeClient, who: string, signal: AbortSignal): Promise<string> {
  const namespace = await client.find(NAMESPACES, objectKey(undefined, "kube-system"), { signal });
  const uid = namespace?.metadata.uid;
  if (uid !== undefined) return uid;
  throw new FleetError(
    "API_UNEXPECTED",
    `${who} has no kube-system namespace, whose UID identifies the cluster`,
  );
}

/** @throws {FleetError} `OPTION_INVALID` if the fleet has no such member. */
export async function findMember(hub: KubeClient, name: string, signal: AbortSignal): Promise<MemberCluster> {
  const present = isClusterName(name)
    ? await hub.find(MEMBER_CLUSTERS, objectKey(undefined, name), { signal })
    : undefined;
  if (present !== undefined) return present;
  throw new FleetError(
    "OPTION_INVALID",
    `the fleet has no member named ${JSON.stringify(name)}; see "fairlead status"`,
  );
}
