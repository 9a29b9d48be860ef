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
