import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AFFINITY_CONFIG,
  AGE,
  CONDITIONS,
  atomicList,
  crd,
  int32,
  list,
  mapList,
  object,
  oneOf,
  text,
  textMap,
} from "../crd-schema.ts";

/** Kinds of `multicluster.x-k8s.io` (Multi-Cluster Services API, KEP-1645). Both versions have one shape. */

const group = "multicluster.x-k8s.io";
/** Installers compare these and do not go back. */
const labels = {
  "multicluster.x-k8s.io/release-version": "v0.5.2",
  "multicluster.x-k8s.io/crd-schema-revision": "0",
};

const EXPORT = object(
  {
    spec: object({
      exportedLabels: textMap("Labels for the ServiceImport."),
      exportedAnnotations: textMap("Annotations for the ServiceImport."),
    }),
    status: object({ conditions: CONDITIONS }),
  },
  "Makes the Service of the same namespace and name usable from every cluster of the set.",
);

const IMPORT = object(
  {
    spec: object({
      "type!": oneOf(["ClusterSetIP", "Headless"]),
      "ports!": atomicList(
        object({
          name: text("Optional where there is only one port."),
          protocol: text("TCP, UDP or SCTP."),
          appProtocol: text("What is spoken over the port, as in a Service."),
          "port!": int32("Where clients connect to."),
        }),
      ),
      ips: list(text(), "The virtual addresses, one per family. None where the type is Headless.", {
        maxItems: 2,
      }),
      ipFamilies: list(text(), "The families of `ips`, in their order.", { maxItems: 2 }),
      sessionAffinity: text('"ClientIP" or "None".'),
      sessionAffinityConfig: AFFINITY_CONFIG,
      internalTrafficPolicy: text('"Cluster" or "Local".'),
      trafficDistribution: text("A preference among endpoints, as in a Service."),
    }),
    status: object({
      clusters: mapList(
        "cluster",
        object({ "cluster!": text("The id of the cluster.") }),
        "The clusters that export the service.",
      ),
      conditions: CONDITIONS,
      endpointSliceObjects: oneOf(
        ["Present", "Absent"],
        "Addition. Whether EndpointSlices for the service exist in this cluster.",
      ),
    }),
  },
  "A service that clusters of the set export. Written by the controller alone.",
);

const IMPORT_COLUMNS = [
  { name: "Type", type: "string", jsonPath: ".spec.type", description: "ClusterSetIP or Headless" },
  { name: "IP", type: "string", jsonPath: ".spec.ips", description: "The virtual addresses" },
  AGE,
];

export const MULTICLUSTER_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    labels,
    kind: "ServiceExport",
    shortNames: ["svcex", "svcexport"],
    versions: [
      { name: "v1alpha1", storage: false, schema: EXPORT, columns: [AGE] },
      { name: "v1beta1", schema: EXPORT, columns: [AGE] },
    ],
  }),
  crd({
    group,
    labels,
    kind: "ServiceImport",
    shortNames: ["svcim", "svcimport"],
    versions: [
      { name: "v1alpha1", storage: false, schema: IMPORT, columns: IMPORT_COLUMNS },
      { name: "v1beta1", schema: IMPORT, columns: IMPORT_COLUMNS },
    ],
  }),
];
