/** Cases of which `npm test` runs a sample, and `npm run test:full` all. */

export const isFull = process.env["TEST_SIZE"] === "full";

/** @param chosen - Indexes of the cases that `npm test` runs. */
export function sampleOf<T>(cases: readonly T[], chosen: readonly number[]): readonly T[] {
  return isFull ? cases : cases.filter((_, at) => chosen.includes(at));
}
