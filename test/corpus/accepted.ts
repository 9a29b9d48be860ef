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

export const ACCEPTED: readonly Acceptance[] = [
  {
    reason: "Messages that name Go's insides, or nothing",
    differences: {
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
    reason: "Definitions are established at once",
    differences: {
      "crds/a CustomResourceDefinition is accepted, established, changed and deleted": [
        ...[2, 4].map(
      "deletion/propagation policies leave their finalizers": [
        "6 GET /api/v1/namespaces/$ns/configmaps?limit=500: body.items[*]: *",
      ],
      "namespaces/a namespace is finalized": [
        "7 PUT /api/v1/namespaces/$id/finalize: body.metadata.resourceVersion: *",
      ],
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
];
