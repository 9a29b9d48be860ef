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

export const ACCEPTED: readonly Acceptance[] = [];
