import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { DNS_SERVERS, INSTALLED_BY, INSTALLED_BY_LABEL } from "#api/fairlead.dev/installed.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { type Deployment, DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, DNS_SERVERS);
const CONTAINER = "dns";

/**
 * Gives the DNS servers that `fairlead join` installed the image of the node agents. Those of Helm or users are not changed. They stay when the
 * cluster leaves the network: flat networks have them, too.
 */
export async function upgradeDns(local: KubeClient, image: string, signal: AbortSignal): Promise<void> {
  const change = planDns(await local.find(DEPLOYMENTS, KEY, { signal }), image);
  if (change !== undefined)
    await local.apply(DEPLOYMENTS, change, { fieldManager: MEMBER_MANAGER, force: true, signal });
}

/** Pure. */
function planDns(deployment: Deployment | undefined, image: string): Applied<Deployment> | undefined {
  if (deployment?.metadata.labels?.[INSTALLED_BY_LABEL] !== INSTALLED_BY) return undefined;
  const container = deployment.spec?.template.spec?.containers.find((it) => it.name === CONTAINER);
  if (container === undefined || container.image === image) return undefined;
  const { namespace = "", name } = deployment.metadata;
  return {
    metadata: { namespace, name },
    spec: { template: { spec: { containers: [{ name: CONTAINER, image }] } } },
  };
}
