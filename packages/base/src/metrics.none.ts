import type { Metrics } from "./metrics.ts";

/** Counts nothing: for tests, and for commands that end before anyone could ask. */
export const noMetrics: Metrics = {
  counter: () => ({ add() {} }),
  gauge: () => ({ set() {}, remove() {} }),
  histogram: () => ({ observe() {}, remove() {} }),
  onRender: () => ({ [Symbol.dispose]() {} }),
};
