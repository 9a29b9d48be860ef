import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  bool,
  conditionColumn,
  CONDITIONS,
  crd,
  int32,
  LABEL_SELECTOR,
  list,
  object,
  oneOf,
  text,
} from "../crd-schema.ts";

/**
 * Cilium's kinds of network policies, for clusters without Cilium. Fields that are not here are kept, so that Fairlead can refuse by name what
 * it does not enforce.
 */

const group = "cilium.io";
const KEEP: JsonSchema = { "x-kubernetes-preserve-unknown-fields": true };
const ANY: JsonSchema = { type: "object", ...KEEP };

const FQDN = object({
  matchName: text("A DNS name."),
  matchPattern: text("A pattern of DNS names, such as *.example.com."),
});

const PORTS = list(
  object({
    port: text("A number, 0 for all, or a name."),
    endPort: int32("The last port of a range.", { minimum: 0, maximum: 65_535 }),
    protocol: oneOf(
      ["TCP", "UDP", "SCTP", "VRRP", "IGMP", "ANY"],
      "Default: ANY, which is TCP, UDP and SCTP.",
    ),
  }),
  undefined,
  { maxItems: 40 },
);

const TO_PORTS = list(
  object({ ports: PORTS, rules: object({ dns: list(FQDN) }, undefined, KEEP) }, undefined, KEEP),
  "Destination ports.",
);
const TO_PORTS_DENY = list(object({ ports: PORTS }), "Destination ports.");

const ICMPS = list(
  object({
    fields: list(
      object({
        family: oneOf(["IPv4", "IPv6"], "Default: IPv4."),
        "type!": {
          "x-kubernetes-int-or-string": true,
          description: "A number, or a name such as EchoRequest.",
        },
      }),
      undefined,
      { maxItems: 40 },
    ),
  }),
  "Types of ICMP.",
);

const CIDR_SET = list(
  object({
    cidr: text(),
    cidrGroupRef: text("Name of a CiliumCIDRGroup."),
    cidrGroupSelector: LABEL_SELECTOR,
    except: list(text(), "CIDRs inside the others that are not meant."),
  }),
);

const SERVICE = object({
  k8sService: object({ serviceName: text(), namespace: text() }),
  k8sServiceSelector: object({ "selector!": LABEL_SELECTOR, namespace: text() }),
});

function peers(way: "from" | "to"): Record<string, JsonSchema> {
  return {
    [`${way}Endpoints`]: list(LABEL_SELECTOR, "Pods."),
    [`${way}Entities`]: list(text(), "Entities such as world, cluster, host and remote-node."),
    [`${way}CIDR`]: list(text(), "CIDRs and addresses."),
    [`${way}CIDRSet`]: CIDR_SET,
    [`${way}Nodes`]: list(LABEL_SELECTOR, "Nodes other than the own one."),
    ...(way === "from" ? {} : { toServices: list(SERVICE, "Pods of Services.") }),
  };
}

function rule(way: "from" | "to", isDenying: boolean): JsonSchema {
  return object(
    {
      ...peers(way),
      ...(way === "to" && !isDenying ? { toFQDNs: list(FQDN, "Addresses of DNS names.") } : {}),
      ...(isDenying ? {} : { authentication: object({ "mode!": text("Only disabled is enforced.") }) }),
      toPorts: isDenying ? TO_PORTS_DENY : TO_PORTS,
      icmps: ICMPS,
    },
    undefined,
    KEEP,
  );
}

const SPEC = object(
  {
    endpointSelector: { ...LABEL_SELECTOR, description: "The pods that the policy is for." },
    nodeSelector: { ...LABEL_SELECTOR, description: "The nodes that a policy of the cluster is for." },
    ingress: list(rule("from", false)),
    ingressDeny: list(rule("from", true)),
    egress: list(rule("to", false)),
    egressDeny: list(rule("to", true)),
    enableDefaultDeny: object({ ingress: bool(), egress: bool() }),
    labels: list(ANY),
    description: text(),
    log: object({ value: text() }),
  },
  "The pods or nodes that the policy is for, and what it allows and denies.",
  KEEP,
);

const POLICY = object({
  spec: SPEC,
  specs: list(SPEC),
  status: object({ conditions: CONDITIONS }, undefined, KEEP),
});

export const CILIUM_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    kind: "CiliumNetworkPolicy",
    plural: "ciliumnetworkpolicies",
    shortNames: ["cnp", "ciliumnp"],
    versions: [{ name: "v2", schema: POLICY, columns: [AGE, conditionColumn("Valid", "Valid")] }],
  }),
  crd({
    group,
    kind: "CiliumClusterwideNetworkPolicy",
    plural: "ciliumclusterwidenetworkpolicies",
    scope: "Cluster",
    shortNames: ["ccnp"],
    versions: [{ name: "v2", schema: POLICY, columns: [AGE, conditionColumn("Valid", "Valid")] }],
  }),
  crd({
    group,
    kind: "CiliumCIDRGroup",
    scope: "Cluster",
    shortNames: ["ccg"],
    versions: [
      {
        name: "v2",
        schema: object({ "spec!": object({ "externalCIDRs!": list(text(), "CIDRs and addresses.") }) }),
        status: false,
        columns: [AGE],
      },
    ],
  }),
];
