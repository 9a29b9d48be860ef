import { type Answer, play } from "./play.ts";
import type { Scenario } from "./scenario.ts";
import type { Target } from "./target.ts";

/** Scenarios that are played at the same time. */
const WIDTH = 8;

/** Plays many scenarios, those that want to be alone after the others and one by one. What fails, fails for its scenario only. */
export function playAll(
  scenarios: readonly Scenario[],
  target: Target,
): ReadonlyMap<Scenario, Promise<readonly Answer[]>> {
  const started = new Map<Scenario, PromiseWithResolvers<readonly Answer[]>>(
    scenarios.map((it) => [it, Promise.withResolvers<readonly Answer[]>()]),
  );
  const settle = async (scenario: Scenario): Promise<void> => {
    const slot = started.get(scenario);
    await play(scenario, target).then(slot?.resolve, slot?.reject);
  };
  void run(scenarios, settle);
  return new Map(
    [...started].map(([scenario, { promise }]) => {
      // Callers that await the answers later receive the error.
      promise.catch(() => {});
      return [scenario, promise];
    }),
  );
}

async function run(scenarios: readonly Scenario[], settle: (it: Scenario) => Promise<void>): Promise<void> {
  const together = scenarios.filter((it) => !it.alone);
  const queue = together.values();
  const worker = async (): Promise<void> => {
    for (const scenario of queue) await settle(scenario);
  };
  await Promise.all(Array.from({ length: WIDTH }, worker));
  for (const scenario of scenarios.filter((it) => it.alone)) await settle(scenario);
}
