import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { AGE, CONDITIONS, crd, int32, LABEL_SELECTOR, list, object, oneOf, text } from "../crd-schema.ts";

/** ClusterNetworkPolicy. Fields that are not here are kept, so that Fairlead can refuse by name what it does not enforce. */

const KEEP: JsonSchema = { "x-kubernetes-preserve-unknown-fields": true };

const PODS = object({ "namespaceSelector!": LABEL_SELECTOR, "podSelector!": LABEL_SELECTOR });
const PORT = { minimum: 1, maximum: 65_535 };

const TRANSPORT = object({
  destinationPort: object({
    number: int32(undefined, PORT),
    range: object({ "start!": int32(undefined, PORT), "end!": int32(undefined, PORT) }),
  }),
});

const PROTOCOLS = list(
  object(
    {
      tcp: TRANSPORT,
      udp: TRANSPORT,
      sctp: TRANSPORT,
      destinationNamedPort: text("Name of a container port."),
    },
    "Exactly one field.",
    KEEP,
  ),
  undefined,
  { minItems: 1, maxItems: 25 },
);

const POD_PEERS = { namespaces: LABEL_SELECTOR, pods: PODS };
const OTHER_PEERS = {
  nodes: LABEL_SELECTOR,
  networks: list(text(), "CIDRs. They match pods, too.", { minItems: 1, maxItems: 25 }),
  domainNames: list(text(), "Names, where the action is Accept.", { minItems: 1, maxItems: 25 }),
};

function rules(list_: "from" | "to"): JsonSchema {
  const peer = object(
    list_ === "from" ? POD_PEERS : { ...POD_PEERS, ...OTHER_PEERS },
    "Exactly one field.",
    KEEP,
  );
  return list(
    object(
      {
        name: text(undefined, { maxLength: 100 }),
        "action!": oneOf(["Accept", "Deny", "Pass"]),
        [`${list_}!`]: list(peer, undefined, { minItems: 1, maxItems: 25 }),
        protocols: PROTOCOLS,
      },
      undefined,
      KEEP,
    ),
    "The first rule that matches decides.",
    { maxItems: 25 },
  );
}

export const CLUSTER_POLICY_CRD: CustomResourceDefinition = crd({
  group: "policy.networking.k8s.io",
  kind: "ClusterNetworkPolicy",
  // Source: Kubernetes, "api-approved.kubernetes.io": groups of k8s.io need it.
  annotations: {
    "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/network-policy-api/pull/300",
  },
  plural: "clusternetworkpolicies",
  scope: "Cluster",
  versions: [
    {
      name: "v1alpha2",
      schema: object({
        "spec!": object(
          {
            "tier!": oneOf(["Admin", "Baseline"], "Before or after the policies of namespaces."),
            "priority!": int32("Lower decides first.", { minimum: 0, maximum: 1000 }),
            "subject!": object({ namespaces: LABEL_SELECTOR, pods: PODS }, "Exactly one field."),
            ingress: rules("from"),
            egress: rules("to"),
          },
          undefined,
          KEEP,
        ),
        status: object({ conditions: CONDITIONS }),
      }),
      columns: [
        { name: "Tier", type: "string", jsonPath: ".spec.tier" },
        { name: "Priority", type: "integer", jsonPath: ".spec.priority" },
        AGE,
      ],
    },
  ],
});
