import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  atomicList,
  bool,
  CONDITIONS,
  crd,
  int32,
  LABEL_SELECTOR,
  object,
  oneOf,
  text,
  textMap,
  time,
} from "../crd-schema.ts";
import {
  IDENTITY_SLICE_TYPES,
  MAX_IDENTITY_ADDRESSES,
  MAX_IDENTITY_NODES,
  MAX_IDENTITY_POD_LABELS,
  MAX_IDENTITY_PODS,
  MAX_IDENTITY_PORTS,
  MAX_IDENTITY_REQUESTS,
} from "./v1alpha1/identities.ts";

/** Kinds of identities (`v1alpha1/identities.ts`). */

const group = "fairlead.dev";
const categories = ["fleet-networking"];

const CLUSTER = { minLength: 1, maxLength: 63 };
/** A prefix of 253 characters, a slash, and a name of 63. */
const LABEL_KEY = { minLength: 1, maxLength: 317 };
const NAME = { minLength: 1, maxLength: 253 };
const ADDRESS = { minLength: 2, maxLength: 45 };
/** At most so many: more than any pod or node has. Of keys, a policy limits the length. */
function labelsOf(maxProperties: number, description?: string): JsonSchema {
  const value = text(undefined, { maxLength: 63 });
  return { ...textMap(description), additionalProperties: value, maxProperties };
}

/** Replaced as a whole: managed fields of single ones would weigh more than they do. */
const ATOMIC: JsonSchema = { "x-kubernetes-map-type": "atomic" };

function addresses(maxItems: number): JsonSchema {
  return { ...atomicList(text(undefined, ADDRESS)), maxItems };
}

const PORT = object({
  "name!": text(undefined, { minLength: 1, maxLength: 63 }),
  "protocol!": oneOf(["TCP", "UDP", "SCTP"]),
  "port!": int32(undefined, { minimum: 1, maximum: 65_535 }),
});

const POD = object({
  "name!": text(undefined, NAME),
  "addresses!": { ...addresses(4), minItems: 1 },
  labels: labelsOf(MAX_IDENTITY_POD_LABELS, "Labels in addition to those of the slice, or in place of them."),
  without: {
    ...atomicList(text(undefined, LABEL_KEY), "Keys of labels of the slice that the pod does not have."),
    maxItems: MAX_IDENTITY_POD_LABELS,
  },
});

const NODE = object({
  "name!": text(undefined, NAME),
  "addresses!": addresses(8),
  labels: labelsOf(256),
});

const SLICE: JsonSchema = object(
  {
    "spec!": object(
      {
        "cluster!": text("The member.", CLUSTER),
        "type!": oneOf(
          IDENTITY_SLICE_TYPES,
          '"Pods": pods of one namespace with the same labels. "Namespace": the labels of a namespace. "Nodes": nodes. "Addresses": addresses that no selector of pods selects.',
        ),
        namespace: text("The namespace; absent for nodes and addresses.", { minLength: 1, maxLength: 63 }),
        labels: labelsOf(256, "The labels of the pods, or of the namespace."),
        serviceAccount: text("The service account of the pods.", { maxLength: 253 }),
        ports: { ...atomicList(PORT, "Named ports of the pods."), maxItems: MAX_IDENTITY_PORTS },
        pods: { ...atomicList(POD, "The pods."), maxItems: MAX_IDENTITY_PODS },
        nodes: { ...atomicList(NODE, "The nodes."), maxItems: MAX_IDENTITY_NODES },
        addresses: {
          ...addresses(MAX_IDENTITY_ADDRESSES),
          description: "The addresses: of pods in namespaces that are not global, and of hosts.",
        },
        "publishedAt!": time("When the member wrote it."),
      },
      undefined,
      ATOMIC,
    ),
    change: text("In the view: what the last write changed, in short.", { maxLength: 4096 }),
  },
  "Pods, a namespace, nodes or addresses of a member, as network policies of other members see them.",
);

const WANTS = {
  "requests!": {
    ...atomicList(
      object({
        clusters: { ...atomicList(text(undefined, CLUSTER), "Default: all others."), maxItems: 255 },
        namespaces: { ...atomicList(text(undefined, CLUSTER), "Default: all."), maxItems: 1000 },
        namespaceSelector: { ...LABEL_SELECTOR, description: "Default: all." },
        podSelector: { ...LABEL_SELECTOR, description: "Default: all." },
        addresses: bool(
          "Whether other addresses of the clusters, which no selector of pods selects, are needed, too. Default: false.",
        ),
      }),
      "Pods of global namespaces. What is absent matches all.",
    ),
    maxItems: MAX_IDENTITY_REQUESTS,
  },
  nodes: bool("Whether nodes are needed, too."),
};

/** On the hub, and copied into members. */
export const IDENTITY_SLICE_CRD: CustomResourceDefinition = crd({
  group,
  categories,
  kind: "IdentitySlice",
  versions: [
    {
      name: "v1alpha1",
      status: false,
      // Members watch these in place of objects, so each weighs in each change (docs/adr/0057-changes-of-identities.md).
      // The name of a slice begins with that of its cluster.
      columns: [
        { name: "Type", type: "string", jsonPath: ".spec.type" },
        { name: "Namespace", type: "string", jsonPath: ".spec.namespace" },
        { name: "Change", type: "string", jsonPath: ".change", priority: 1 },
      ],
      schema: SLICE,
    },
  ],
});

export const IDENTITY_DEMAND_CRD: CustomResourceDefinition = crd({
  group,
  categories,
  kind: "IdentityDemand",
  versions: [
    {
      name: "v1alpha1",
      columns: [AGE],
      schema: object(
        {
          "spec!": object(WANTS),
          status: object({
            wanted: object(WANTS, "What other members need to know of this one."),
            conditions: CONDITIONS,
          }),
        },
        "What a member needs to know of other members for its network policies. Written by its agent.",
      ),
    },
  ],
});
