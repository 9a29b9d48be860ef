import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take half a minute or more, longest first, for a checkout in which nothing ran yet: the others fill the gaps. */
const LONG = [
  "growth/growth",
  "lab/faults-network",
  "lab/faults-programs",
  "lab/chaos",
  "lab/leftovers",
  "lab/traffic",
  "lab/fleet-faults",
  "lab/faults-server",
  "lab/faults-clock",
  "lab/fleet-apis",
  "lab/mcs-traffic",
];

/** Runs the longest files first, whatever their project, so that none is left to run alone at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONG.findIndex((it) => moduleId.endsWith(`test/${it}.test.ts`));
      return at < 0 ? LONG.length : at;
    };
    // oxlint-disable-next-line unicorn/no-array-sort -- not an array's
    const others = await super.sort(files);
    return others.toSorted((a, b) => rank(a) - rank(b));
  }
}
