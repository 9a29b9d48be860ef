import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { NoAddressError, PodAddresses } from "./pod-addresses.ts";

let folder: string;
let count = 0;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-addresses-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function node(cidrs: readonly string[], clock = new FakeClock()) {
  const file = join(folder, String(count++));
  return { clock, file, start: () => new PodAddresses(cidrs, { clock, file }) };
}

describe("addresses of pods", () => {
  it("are never assigned to two pods, nor again within two minutes, whatever pods start, end and die", async () => {
    const event = fc.oneof(
      { weight: 4, arbitrary: fc.constant("start" as const) },
      { weight: 3, arbitrary: fc.nat(5).map((at) => ({ end: at })) },
      { weight: 1, arbitrary: fc.constant("restart" as const) },
      { weight: 2, arbitrary: fc.integer({ min: 1, max: 90_000 }).map((ms) => ({ wait: ms })) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 60 }), async (events) => {
        const model = new Model();
        for (const it of events) {
          if (it === "start") model.begin();
          else if (it === "restart") model.restart();
          else if ("wait" in it) await model.clock.advance(it.wait);
          else model.end(it.end);
        }
      }),
    );
  });

  it("that were never used come first, then the one that has been free for longest", async () => {
    const { clock, start } = node(["10.1.0.0/29"]);
    const addresses = start();
    const given = ["1", "2", "3", "4"].map(() => addresses.allocate());
    for (const at of [2, 0, 3]) {
      addresses.release(given[at] ?? []);
      await clock.advance(1000);
    }
    await clock.advance(200_000);
    const next = Array.from({ length: 5 }, () => addresses.allocate()[0]);
    expect(next).toEqual(["10.1.0.5", "10.1.0.6", "10.1.0.3", "10.1.0.1", "10.1.0.4"]);
  });

  it("are not assigned while none has been free for two minutes; the error has the time to retry, and no address of the other family is lost", async () => {
    const { clock, start } = node(["fd00::/120", "10.1.0.0/30"]);
    const addresses = start();
    const [first] = [addresses.allocate(), addresses.allocate()];
    addresses.release(first);
    await clock.advance(118_000);
    const error = refusal(addresses);
    expect(error?.message).toBe("no address of the node's pod CIDR 10.1.0.0/30 has been free for 2 minutes");
    expect(error?.retryAtMs).toBe(clock.now() + 2000);
    await clock.advance(2000);
    expect(addresses.allocate()).toEqual(["fd00::3", "10.1.0.1"]);
  });

  it("that a pod had are not taken twice", () => {
    const addresses = node(["10.1.0.0/24"]).start();
    expect(addresses.reserve(["10.1.0.9"])).toBe(true);
    expect(addresses.reserve(["10.1.0.9"])).toBe(false);
    expect(addresses.reserve(["10.2.0.9"])).toBe(false);
  });

  it("are there in a clock that was set back, and with a file that is broken", async () => {
    const { clock, file, start } = node(["10.1.0.0/30"]);
    const addresses = start();
    addresses.release([...addresses.allocate(), ...addresses.allocate()]);
    const earlier = new FakeClock(clock.now() - 86_400_000);
    const set = new PodAddresses(["10.1.0.0/30"], { clock: earlier, file });
    expect(refusal(set)).toBeDefined();
    await earlier.advance(120_000);
    expect(set.allocate()).toEqual(["10.1.0.1"]);
    writeFileSync(file, '[["10.1.0.1",');
    expect(start().allocate()).toEqual(["10.1.0.1"]);
  });
});

/** What has to hold of a node's addresses. With six of IPv4 and seven of IPv6 one is refused only for good reason. */
class Model {
  readonly #node = node(["10.1.0.0/29", "fd00::/125"]);
  readonly clock = this.#node.clock;
  #addresses = this.#node.start();
  readonly #held: (readonly string[])[] = [];
  readonly #freedAtMs = new Map<string, number>();

  begin(): void {
    const given = tryAllocate(this.#addresses);
    const resting = [...this.#freedAtMs].filter(([, atMs]) => this.clock.now() - atMs < 120_000);
    const taken = new Set([...this.#held.flat(), ...resting.map(([address]) => address)]);
    if (given === undefined) expect(taken.size).toBeGreaterThanOrEqual(6);
    else this.#held.push(given);
    expect(given?.filter((address) => taken.has(address)) ?? []).toEqual([]);
    for (const address of given ?? []) this.#freedAtMs.delete(address);
  }

  restart(): void {
    this.#addresses = this.#node.start();
    for (const known of this.#held) expect(this.#addresses.reserve(known)).toBe(true);
  }

  end(at: number): void {
    const [gone = []] = this.#held.splice(at, 1);
    this.#addresses.release(gone);
    for (const address of gone) this.#freedAtMs.set(address, this.clock.now());
  }
}

function tryAllocate(addresses: PodAddresses): readonly string[] | undefined {
  try {
    return addresses.allocate();
  } catch (error) {
    expect(error).toBeInstanceOf(NoAddressError);
    return undefined;
  }
}

function refusal(addresses: PodAddresses): NoAddressError | undefined {
  try {
    addresses.allocate();
    return undefined;
  } catch (error) {
    return error instanceof NoAddressError ? error : undefined;
  }
}
