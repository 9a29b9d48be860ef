import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { History, type Operation } from "./crash-history.ts";
import { launchProgram, type Program } from "./program.ts";

/**
 * A server that is killed (SIGKILL) at any moment: everything it acknowledged exists after the next start, and no client has
 * received, by a read or a watch, anything that does not exist.
 *
 * `CRASHES` raises the number of crashes; a crash takes a second.
 */
const RUNS = Math.max(1, Math.ceil(Number(process.env["CRASHES"] ?? 3) / 3));

const WRITERS = 6;
const NAMES_PER_WRITER = 3;

/** What one writer does, over and over, until the server dies. */
const operations: fc.Arbitrary<readonly Operation[]> = fc.array(
  fc.record({
    name: fc.nat(NAMES_PER_WRITER - 1),
    verb: fc.constantFrom("put", "put", "patch", "delete"),
    bytes: fc.constantFrom(1, 10, 100, 20_000),
  }),
  { minLength: 5, maxLength: 30 },
);

/** The server dies after that many answers to writers, events to the watcher or lists to the reader. */
const crash = fc.record({
  after: fc.constantFrom("writes", "events", "lists"),
  count: fc.integer({ min: 1, max: 300 }),
  writers: fc.array(operations, { minLength: WRITERS, maxLength: WRITERS }),
});

type Crash = typeof crash extends fc.Arbitrary<infer T> ? T : never;

describe("a server killed at any moment", () => {
  it(
    "has what it acknowledged, and showed nothing that it has not, however often it happens",
    { timeout: 30_000 + RUNS * 30_000 },
    async () => {
      const crashes = fc.array(crash, { minLength: 3, maxLength: 3 });
      await fc.assert(fc.asyncProperty(crashes, survives), { numRuns: RUNS, endOnFailure: true });
    },
  );
});

async function survives(crashes: readonly Crash[]): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), "apiserver-"));
  const history = new History();
  let program: Program | undefined;
  try {
    for (const it of crashes) {
      program = await launchProgram(dir);
      await history.check(program.client);
      await rage(program, history, it);
    }
    program = await launchProgram(dir);
    await history.check(program.client);
    expect(history.acknowledged).toBeGreaterThan(0);
  } finally {
    program?.client.close();
    program?.child.kill("SIGKILL");
    await program?.ended;
    await rm(dir, { recursive: true, force: true });
  }
}

/** Writers, a watcher and a reader at work at once, until the server is killed under them. */
async function rage({ client, child, ended }: Program, history: History, plan: Crash): Promise<void> {
  let left = plan.count;
  const count = (what: Crash["after"]): void => {
    if (what !== plan.after) return;
    left -= 1;
    if (left === 0) child.kill("SIGKILL");
  };
  const watch = history.watch(client, () => count("events"));
  const read = history.read(client, () => count("lists"));
  const writers = plan.writers.map((todo, writer) =>
    history.write(client, { writer, todo, onAnswer: () => count("writes") }),
  );
  await Promise.all([watch, read, ...writers]);
  client.close();
  await ended;
}
