/** A lab of a hub and three members of two nodes: until it is up, until a first answer, and what it then takes. */

import { delay, systemClock } from "@fairlead/base/clock.ts";
import { answerAcross } from "../lab/first-answer.ts";
import { startBenchLab } from "../lab/lab.ts";
import type { Checkout } from "./checkout.ts";
import type { Figures } from "./figures.ts";
import { cpuOf, cpuOfEnded, processesOf, pssOf } from "./usage.ts";

const REST_MS = 10_000;

export async function measureLab({ folder }: Checkout): Promise<Figures> {
  const before = cpuOfEnded();
  const startMs = performance.now();
  await using lab = await startBenchLab("against", { members: 3, nodes: 2, checkout: folder });
  /** Processor time, that of the commands included. */
  const cpuMs = (): number => cpuOf(processesOf(lab.layout.root)) + cpuOfEnded() - before;
  const figures = new Map([
    ["lab up: CPU ms of all", cpuMs()],
    ["lab up: wall ms", lab.upMs],
  ]);
  await answerAcross(lab, folder);
  const answered = cpuMs();
  figures.set("first answer: CPU ms of all", answered);
  figures.set("first answer: wall ms", performance.now() - startMs);
  await delay(systemClock, REST_MS, AbortSignal.timeout(REST_MS * 10));
  figures.set("10 s after the first answer: CPU ms of all", cpuMs() - answered);
  figures.set("10 s after the first answer: PSS MiB of all", pssOf(processesOf(lab.layout.root)));
  return figures;
}
