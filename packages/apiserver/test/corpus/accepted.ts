/**
 * The differences between our server and the recorded one that we accept, each with its reason. docs/reference/differences.md explains them.
 * A difference is the line that the comparison prints, `*` standing for anything. One that no longer occurs fails the test.
 */
export interface Acceptance {
  /** Heading of the paragraph in docs/reference/differences.md. */
  readonly reason: string;
  /** By `<area>/<title>` of the scenario. */
  readonly differences: Readonly<Record<string, readonly string[]>>;
}

const INSTANCES = "/apis/$id.example.com/v1/namespaces/$ns/widgets";
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS = `${CRDS}/widgets.$id.example.com`;
const MAPS = "/api/v1/namespaces/$ns/configmaps";

export const ACCEPTED: readonly Acceptance[] = [
  {
    reason: "Messages with Go's internals, or without the cause",
    differences: {
      "rarely/topologies of a StorageClass that are empty or equal": [
        "3 POST /apis/storage.k8s.io/v1/storageclasses?dryRun=All: body.details.causes[1]: * -> absent",
      ],
      "content/metadata of objects and lists": [
        `3 GET ${MAPS}: body.message: *`,
        `4 GET ${MAPS}/a: body.message: *`,
      ],
      "allocators/an address that an IPAddress names is taken": [
        "6 PATCH /apis/networking.k8s.io/v1/ipaddresses/10.0.0.186: body.message: *",
        "6 PATCH /apis/networking.k8s.io/v1/ipaddresses/10.0.0.186: body.details.causes[0].message: *",
      ],
      "content/protobuf in": [3, 4].map((it) => `${it} POST ${MAPS}: body.message: *`),
      "deletion/delete options are checked": [`6 DELETE ${MAPS}/a: body.message: *`],
      "errors/bodies with another kind or version": [1, 2, 3, 4, 9, 10].map(
        (it) => `${it} POST ${MAPS}: body.message: *`,
      ),
      "lists/continue tokens are checked": [`2 GET ${MAPS}?limit=2&continue=nonsense: body.message: *`],
      "metadata/name and namespace must be equal in path and body": [9, 10].flatMap((it) => [
        `${it} PATCH ${MAPS}/a: body.message: *`,
        `${it} PATCH ${MAPS}/a: body.details.causes[0].message: *`,
      ]),
      "updates/an update of another uid is a conflict": [
        `1 PUT ${MAPS}/a: body.message: *StorageError: invalid object, Code: 4*`,
      ],
      ...Object.fromEntries(
        ["Deployment", "ReplicaSet", "StatefulSet"].map((kind) => [
          `scale/a ${kind} is scaled`,
          [`6 PUT /apis/apps/v1/namespaces/$ns/${kind.toLowerCase()}s/a/scale: body.message: *`],
        ]),
      ),
      "apply/a configuration must match its path, and needs a field manager": [
        "6 PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one: body.message: *",
      ],
      "apply/JSON patches: all operations, negative indices, and what is refused": [
        8, 10, 11, 12, 13, 15,
      ].map((it) => `${it} PATCH /apis/$id.example.com/v1/namespaces/$ns/widgets/t: body.message: *`),
      "crds/definitions that are rejected": [
        `9 POST ${CRDS}?dryRun=All: body.details.causes[0].message: "Invalid value: [{\\"Name\\"*`,
        ...[0, 1].map(
          (it) =>
            `12 POST ${CRDS}?dryRun=All: body.details.causes[${it}].message: "Invalid value: [{\\"Name\\"*`,
        ),
      ],
    },
  },
  {
    reason: "Rows have as many cells as columns",
    differences: {
      "allocators/each address of a Service has an IPAddress": [
        "4 GET /apis/networking.k8s.io/v1/ipaddresses/10.0.0.181: body.rows[0].cells[2]: *",
      ],
    },
  },
  {
    reason: "Writes through scale set the manager's time",
    differences: {
      "crds/the scale subresource of a custom resource": [
        ...["4 PUT", "5 PUT", "6 PATCH"].map(
          (it) => `${it} ${INSTANCES}/a/scale: body.metadata.resourceVersion: *`,
        ),
        `8 GET ${INSTANCES}/a: body.metadata.managedFields[*`,
        `8 GET ${INSTANCES}/a: body.metadata.resourceVersion: *`,
        `10 PATCH ${INSTANCES}/none/scale: body.metadata.resourceVersion: *`,
        `11 GET ${INSTANCES}/none: body.metadata.resourceVersion: *`,
      ],
      "apply/replicas are taken through scale, and a conflict names it": [
        "4 PATCH /apis/apps/v1/namespaces/$ns/deployments/web?fieldManager=one&force=false: body.metadata.managedFields[1].time: *",
        "5 GET /apis/apps/v1/namespaces/$ns/deployments/web: body.metadata.managedFields[1].time: *",
      ],
      ...Object.fromEntries(
        ["Deployment", "ReplicaSet", "StatefulSet"].map((kind) => [
          `scale/a ${kind} is scaled`,
          [
            `15 GET /apis/apps/v1/namespaces/$ns/${kind.toLowerCase()}s/a: body.metadata.managedFields[1].time: *`,
          ],
        ]),
      ),
    },
  },
  {
    reason: "The garbage collector is built in",
    differences: {
      "deletion/query parameters are delete options too": ["4 GET /api/v1/namespaces/$ns/configmaps/a: *"],
      "deletion/propagation policies leave their finalizers": [
        "6 GET /api/v1/namespaces/$ns/configmaps?limit=500: body.items[*]: *",
      ],
      "namespaces/a namespace is finalized": [
        "7 PUT /api/v1/namespaces/$id/finalize: body.metadata.resourceVersion: *",
      ],
    },
  },
  {
    reason: "Fewer resources are served",
    differences: {
      "discovery/the core resources": [
        "bindings",
        "componentstatuses",
        "nodes/proxy",
        "pods/ephemeralcontainers",
        "pods/proxy",
        "pods/resize",
        "services/proxy",
      ].map((it) => `1 GET /api/v1: body.resources.${it}: * -> absent`),
      "discovery/aggregated discovery of the core": [
        "bindings",
        "componentstatuses",
        "nodes.subresources.proxy",
        "pods.subresources.ephemeralcontainers",
        "pods.subresources.proxy",
        "pods.subresources.resize",
        "services.subresources.proxy",
      ].map((it) => `1 GET /api: body.items.core[0].resources.${it}: * -> absent`),
      "discovery/the resources of admissionregistration.k8s.io/v1": ["policies", "policybindings"].map(
        (it) =>
          `1 GET /apis/admissionregistration.k8s.io/v1: body.resources.mutatingadmission${it}: * -> absent`,
      ),
      "discovery/aggregated discovery of admissionregistration.k8s.io": ["policies", "policybindings"].map(
        (it) =>
          `1 GET /apis: body.items.admissionregistration.k8s.io[0].resources.mutatingadmission${it}: * -> absent`,
      ),
      "discovery/aggregated discovery of autoscaling": [
        "1 GET /apis: body.items.autoscaling[1]: * -> absent",
      ],
      "discovery/the versions and the groups": ["2 GET /apis: body.groups.autoscaling.versions[1]: *"],
      "discovery/the group autoscaling": ["1 GET /apis/autoscaling: body.versions[1]: *"],
    },
  },
  {
    reason: "CRDs are established at once",
    differences: {
      "dry-run/finalizers, namespaces and custom resources": [
        '6 DELETE *?dryRun=All: body.metadata.managedFields[1]: {"manager":"kube-apiserver"*',
      ],
      "crds/a CustomResourceDefinition is accepted, established, changed and deleted": [
        ...[2, 4].map(
          (it) => `${it} GET ${WIDGETS}: body.metadata.managedFields[1]: {"manager":"kube-apiserver"*`,
        ),
        ...["2 GET", "3 PATCH", "4 GET", "9 DELETE"].map(
          (it) => `${it} ${WIDGETS}: body.metadata.resourceVersion: *`,
        ),
      ],
      "crds/names of another definition": [
        `3 GET ${CRDS}/gadgets.$id.example.com: body.metadata.resourceVersion: *`,
        `3 GET ${CRDS}/gadgets.$id.example.com: body.metadata.managedFields[1]: {"manager":"kube-apiserver"*`,
      ],
      "crds/several versions of one kind": [
        `10 PATCH ${WIDGETS}/status: body.metadata.managedFields[*`,
        `11 PATCH ${WIDGETS}/status: body.metadata.managedFields[2]: {"manager":"kube-apiserver"*`,
      ],
    },
  },
  {
    reason: "Messages for malformed bodies",
    differences: {
      "rarely/transport: unusual methods, byte order marks and paths": [`1 POST ${MAPS}: body.message: *`],
      "content/media types of errors": [`4 POST ${MAPS}: body.message: *`],
      "deletion/delete options are checked": [`8 DELETE ${MAPS}/a: body.message: *`],
      "errors/bodies that are not objects": [
        ...[1, 2, 3, 5, 6, 7, 9, 10, 11, 14, 15, 17, 19, 20, 21, 22].map(
          (it) => `${it} POST ${MAPS}: body.message: *`,
        ),
        `23 PUT ${MAPS}/a: body.message: *`,
      ],
    },
  },
  {
    reason: "Protobuf is read, not written",
    differences: {
      "content/media types of errors": [
        ...["message", "details"].map((it) => `1 GET ${MAPS}/absent: body.${it}: *`),
        ...["status: 404 -> 406", "headers: *", 'body: "<protobuf>" -> *'].map(
          (it) => `2 GET ${MAPS}/absent: ${it}`,
        ),
      ],
      "content/metadata of objects and lists": ["8 GET /api/v1: body.message: *"],
      "content/protobuf in": [
        ...[6, 7].flatMap((it) => [
          `${it} GET ${MAPS}/a: headers: *`,
          `${it} GET ${MAPS}/a: body: "<protobuf>" -> *`,
        ]),
        `7 GET ${MAPS}/a: status: 200 -> 406`,
      ],
      "discovery/forms of aggregated discovery": [
        ...[2, 6].map((it) => `${it} GET /apis: body.message: *`),
        "7 GET /apis/apps: body.message: *",
      ],
      "errors/media types that cannot be produced": [
        ...[1, 2].flatMap((it) => [
          `${it} GET ${MAPS}: body.message: *`,
          `${it} GET ${MAPS}: body.details: {}*`,
        ]),
        ...[3, 4].map((it) => `${it} GET ${MAPS}: body.message: *`),
        `9 GET ${MAPS}/a: body.message: *`,
        `9 GET ${MAPS}/a: body.details: {}*`,
        "10 GET /api/v1: body.message: *",
        "10 GET /api/v1: body.details: {}*",
        "11 GET /apis: body.message: *",
        "12 GET /version: body.message: *",
        "12 GET /version: body.details: {}*",
      ],
      "watches/a watch as yaml": [`1 WATCH ${MAPS}?watch=true&resourceVersion=0: body.message: *`],
    },
  },
  {
    reason: "Content negotiation of lists is the same as elsewhere",
    differences: {
      "rarely/transport: unusual methods, byte order marks and paths": [`4 GET ${MAPS}: *`],
      "errors/media types that cannot be produced": [`7 GET ${MAPS}: *`],
    },
  },
  {
    reason: "POST to the path of an object is 405",
    differences: {
      "errors/custom resources that do not exist": [
        "10 POST /apis/$id.example.com/v1/namespaces/$ns/widgets/a: *",
      ],
    },
  },
  {
    reason: "New Nodes have no taint",
    differences: {
      "crud/a Node is created, read, labelled, replaced, listed and deleted": [
        ...["1 POST *", "2 GET *", "3 PATCH *", "4 PUT *"].map(
          (it) => `${it}: body.spec.taints: [{"key":"node.kubernetes.io/not-ready"*`,
        ),
        '5 GET *: body.items[0].spec.taints: [{"key":"node.kubernetes.io/not-ready"*',
      ],
      "metadata/name and namespace must be equal in path and body": [
        '11 POST /api/v1/nodes: body.spec.taints: [{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}] -> absent',
      ],
    },
  },
  {
    reason: "A dry run of a Service finds taken addresses and ports",
    differences: {
      "dry-run/no address and no port is allocated": ["4 POST /api/v1/namespaces/$ns/services?dryRun=All: *"],
    },
  },
  {
    reason: "Duplicate keys are reported with their path",
    differences: {
      "field-validation/duplicate keys of a custom resource": [
        `5 POST ${INSTANCES}?fieldValidation=Strict: body.message: *`,
        `6 POST ${INSTANCES}?fieldValidation=Warn: headers.Warning: *`,
        `8 POST ${INSTANCES}?fieldManager=m: headers.Warning: *`,
      ],
      "field-validation/duplicate keys in YAML": [
        `1 POST ${MAPS}?fieldValidation=Strict: body.message: *`,
        ...["2 POST *Warn", "4 POST *fieldManager=m"].flatMap((it) => [
          `${it}: headers.Warning[0]: *`,
          `${it}: headers.Warning[1]: *`,
        ]),
        ...["status: 500 -> 400", "body.message: *", "body.code: *", "body.reason: *"].map(
          (it) => `5 PATCH ${MAPS}/a-strict?force=true&fieldManager=m&fieldValidation=Strict: ${it}`,
        ),
        `6 PATCH ${MAPS}/a-warn?*: headers: absent -> *`,
        `8 PATCH ${MAPS}/a-unset?*: headers: absent -> *`,
      ],
    },
  },
  {
    reason: "An object without a name gets no further errors",
    differences: {
      "crds/definitions that are rejected": [
        `22 POST ${CRDS}?dryRun=All: body.message: *`,
        ...[1, 2, 3, 4, 5, 6, 7, 8].map(
          (it) => `22 POST ${CRDS}?dryRun=All: body.details.causes[${it}]: * -> absent`,
        ),
      ],
    },
  },
  {
    reason: "Fields behind disabled feature gates have no manager",
    differences: {
      "kinds/what is made of a whole object: podgated": [
        "1 POST /api/v1/namespaces/$ns/pods: body.metadata.managedFields[0].*.f:stopSignal: *",
        "2 DELETE /api/v1/namespaces/$ns/pods/a: body.metadata.managedFields[0].*.f:stopSignal: *",
      ],
      "kinds/what is made of a whole object: statefulset": [
        "1 POST /apis/apps/v1/namespaces/$ns/statefulsets: body.metadata.managedFields[0].*.f:maxUnavailable: *",
      ],
    },
  },
  {
    reason: "Descriptions are our own",
    differences: {
      "rarely/OpenAPI of a definition": [
        "2 GET /openapi/v3/apis/$id.example.com/v1: body.properties.*description: *",
      ],
    },
  },
  {
    reason: "Integers beyond 64 bits are refused",
    differences: {
      "rarely/integers that a double cannot hold": [
        `4 POST ${INSTANCES}: *`,
        ...[6, 7, 8].map(
          (it) => `${it} PATCH ${INSTANCES}/w0: body.metadata.managedFields[0].fieldsV1.f:spec.f:s.v:*`,
        ),
        `9 PATCH ${INSTANCES}/w0?fieldManager=m&force=true: body.metadata.managedFields[0].fieldsV1.f:spec.f:s.v:*`,
      ],
    },
  },
];
