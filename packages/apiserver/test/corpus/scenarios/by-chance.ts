import { CUSTOM_KINDS } from "../custom-kinds.ts";
import { customScenarios } from "../custom-mutations.ts";
import { area } from "../scenario.ts";

const SEEDS = [11, 12, 13];
/** Objects of each kind and version. */
const COUNT = 12;

/** Custom resources made by chance. */
export const scenarios = area(
  "by-chance",
  SEEDS.flatMap((seed) => customScenarios(CUSTOM_KINDS, { seed, count: COUNT })),
);
