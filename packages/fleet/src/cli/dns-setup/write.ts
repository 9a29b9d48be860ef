import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, type ConfigMap, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { CUSTOM_CONFIG_MAP, type DnsObjects, type Edit, ZONE_ANNOTATION } from "./plan.ts";

/** Applies a plan to the cluster. */

export const DNS_NAMESPACE = "kube-system";
/** Annotation of a ConfigMap: the value that was there before it was edited first, for people. */
const BACKUP_ANNOTATION = "fairlead.dev/dns-backup";
const WRITER = "fairlead-dns-setup";

export async function readDns(client: KubeClient, signal: AbortSignal): Promise<DnsObjects> {
  const configMap = (name: string): Promise<ConfigMap | undefined> =>
    client.find(CONFIG_MAPS, objectKey(DNS_NAMESPACE, name), { signal });
  const [coredns, custom, kubeDns, nodeLocal, service] = await Promise.all([
    configMap("coredns"),
    configMap(CUSTOM_CONFIG_MAP),
    configMap("kube-dns"),
    configMap("node-local-dns"),
    client.find(SERVICES, objectKey(DNS_NAMESPACE, "kube-dns"), { signal }),
  ]);
  return { coredns, custom, kubeDns, nodeLocal, service };
}

/** Writes one value, unless it has changed since it was read. `zones` is empty if the configuration is removed. */
export async function writeEdit(
  client: KubeClient,
  edit: Edit,
  zones: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const key = objectKey(DNS_NAMESPACE, edit.configMap);
  const current = await client.find(CONFIG_MAPS, key, { signal });
  if (current?.data?.[edit.key] !== edit.before) throw changedMeanwhile(edit.configMap);
  try {
    if (current === undefined) await createWith(client, edit, zones, signal);
    else if (isOursAlone(current, edit)) await client.delete(CONFIG_MAPS, key, { signal });
    else await client.mergePatch(CONFIG_MAPS, key, patchOf(current, edit, zones), { signal });
  } catch (error) {
    throw hasCode(error, "API_CONFLICT", "API_ALREADY_EXISTS") ? changedMeanwhile(edit.configMap) : error;
  }
}

async function createWith(
  client: KubeClient,
  { configMap: name, key, after }: Edit,
  zones: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  if (after === undefined) return;
  const labels = { [MANAGED_BY_LABEL]: WRITER };
  const annotations = { [ZONE_ANNOTATION]: zones.join(",") };
  const metadata = { name, namespace: DNS_NAMESPACE, labels, annotations };
  await client.create(CONFIG_MAPS, { metadata, data: { [key]: after } }, { signal });
}

/** Whether nothing would be left of what this command made. */
function isOursAlone({ metadata, data = {} }: ConfigMap, { after }: Edit): boolean {
  return (
    after === undefined && Object.keys(data).length === 1 && metadata.labels?.[MANAGED_BY_LABEL] === WRITER
  );
}

/** Sends the resourceVersion that was read, so that a concurrent change is not lost. */
function patchOf({ metadata }: ConfigMap, { key, before, after }: Edit, zones: readonly string[]): object {
  const backup = metadata.annotations?.[BACKUP_ANNOTATION] ?? before ?? null;
  const annotations = {
    [BACKUP_ANNOTATION]: zones.length === 0 ? null : backup,
    [ZONE_ANNOTATION]: zones.length === 0 ? null : zones.join(","),
  };
  return {
    metadata: { resourceVersion: metadata.resourceVersion, annotations },
    data: { [key]: after ?? null },
  };
}

function changedMeanwhile(name: string): FleetError {
  return new FleetError(
    "API_CONFLICT",
    `ConfigMap ${DNS_NAMESPACE}/${name} was modified concurrently; run the command again`,
    {
      retriable: true,
    },
  );
}

/** As "kubectl rollout restart" does. */
export async function restartDns(
  client: KubeClient,
  { clock }: Pick<RuntimeDeps, "clock">,
  signal: AbortSignal,
): Promise<void> {
  const annotations = { "kubectl.kubernetes.io/restartedAt": new Date(clock.now()).toISOString() };
  const patch = { spec: { template: { metadata: { annotations } } } };
  await client.mergePatch(DEPLOYMENTS, objectKey(DNS_NAMESPACE, "coredns"), patch, { signal });
}
