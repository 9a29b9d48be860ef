import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { readKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MANAGEMENT_CLUSTERS_SECRET } from "#api/fairlead.dev/names.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { ClusterApiUpgrader } from "#updates/engines/cluster-api.ts";
import type { ClusterUpgrader } from "#updates/engines/upgrader.ts";

export interface UpgraderParts {
  readonly client: KubeClient;
  readonly deps: RuntimeDeps;
}

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, MANAGEMENT_CLUSTERS_SECRET);
/** All update runs wait for an engine that is asked: no longer for one that is away. Unit: milliseconds. */
const USE_MS = 10_000;

const FORM = /^ClusterAPI:([^/@]+)\/([^/@]+)(?:@([^/@]+))?$/;

export function isClusterApi(engine: string): boolean {
  return engine === "ClusterAPI" || engine.startsWith("ClusterAPI:");
}

interface Opened extends AsyncDisposable {
  readonly upgrader: ClusterUpgrader;
  /** For this use. */
  readonly signal: AbortSignal;
}

/**
 * The engine of a member that Cluster API upgrades, on the hub or on another management cluster, to which a connection is
 * made for each use: the kubeconfig may have changed.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` if the annotation is wrong, `KUBECONFIG_INVALID` if there is no usable kubeconfig.
 */
export async function openClusterApi(
  { client, deps }: UpgraderParts,
  engine: string,
  signal: AbortSignal,
): Promise<Opened> {
  const [, namespace, name, management] = FORM.exec(engine) ?? [];
  if (namespace === undefined || name === undefined)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `annotation fairlead.dev/upgrader: ${JSON.stringify(engine)} names no Cluster; use ClusterAPI:NAMESPACE/NAME, or ClusterAPI:NAMESPACE/NAME@KEY, where KEY is a kubeconfig in Secret ${KEY}`,
    );
  const remote = management === undefined ? undefined : await connectTo(management, { client, deps }, signal);
  return {
    upgrader: new ClusterApiUpgrader(remote ?? client, `${namespace}/${name}`),
    signal: AbortSignal.any([signal, AbortSignal.timeout(USE_MS)]),
    [Symbol.asyncDispose]: async () => remote?.[Symbol.asyncDispose](),
  };
}

async function connectTo(
  management: string,
  { client, deps }: UpgraderParts,
  signal: AbortSignal,
): Promise<KubeClient> {
  const secret = await client.find(SECRETS, KEY, { signal });
  const keys = secret?.data ?? {};
  // The annotation can name what every object inherits, such as "constructor".
  const data = Object.hasOwn(keys, management) ? keys[management] : undefined;
  if (data === undefined)
    throw new FleetError(
      "KUBECONFIG_INVALID",
      `Secret ${KEY} has no key ${JSON.stringify(management)}, which annotation fairlead.dev/upgrader names as the management cluster`,
    );
  const text = Buffer.from(data, "base64").toString("utf8");
  const config = await readKubeconfig(`${management} in Secret ${KEY}`, text, {
    clock: deps.clock,
    log: deps.log,
  });
  // The hub is ready whether or not another cluster answers.
  const { health: _, ...rest } = deps;
  return connect(config, rest);
}
