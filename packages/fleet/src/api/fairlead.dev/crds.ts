import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AFFINITY_CONFIG,
  AGE,
  atomicList,
  crd,
  int32,
  list,
  object,
  oneOf,
  text,
  textMap,
} from "../crd-schema.ts";

/** Kinds of `fairlead.dev`, all in mailboxes. */

const group = "fairlead.dev";
const categories = ["fleet-networking"];

const IMPORTED_CLUSTER = object({
  "cluster!": text("The id of the cluster."),
  "ports!": atomicList(
    object({
      "name!": text("The name of the port in that cluster."),
      "importedAs!": text("The name of the port in the import."),
    }),
    "The ports of the import that the cluster truly exposes.",
  ),
  weight: int32("Share of the requests; 0 means none. Absent means 1.", { minimum: 0, maximum: 1000 }),
  priority: int32("Clusters with the lowest number serve first. Absent means 0.", {
    minimum: 0,
    maximum: 1000,
  }),
});

const IMPORTED_PORT = object({
  name: text(),
  protocol: oneOf(["TCP", "UDP", "SCTP"]),
  appProtocol: text(),
  "port!": int32("Where clients connect to.", { minimum: 1, maximum: 65_535 }),
});

export const FAIRLEAD_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    categories,
    kind: "NamespaceReport",
    shortNames: ["nsreport"],
    versions: [
      {
        name: "v1alpha1",
        status: false,
        columns: [AGE],
        schema: object(
          {
            "spec!": object({
              "namespaces!": list(text(undefined, { minLength: 1, maxLength: 63 }), "Sorted.", {
                "x-kubernetes-list-type": "set",
              }),
              view: text("The namespace of the hub that the member reads; what is in it is not sent again."),
            }),
          },
          "The namespaces that a member has: services exported in these are sent to it. Written by its agent.",
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "ImportedService",
    shortNames: ["impsvc"],
    versions: [
      {
        name: "v1alpha1",
        status: false,
        columns: [
          { name: "Namespace", type: "string", jsonPath: ".spec.service.namespace" },
          { name: "Service", type: "string", jsonPath: ".spec.service.name" },
          { name: "Type", type: "string", jsonPath: ".spec.type" },
          { name: "Clusters", type: "string", jsonPath: ".spec.clusters[*].cluster" },
          AGE,
        ],
        schema: object(
          {
            "spec!": object({
              "service!": object({ "namespace!": text(), "name!": text() }),
              "type!": oneOf(["ClusterSetIP", "Headless"]),
              "ports!": atomicList(IMPORTED_PORT),
              ipFamilies: atomicList(oneOf(["IPv4", "IPv6"]), "Families that every exporter serves."),
              sessionAffinity: oneOf(["None", "ClientIP"]),
              sessionAffinityConfig: AFFINITY_CONFIG,
              internalTrafficPolicy: oneOf(["Cluster", "Local"]),
              trafficDistribution: text(),
              affinity: oneOf(
                ["none", "local", "remote"],
                "The clusters whose endpoints an importer prefers.",
              ),
              labels: textMap("For the ServiceImport."),
              annotations: textMap("For the ServiceImport."),
              "clusters!": atomicList(IMPORTED_CLUSTER, "The exporting clusters."),
            }),
          },
          "A service of the fleet as its exports were merged, for the owner of the namespace. Written by the hub.",
        ),
      },
    ],
  }),
];
