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

export const ACCEPTED: readonly Acceptance[] = [
  {
    reason: "Messages that name Go's insides, or nothing",
    differences: {
      "apply/a configuration must say who it is and whose it is": [
        "6 PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one: body.message: *",
        "7 PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one: body.message: *",
      ],
      "apply/a configuration of another resourceVersion or uid is refused": [
        "3 PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one&force=false: body.details.causes[1]: *",
      ],
      "apply/JSON patches: all operations, negative indices, and what is refused": [
        ...[8, 10, 11, 12, 13, 15].map(
          (it) => `${it} PATCH /apis/$id.example.com/v1/namespaces/$ns/widgets/t: body.message: *`,
        ),
        "19 PATCH /apis/$id.example.com/v1/namespaces/$ns/widgets/t: *",
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
];
