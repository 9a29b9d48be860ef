import type {
  Operation,
  ValidatingWebhook,
  ValidatingWebhookConfiguration,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { WEBHOOK_CONFIGURATION } from "#api/fairlead.dev/names.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  PLACEMENT_DISRUPTION_BUDGETS,
  PLACEMENT_EVICTIONS,
  RESOURCE_OVERRIDES,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { CLUSTER_RESOURCE_PLACEMENTS } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** Where the API server reaches the webhook. */
export type WebhookAddress =
  | { readonly service: { readonly namespace: string; readonly name: string; readonly port?: number } }
  | { readonly url: string };

interface Rule {
  readonly name: string;
  readonly of: Pick<Resource, "group" | "plural">;
  readonly operations: readonly Operation[];
  /** Only what fulfils it is asked about, so that the rest works while the hub does not. */
  readonly only?: string;
}

const SPEC_CHANGES = "oldObject == null || object.spec != oldObject.spec";
const RULES: readonly Rule[] = [
  {
    name: "leave",
    of: MEMBER_CLUSTERS,
    operations: ["DELETE"],
    only: 'oldObject.spec.?deleteOptions.?validationMode.orValue("Strict") != "Skip" && !has(oldObject.metadata.deletionTimestamp)',
  },
  {
    name: "cluster-overrides",
    of: CLUSTER_RESOURCE_OVERRIDES,
    operations: ["CREATE", "UPDATE"],
    only: SPEC_CHANGES,
  },
  { name: "overrides", of: RESOURCE_OVERRIDES, operations: ["CREATE", "UPDATE"], only: SPEC_CHANGES },
  {
    name: "placements",
    of: CLUSTER_RESOURCE_PLACEMENTS,
    operations: ["CREATE", "UPDATE"],
    only: SPEC_CHANGES,
  },
  { name: "evictions", of: PLACEMENT_EVICTIONS, operations: ["CREATE"] },
  { name: "budgets", of: PLACEMENT_DISRUPTION_BUDGETS, operations: ["CREATE", "UPDATE"], only: SPEC_CHANGES },
];

/**
 * Fail-closed, for a few kinds of people only: no Lease, Pod or Secret passes it, and nothing that the hub itself writes. So a hub
 * that is down can start again.
 */
export function webhookConfiguration(
  address: WebhookAddress,
  { caBundle, user }: { readonly caBundle: string; readonly user: string },
): ValidatingWebhookConfiguration {
  const webhook = ({ name, of, operations, only }: Rule): ValidatingWebhook => ({
    name: `${name}.hub.fairlead.dev`,
    rules: [
      { apiGroups: [of.group], apiVersions: ["v1beta1"], resources: [of.plural], operations, scope: "*" },
    ],
    clientConfig: {
      ...("url" in address
        ? { url: `${address.url}/validate` }
        : { service: { ...address.service, port: address.service.port ?? 443, path: "/validate" } }),
      caBundle: Buffer.from(caBundle).toString("base64"),
    },
    failurePolicy: "Fail",
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    timeoutSeconds: 5,
    matchConditions: [
      { name: "not-the-hub", expression: `request.userInfo.username != ${JSON.stringify(user)}` },
      ...(only === undefined ? [] : [{ name: "only", expression: only }]),
    ],
  });
  return { metadata: { name: WEBHOOK_CONFIGURATION }, webhooks: RULES.map(webhook) };
}
