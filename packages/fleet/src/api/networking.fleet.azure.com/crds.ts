import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AFFINITY_CONFIG,
  AGE,
  CONDITIONS,
  NAME_FITS_LABEL,
  atomicList,
  bool,
  conditionColumn,
  crd,
  int32,
  int64,
  list,
  mapList,
  object,
  oneOf,
  text,
  textMap,
  time,
} from "../crd-schema.ts";

/** Kinds of `networking.fleet.azure.com`. What other agents do not know is optional and says "addition". */

const group = "networking.fleet.azure.com";
const categories = ["fleet-networking"];

const SERVICE_PORT = object({
  name: text("Optional where there is only one port."),
  protocol: { ...oneOf(["TCP", "UDP", "SCTP"]), default: "TCP" },
  appProtocol: text("What is spoken over the port, as in a Service."),
  "port!": int32("Where clients connect to.", { minimum: 1, maximum: 65_535 }),
  targetPort: {
    description: "Where the endpoints listen: a number or the name of a port.",
    anyOf: [{ type: "integer" }, { type: "string" }],
    "x-kubernetes-int-or-string": true,
  },
});
const SERVICE_PORTS = atomicList(SERVICE_PORT, "The ports of the service.");

const REFERENCE = object(
  {
    "clusterId!": text("The cluster that the object is in."),
    apiVersion: text(),
    "kind!": text(),
    "namespace!": text(),
    "name!": text(),
    "resourceVersion!": text(),
    "generation!": int64(),
    "uid!": text(),
    "namespacedName!": text('"namespace/name".'),
    exportedSince: time("When this generation was first exported, by the clock of its cluster."),
  },
  "Where this comes from.",
  { "x-kubernetes-map-type": "atomic" },
);

const ENDPOINT_PORT = object(
  {
    name: text("The name of the port in the Service."),
    protocol: text(),
    port: int32("Where the endpoints listen."),
    appProtocol: text(),
  },
  undefined,
  { "x-kubernetes-map-type": "atomic" },
);

const ENDPOINT = object({
  "addresses!": list(text(), "All addresses of one backend; consumers use the first."),
  conditions: object(
    { ready: bool(), serving: bool(), terminating: bool() },
    "Addition. Absent means ready.",
  ),
  hostname: text("Addition. The host name of the backend, where it has one."),
  nodeName: text("Addition. The node that the backend is on."),
  zone: text("Addition. The zone that the backend is in."),
});

const ENDPOINT_SLICE = object({
  "addressType!": {
    ...oneOf(["IPv4", "IPv6"], "The family of all addresses. IPv6 is an addition."),
    default: "IPv4",
  },
  "endpoints!": atomicList(ENDPOINT, "The endpoints."),
  ports: atomicList(ENDPOINT_PORT, "The ports that every endpoint listens on."),
  weight: int32("Addition. Weight of each endpoint, for global Services; 0: no new connections.", {
    minimum: 0,
    maximum: 65_535,
  }),
  "endpointSliceReference!": REFERENCE,
  "ownerServiceReference!": object(
    { "namespace!": text(), "name!": text(), "namespacedName!": text('"namespace/name".') },
    "The Service that the endpoints are behind.",
  ),
});

const IMPORT_STATUS = object(
  {
    ips: list(text(), "Virtual addresses of the service.", { maxItems: 1 }),
    type: oneOf(["ClusterSetIP", "Headless"]),
    sessionAffinity: text('"ClientIP" or "None".'),
    sessionAffinityConfig: AFFINITY_CONFIG,
    ports: SERVICE_PORTS,
    clusters: mapList(
      "cluster",
      object({
        "cluster!": text("The id of the cluster."),
        ports: atomicList(
          object({
            "name!": text("The name of the port in the cluster."),
            "importedAs!": text("The name of the port in the import."),
          }),
          "Addition. Where ports are united: those that the cluster exposes. Absent means all.",
        ),
        weight: int32("Addition. Share of the requests for this cluster. Absent means 1.", {
          minimum: 0,
          maximum: 1000,
        }),
      }),
      "The clusters whose exports were accepted.",
    ),
    ipFamilies: atomicList(
      oneOf(["IPv4", "IPv6"]),
      "Addition. The families that the accepted clusters serve.",
    ),
    message: text("Addition. Why there is nothing to import, in words."),
  },
  "What the accepted exports agree on.",
);

