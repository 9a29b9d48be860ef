import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AFFINITY_CONFIG,
  AGE,
  bool,
  mapList,
  NAME_FITS_LABEL,
  atomicList,
  crd,
  int32,
  list,
  object,
  oneOf,
  text,
  textMap,
} from "../crd-schema.ts";

/** Kinds of `fairlead.dev`: those in the namespaces of members, and TrafficRoute, which the hub copies to members. */

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
  global: bool("Whether global Services of other clusters use its endpoints. Absent means false."),
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
              view: text(
                "The namespace of the hub that the member reads; its contents are not copied for the member.",
              ),
              nodeBlocks: int32("How many blocks of fleet addresses its nodes need, in a parallel network.", {
                minimum: 0,
              }),
              fleetAddresses: oneOf(
                ["Ready", "InUse"],
                '"Ready": endpoints have fleet addresses, and a gateway is accepted. "InUse": exports carry these addresses.',
              ),
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
          { name: "First-Cluster", type: "string", jsonPath: ".spec.clusters[0].cluster" },
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
              vips: {
                ...atomicList(
                  text(undefined, { minLength: 2, maxLength: 45 }),
                  "Virtual addresses in a parallel network, the same in every cluster.",
                ),
                maxItems: 2,
              },
              "clusters!": atomicList(IMPORTED_CLUSTER, "The exporting clusters."),
            }),
          },
          "A service of the fleet as its exports were merged, for the owner of the namespace. Written by the hub.",
        ),
      },
    ],
  }),
];

const TARGET = object({
  "name!": text("The name of the endpoint; others than the hub's are left alone."),
  "weight!": int32("Share of the answers.", { minimum: 1 }),
  priority: int32("Targets with the lowest number serve first. Absent means 0.", { minimum: 0 }),
  addresses: list(text(undefined, { minLength: 2, maxLength: 45 }), "Addresses, of both families.", {
    "x-kubernetes-list-type": "atomic",
    maxItems: 32,
  }),
  hostname: text("A domain in place of addresses.", { maxLength: 253 }),
  degraded: bool("Its health checks fail: not returned while other targets are healthy."),
  drained: bool("Its cluster is being drained: answered only where no other is left."),
});

/** In the view of the hub, and copied into members: what DNS servers answer. */
export const TRAFFIC_ROUTE_CRD: CustomResourceDefinition = crd({
  group: "fairlead.dev",
  categories,
  kind: "TrafficRoute",
  shortNames: ["troute"],
  versions: [
    {
      name: "v1alpha1",
      status: false,
      columns: [
        { name: "Profile", type: "string", jsonPath: ".spec.profile" },
        { name: "First-Target", type: "string", jsonPath: ".spec.targets[0].addresses" },
        AGE,
      ],
      schema: object(
        {
          "spec!": object({
            "profile!": text('The profile that it was made for, "namespace/name".'),
            "ttl!": int32("How long answers may be kept. Unit: seconds.", { minimum: 0, maximum: 3600 }),
            targets: {
              ...mapList("name", TARGET, "Where the name leads."),
              maxItems: 4096,
            },
          }),
        },
        "The answers for one name of the traffic manager's zone: the object's name. Written by the hub.",
        NAME_FITS_LABEL,
      ),
    },
  ],
});
