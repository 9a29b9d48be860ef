/** The requests that a client in a cluster makes all the time, and what became of those made during a change. */

import { expect } from "vitest";
import { type Clusters, until } from "./clusters.ts";
import { CLIENT, NAMESPACE } from "./manifests.ts";

export interface Tally {
  readonly asked: number;
  readonly failed: number;
  /** Answers by the cluster that gave them. */
  readonly by: Readonly<Record<string, number>>;
  /** Answers by the address that the server sees. */
  readonly clients: Readonly<Record<string, number>>;
  readonly errors: Readonly<Record<string, number>>;
}

/** One line of the client: a second, by target. */
type Second = Readonly<Record<string, Tally>>;

/** Requests that began before a change may end so much later. Unit: seconds. */
const AFTERMATH = 4;

export class Load {
  readonly #clusters: Clusters;
  readonly #cluster: string;
  readonly #client: string;

  constructor(clusters: Clusters, cluster: string, client = CLIENT) {
    this.#clusters = clusters;
    this.#cluster = cluster;
    this.#client = client;
  }

  /** Runs `change` and returns the results of the requests during it, by target. */
  async during(change: () => Promise<void>): Promise<Second> {
    const before = (await this.#seconds()).length;
    await change();
    const end = (await this.#seconds()).length + AFTERMATH;
    const all = await until(
      "the client continues",
      () => this.#seconds(),
      (it) => it.length >= end,
    );
    return sumOf(all.slice(before, end));
  }

  /** The same, and fails when a request of these targets did. @returns the sum of all targets. */
  async withoutFailure(targets: readonly string[], change: () => Promise<void>): Promise<Second> {
    const seen = await this.during(change);
    for (const target of targets) {
      const { asked = 0, failed, errors } = seen[target] ?? {};
      expect({ target, failed, errors }).toEqual({ target, failed: 0, errors: {} });
      expect(asked).toBeGreaterThan(0);
    }
    return seen;
  }

  /** Waits until the last three seconds of each target are as wanted. */
  async until(what: string, isEnough: (tally: Tally) => boolean): Promise<void> {
    const start = (await this.#seconds()).length;
    await until(
      what,
      async () => {
        const all = await this.#seconds();
        return all.length < start + 3 ? {} : sumOf(all.slice(-3));
      },
      (last) => Object.keys(last).length > 0 && Object.values(last).every(isEnough),
    );
  }

  /** Keeps the client running for a time, by its own clock. */
  async pass(seconds: number): Promise<void> {
    const end = (await this.#seconds()).length + seconds;
    await until(
      `${seconds} s of requests`,
      () => this.#seconds(),
      (it) => it.length >= end,
    );
  }

  /** Waits until all of these clusters answer, no other does, and nothing fails. */
  async untilAnsweredBy(...clusters: readonly string[]): Promise<void> {
    const wanted = clusters.toSorted().join();
    await this.until(
      `answers of ${clusters.join(" and ")}`,
      (it) => it.failed === 0 && Object.keys(it.by).toSorted().join() === wanted,
    );
  }

  async #seconds(): Promise<readonly Second[]> {
    const logs = ["-n", NAMESPACE, "logs", `deployment/${this.#client}`, "--tail=-1"];
    const text = await this.#clusters.kubectl(this.#cluster, logs);
    const lines = text.split("\n").filter((it) => it.startsWith("{") && it.endsWith("}"));
    return lines.map((it) => JSON.parse(it) as Second);
  }
}

function sumOf(seconds: readonly Second[]): Second {
  const sums: Record<string, Tally> = {};
  for (const second of seconds)
    for (const [target, tally] of Object.entries(second)) {
      const sum = sums[target];
      sums[target] =
        sum === undefined
          ? tally
          : {
              asked: sum.asked + tally.asked,
              failed: sum.failed + tally.failed,
              by: add(sum.by, tally.by),
              clients: add(sum.clients, tally.clients),
              errors: add(sum.errors, tally.errors),
            };
    }
  return sums;
}

function add(a: Tally["by"], b: Tally["by"]): Tally["by"] {
  const sum: Record<string, number> = { ...a };
  for (const [key, count] of Object.entries(b)) sum[key] = (sum[key] ?? 0) + count;
  return sum;
}