const EXPORT_SPEC = object(
  {
    "ports!": SERVICE_PORTS,
    "serviceReference!": REFERENCE,
    type: text("The type of the Service."),
    isDNSLabelConfigured: bool("Whether the load balancer's address has a DNS label."),
    isInternalLoadBalancer: bool("Whether the load balancer is inside the network."),
    publicIPResourceID: text("The resource id of the load balancer's public address."),
    weight: int64("Share of the requests for this cluster, 0 to 1000. Absent means 1."),
    doors: atomicList(
      object({
        "group!": text("The API group of the ServiceExport."),
        "createdAt!": time("When the ServiceExport was created: the oldest wins a conflict."),
        exportedLabels: textMap("Labels for the ServiceImport."),
        exportedAnnotations: textMap("Annotations for the ServiceImport."),
      }),
      "Addition. The ServiceExports that ask for this. Absent: a fleet ServiceExport as old as this object.",
    ),
    portPolicy: oneOf(
      ["Strict", "Union"],
      "Addition. Whether a cluster with other ports stays out, or the ports are united. Absent means Strict.",
    ),
    headless: bool("Addition. Whether the Service has no virtual address."),
    ipFamilies: atomicList(oneOf(["IPv4", "IPv6"]), "Addition. The families of the Service."),
    sessionAffinity: oneOf(["None", "ClientIP"], "Addition."),
    sessionAffinityConfig: { ...AFFINITY_CONFIG, description: "Addition." },
    internalTrafficPolicy: oneOf(["Cluster", "Local"], "Addition."),
    trafficDistribution: text("Addition."),
    priority: int32("Addition. Clusters with the lowest number serve first. Absent means 0.", {
      minimum: 0,
      maximum: 1000,
    }),
    affinity: oneOf(
      ["none", "local", "remote"],
      "Addition. The clusters whose endpoints an importer prefers.",
    ),
    exportTo: atomicList(
      text(undefined, { minLength: 1, maxLength: 63 }),
      "Addition. The members that import from this cluster. Absent means all.",
      { maxItems: 1000 },
    ),
    loadBalancerIngress: atomicList(
      object({ ip: text(), hostname: text() }),
      "Addition. The addresses of the Service's load balancer.",
    ),
  },
  "An exported Service.",
);

const EXPORT_SCHEMA = object(
  { status: object({ conditions: CONDITIONS }) },
  "Exports the Service of the same namespace and name to the other clusters of the fleet. The annotation " +
    "networking.fleet.azure.com/weight, 0 to 1000, sets the share of requests for this cluster; 0 stops the export.",
  NAME_FITS_LABEL,
);
const EXPORT_COLUMNS = [
  conditionColumn("Is-Valid", "Valid"),
  conditionColumn("Is-Conflicted", "Conflict"),
  AGE,
];

const MULTI_CLUSTER_SERVICE_SCHEMA = object(
  {
    "spec!": object({
      serviceImport: object({
        "name!": text("The imported service, in the same namespace.", {
          maxLength: 63,
          pattern: "^([a-z]([-a-z0-9]*[a-z0-9])?)$",
        }),
      }),
    }),
    status: object({ loadBalancer: loadBalancerStatus(), conditions: CONDITIONS }),
  },
  "Puts one load balancer of this cluster in front of a service of the fleet.",
  NAME_FITS_LABEL,
);

function loadBalancerStatus(): JsonSchema {
  const error = text("Why the port has a problem.", {
    maxLength: 316,
    pattern:
      "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
  });
  const port = object({ "error!": error, "port!": int32(), "protocol!": text() });
  const ingress = object({ ip: text(), hostname: text(), ipMode: text(), ports: atomicList(port) });
  return object({ ingress: atomicList(ingress) }, "As the status of a Service.");
}

/** In clusters that export and import. */
export const FLEET_USER_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    categories,
    kind: "ServiceExport",
    shortNames: ["svcexport"],
    versions: [
      { name: "v1alpha1", storage: false, schema: EXPORT_SCHEMA, columns: EXPORT_COLUMNS },
      { name: "v1beta1", schema: EXPORT_SCHEMA, columns: EXPORT_COLUMNS },
    ],
  }),
  crd({
    group,
    categories,
    kind: "ServiceImport",
    shortNames: ["svcimport"],
    versions: [
      {
        name: "v1alpha1",
        schema: object({ status: IMPORT_STATUS }, "A service exported by other clusters.", NAME_FITS_LABEL),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "MultiClusterService",
    shortNames: ["mcs"],
    versions: [
      {
        name: "v1alpha1",
        schema: MULTI_CLUSTER_SERVICE_SCHEMA,
        columns: [
          { name: "Service-Import", type: "string", jsonPath: ".spec.serviceImport.name" },
          { name: "External-IP", type: "string", jsonPath: ".status.loadBalancer.ingress[0].ip" },
          conditionColumn("Is-Valid", "Valid"),
          AGE,
        ],
      },
    ],
  }),
];

/** In mailboxes, on the hub. */
export const FLEET_MAILBOX_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    categories,
    kind: "InternalServiceExport",
    shortNames: ["internalsvcexport"],
    versions: [
      {
        name: "v1alpha1",
        schema: object(
          { spec: EXPORT_SPEC, status: object({ conditions: CONDITIONS }) },
          "A Service that the owner of the namespace exports. Written by its agent.",
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "InternalServiceImport",
    shortNames: ["internalsvcimport"],
    versions: [
      {
        name: "v1alpha1",
        schema: object(
          {
            "spec!": object({
              "serviceImportReference!": REFERENCE,
              shared: bool("Addition. Whether other members may import the service at the same time."),
            }),
            status: IMPORT_STATUS,
          },
          "A service that the owner of the namespace wants to import. The hub fills in the status.",
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "EndpointSliceExport",
    versions: [
      {
        name: "v1alpha1",
        schema: object(
          { "spec!": ENDPOINT_SLICE },
          "Endpoints that the owner of the namespace exports. Written by its agent.",
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "EndpointSliceImport",
    versions: [
      {
        name: "v1alpha1",
        status: false,
        schema: object(
          { "spec!": ENDPOINT_SLICE },
          "Endpoints for the owner of the namespace. Written by the hub.",
        ),
      },
    ],
  }),
];
