import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { DNS_SERVERS, INSTALLED_BY, INSTALLED_BY_LABEL, MEMBER_AGENT } from "#api/fairlead.dev/installed.ts";
import { UPGRADED_FROM_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { PERMISSIONS_VARIABLE } from "#authz/digest.ts";
import { lackingOf } from "#domain/deployment.ts";
import { isReady, whyNotRunning } from "#domain/pods.ts";
import { isNewer } from "#updates/clusters/version-rules.ts";
import { type Deployment, DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";

/** The Deployments that `fairlead join` installed, which follow the version of the node agents. Those of Helm or users are not changed. */

const DNS_KEY = objectKey(FLEET_SYSTEM_NAMESPACE, DNS_SERVERS);
const MEMBER_KEY = objectKey(FLEET_SYSTEM_NAMESPACE, MEMBER_AGENT);

/** Gives the DNS servers the image of the node agents. They stay when the cluster leaves the network: flat networks have them, too. */
export async function upgradeDns(local: KubeClient, image: string, signal: AbortSignal): Promise<void> {
  const found = await local.find(DEPLOYMENTS, DNS_KEY, { signal });
  const deployment = found === undefined || !isInstalled(found) ? undefined : found;
  const current = containerOf(deployment, "dns")?.image;
  if (deployment === undefined || current === undefined || current === image) return;
  await apply(local, withImage(deployment, "dns", image), signal);
}

/** How far the rollout of an image to this program is. */
export interface OwnRollout {
  /** What the Deployment lacks; undefined: all copies run the image, or it is not given to them. */
  readonly lacking: string | undefined;
  /** Why pods of it do not run. */
  readonly problems: readonly string[];
}

interface WantedImage {
  readonly image: string;
  /** The version of this program. */
  readonly version: string;
}

const DONE: OwnRollout = { lacking: undefined, problems: [] };

/**
 * Gives the copies of this program the image of the node agents, which run it already. The copies that run stay until those with the image
 * are ready; these end if `fairlead join` granted other permissions than they need.
 */
export async function upgradeOwn(
  local: KubeClient,
  wanted: WantedImage,
  signal: AbortSignal,
): Promise<OwnRollout> {
  const found = await local.find(DEPLOYMENTS, MEMBER_KEY, { signal });
  const plan = planOwn(found, wanted);
  if (plan.step === "nothing") return DONE;
  if (plan.step === "apply") {
    await apply(local, plan.wanted, signal);
    return { lacking: "its Deployment is being written", problems: [] };
  }
  const { lacking, selector } = plan;
  const pods = await local.list(PODS, { namespace: FLEET_SYSTEM_NAMESPACE, labelSelector: selector, signal });
  return { lacking, problems: problemsOf(pods.items, wanted.image) };
}

type OwnPlan =
  | { readonly step: "nothing" }
  | { readonly step: "apply"; readonly wanted: Applied<Deployment> }
  | { readonly step: "wait"; readonly lacking: string; readonly selector: string };

/**
 * Decides for the Deployment of this program. A version older than that of this program is only given to it if it is the one that it was
 * upgraded from: `fairlead join` may install newer agents than a profile names. Pure.
 */
export function planOwn(deployment: Deployment | undefined, wanted: WantedImage): OwnPlan {
  const current = containerOf(deployment, "member")?.image;
  if (deployment === undefined || current === undefined || !isUpgradable(deployment))
    return { step: "nothing" };
  if (current !== wanted.image) {
    if (isOlder(deployment, wanted)) return { step: "nothing" };
    const annotations = { [UPGRADED_FROM_ANNOTATION]: current };
    return { step: "apply", wanted: withImage(deployment, "member", wanted.image, annotations) };
  }
  const lacking = lackingOf(deployment);
  if (lacking === undefined) return { step: "nothing" };
  const labels = Object.entries(deployment.spec?.selector.matchLabels ?? {});
  return { step: "wait", lacking, selector: labels.map((it) => it.join("=")).join(",") };
}

/** Whether it is known which permissions its copies have. */
function isUpgradable(deployment: Deployment): boolean {
  const variables = containerOf(deployment, "member")?.env ?? [];
  const granted = variables.find((it) => it.name === PERMISSIONS_VARIABLE)?.value ?? "";
  return granted !== "" && isInstalled(deployment);
}

function isOlder({ metadata }: Deployment, { image, version }: WantedImage): boolean {
  return metadata.annotations?.[UPGRADED_FROM_ANNOTATION] !== image && isNewer(version, tagOf(image));
}

function isInstalled({ metadata }: Deployment): boolean {
  return metadata.labels?.[INSTALLED_BY_LABEL] === INSTALLED_BY;
}

function containerOf(deployment: Deployment | undefined, name: string) {
  return deployment?.spec?.template.spec?.containers.find((it) => it.name === name);
}

function tagOf(image: string): string {
  return image.slice(image.lastIndexOf(":") + 1);
}

function withImage(
  { metadata: { namespace = "", name } }: Deployment,
  container: string,
  image: string,
  annotations?: Record<string, string>,
): Applied<Deployment> {
  return {
    metadata: { namespace, name, ...(annotations === undefined ? {} : { annotations }) },
    spec: { template: { spec: { containers: [{ name: container, image }] } } },
  };
}

async function apply(local: KubeClient, change: Applied<Deployment>, signal: AbortSignal): Promise<void> {
  await local.apply(DEPLOYMENTS, change, { fieldManager: MEMBER_MANAGER, force: true, signal });
}

/** Pods of the image that do not run, with the reasons. A pod that starts has none yet. */
function problemsOf(pods: readonly Pod[], image: string): string[] {
  return pods
    .filter((it) => !isReady(it) && it.spec?.containers.some((container) => container.image === image))
    .filter((it) =>
      it.status?.containerStatuses?.some(
        ({ restartCount, state }) => restartCount > 0 || isStuck(state?.waiting?.reason),
      ),
    )
    .map((it) => `${it.metadata.name}: ${whyNotRunning(it)}`);
}

const STARTING = new Set(["ContainerCreating", "PodInitializing"]);

function isStuck(reason: string | undefined): boolean {
  return reason !== undefined && !STARTING.has(reason);
}
