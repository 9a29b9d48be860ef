/** The cost of a change of endpoints for the managers and for their API servers, and the memory that these hold. */

import { delay, systemClock } from "@fairlead/base/clock.ts";
import { change, fill } from "../fleet/load.ts";
import { startQuartet } from "../fleet/quartet.ts";
import { startWorld } from "../fleet/trio.ts";
import type { Checkout } from "./checkout.ts";
import type { Figures } from "./figures.ts";
import { cpuOf, pssOf } from "./usage.ts";

const RUN_MS = 300_000;
const LOAD = { hasOwnNames: false, slices: 50, rate: 50 };
const CHANGES = 500;
/** A compiler that has not seen the code yet takes twice as long for it. */
const WARM_UP_CHANGES = 250;
const IDLE_MS = 3000;

export async function measureChange({ folder }: Checkout): Promise<Figures> {
  const signal = AbortSignal.timeout(RUN_MS);
  await using fleet = await startQuartet(folder, signal, folder);
  await using stack = new AsyncDisposableStack();
  const managers = [...fleet.pids.values()];
  const { servers } = fleet;
  const world = await startWorld(fleet.clients, stack, signal);
  await delay(systemClock, IDLE_MS, signal);
  const figures = new Map([
    ["managers, idle: PSS MiB", pssOf(managers)],
    ["managers, idle: CPU ms since they began", cpuOf(managers)],
  ]);
  await fill(world, LOAD);
  await change(world, LOAD, WARM_UP_CHANGES);
  const before = [cpuOf(managers), cpuOf(servers)] as const;
  await change(world, LOAD, CHANGES);
  figures.set("a change at 50/s: CPU ms of managers", (cpuOf(managers) - before[0]) / CHANGES);
  figures.set("a change at 50/s: CPU ms of API servers", (cpuOf(servers) - before[1]) / CHANGES);
  figures.set("managers, under load: PSS MiB", pssOf(managers));
  figures.set("their API servers, under load: PSS MiB", pssOf(servers));
  return figures;
}
