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

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS = `${CRDS}/widgets.$id.example.com`;
const MAPS = "/api/v1/namespaces/$ns/configmaps";

export const ACCEPTED: readonly Acceptance[] = [
  {
    reason: "Messages that name Go's insides, or nothing",
    differences: {
      "deletion/delete options are checked": [`6 DELETE ${MAPS}/a: body.message: *`],
      "errors/bodies that say something else": [1, 2, 3, 4, 9, 10].map(
        (it) => `${it} POST ${MAPS}: body.message: *`,
      ),
      "lists/continue tokens are checked": [`2 GET ${MAPS}?limit=2&continue=nonsense: body.message: *`],
      "metadata/the name and the namespace of the path and those of the body have to agree": [9, 10].flatMap(
        (it) => [
          `${it} PATCH ${MAPS}/a: body.message: *`,
          `${it} PATCH ${MAPS}/a: body.details.causes[0].message: *`,
        ],
      ),
      "updates/an update of another uid is a conflict": [
        `1 PUT ${MAPS}/a: body.message: *StorageError: invalid object, Code: 4*`,
      ],
      ...Object.fromEntries(
        ["Deployment", "ReplicaSet", "StatefulSet"].map((kind) => [
          `scale/a ${kind} is scaled`,
          [`6 PUT /apis/apps/v1/namespaces/$ns/${kind.toLowerCase()}s/a/scale: body.message: *`],
        ]),
      ),
      "apply/a configuration must say who it is and whose it is": [
        "6 PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one: body.message: *",
        "7 PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one: body.message: *",
      ],
      "apply/JSON patches: all operations, negative indices, and what is refused": [
        ...[8, 10, 11, 12, 13, 15].map(
          (it) => `${it} PATCH /apis/$id.example.com/v1/namespaces/$ns/widgets/t: body.message: *`,
        ),
      ],
      "crds/definitions that are refused": [
        `9 POST ${CRDS}?dryRun=All: body.details.causes[0].message: "Invalid value: [{\\"Name\\"*`,
        ...[0, 1].map(
          (it) =>
            `12 POST ${CRDS}?dryRun=All: body.details.causes[${it}].message: "Invalid value: [{\\"Name\\"*`,
        ),
      ],
    },
  },
  {
    reason: "Managers have the time of what they did through scale",
    differences: {
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
      "discovery/the versions and the groups": ["2 GET /apis: body.groups.autoscaling.versions[1]: *"],
      "discovery/the group autoscaling": ["1 GET /apis/autoscaling: body.versions[1]: *"],
    },
  },
  {
      "dry-run/finalizers, namespaces and custom resources": [
        '6 DELETE *?dryRun=All: body.metadata.managedFields[1]: {"manager":"kube-apiserver"*',
      ],
    reason: "Definitions are established at once",
    differences: {
      "crds/a CustomResourceDefinition is accepted, established, changed and deleted": [
        ...[2, 4].map(
          (it) => `${it} GET ${WIDGETS}: body.metadata.managedFields[1]: {"manager":"kube-apiserver"*`,
        ),
        ...["2 GET", "3 PATCH", "4 GET", "9 DELETE"].map(
          (it) => `${it} ${WIDGETS}: body.metadata.resourceVersion: *`,
        ),
      ],
      "crds/names that another definition has": [
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
      "deletion/delete options are checked": [`8 DELETE ${MAPS}/a: body.message: *`],
    reason: "Texts of bodies that cannot be read",
    differences: {
      "errors/bodies that are no object": [
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
      "errors/answers that nobody can give": [
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
    reason: "Lists are negotiated as everything else",
    differences: {
      "errors/answers that nobody can give": [`7 GET ${MAPS}: *`],
    },
  },
  {
    reason: "Nothing is created under a name in the path",
    differences: {
      "errors/custom resources that are not there": [
        "10 POST /apis/$id.example.com/v1/namespaces/$ns/widgets/a: *",
      ],
    },
  },
  {
      "crud/a ClusterRole is created, read, labelled, replaced, listed and deleted": [
        ...["1 POST *", "2 GET *", "3 PATCH *", "4 PUT *"].map((it) => `${it}: body.rules: null -> []`),
        "5 GET *: body.items[0].rules: null -> []",
      ],
    reason: "Empty lists stay lists",
    differences: {
      "metadata/names are checked by the rules of their kind": [
        "11 POST /apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles: body.rules: null -> []",
      ],
    },
  },
  {
      "crud/a Node is created, read, labelled, replaced, listed and deleted": [
        ...["1 POST *", "2 GET *", "3 PATCH *", "4 PUT *"].map(
          (it) => `${it}: body.spec.taints: [{"key":"node.kubernetes.io/not-ready"*`,
        ),
        '5 GET *: body.items[0].spec.taints: [{"key":"node.kubernetes.io/not-ready"*',
      ],
    reason: "New Nodes have no taint",
    differences: {
      "metadata/the name and the namespace of the path and those of the body have to agree": [
        '11 POST /api/v1/nodes: body.spec.taints: [{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}] -> absent',
      ],
  {
    reason: "A dry run of a Service finds what is taken",
    differences: {
      "dry-run/no address and no port is taken": ["4 POST /api/v1/namespaces/$ns/services?dryRun=All: *"],
    },
  },
    },
  },
];
