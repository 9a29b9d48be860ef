import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Pair } from "./devices.ts";
import { DEAD_MS, type DirectPath, endpointText } from "./path-choice.ts";
import { PathSteering, type SteeringView } from "./path-steering.ts";

const RELAY = { address: "192.0.2.1", port: 21_004 };
const OTHER_RELAY = { address: "192.0.2.2", port: 21_004 };
const DIRECT = { address: "198.51.100.1", port: 31_821 };
const [AT_RELAY, AT_OTHER, AT_DIRECT] = [RELAY, OTHER_RELAY, DIRECT].map(endpointText) as [
  string,
  string,
  string,
];
const PAIR = { id: "b/0/1", port: 31_821, remote: { cluster: "b", ordinal: 0, node: "n" } } as Pair;

let clock: FakeClock;
let steering: PathSteering;
let direct: DirectPath[];

beforeEach(() => {
  clock = new FakeClock();
  steering = new PathSteering({ clock, log: silentLogger });
  direct = [];
});

function answering(more: Partial<DirectPath> = {}): DirectPath {
  return { endpoint: DIRECT, silentSinceMs: clock.monotonic(), answers: 3, rttMs: 5, ...more };
}

function view(cluster: string, relay: typeof RELAY | undefined = RELAY): SteeringView {
  const relays = new Map(relay === undefined ? [] : [[PAIR.id, relay]]);
  return { cluster, direct: () => direct, relays, tls: new Map() };
}

const choose = (of: SteeringView) => steering.choose([PAIR], of).get(PAIR.id);
const note = (of: SteeringView, found: string) => steering.note([PAIR], new Map([[PAIR.id, found]]), of);

describe("the endpoint of a tunnel", async () => {
  it("is held at a direct path until WireGuard stays there: a late datagram by the relay returns it there", async () => {
    choose(view("a"));
    direct = [answering()];
    expect(choose(view("a"))).toEqual({ endpoint: AT_DIRECT, isHeld: true });
    expect(note(view("a"), AT_RELAY)).toEqual([]);
    expect(steering.lookInMs).toBeLessThan(DEAD_MS);
    expect(steering.hasStrayed(PAIR, AT_RELAY)).toBe(true);
    await clock.advance(1000);
    direct = [answering()];
    note(view("a"), AT_DIRECT);
    expect(steering.lookInMs).toBeUndefined();
    expect(steering.hasStrayed(PAIR, AT_DIRECT)).toBe(false);
  });

  it("is chosen by the gateway of the lower name alone: the other one holds nothing, and keeps its relay while it follows", async () => {
    expect(choose(view("c"))).toEqual({ endpoint: AT_RELAY, isHeld: false });
    direct = [answering()];
    expect(choose(view("c", OTHER_RELAY))).toEqual({ endpoint: AT_RELAY, isHeld: false });
    expect(steering.hasStrayed(PAIR, AT_DIRECT)).toBe(false);
    await clock.advance(DEAD_MS);
    expect(choose(view("c", OTHER_RELAY))).toEqual({ endpoint: AT_OTHER, isHeld: false });
  });

  it("is at any relay by which datagrams arrive, because each is as good", async () => {
    expect(choose(view("a"))).toEqual({ endpoint: AT_RELAY, isHeld: false });
    expect(note(view("a"), AT_OTHER)).toEqual([]);
  });

  it("does not return to a direct path that carries nothing: what comes from there is dropped until it answers", async () => {
    direct = [answering()];
    choose(view("a"));
    await clock.advance(DEAD_MS);
    const failed = answering({ answers: 0, silentSinceMs: 0, failedAtMs: clock.monotonic() });
    direct = [failed];
    expect(choose(view("a"))).toEqual({ endpoint: AT_RELAY, isHeld: true });
    expect(steering.leftDirect).toEqual([PAIR.id]);
    const dropped = [{ port: PAIR.port, source: DIRECT }];
    expect(note(view("a"), AT_RELAY)).toEqual([]);
    expect(note(view("a"), AT_DIRECT)).toEqual(dropped);
    // It is at the relay because of that.
    expect(note(view("a"), AT_RELAY)).toEqual(dropped);
    direct = [answering({ answers: 1, failedAtMs: clock.monotonic() })];
    expect(note(view("a"), AT_RELAY)).toEqual([]);
  });

  it("of an earlier agent stays while its direct path is probed", async () => {
    const waitMs = steering.adopt(new Map([[PAIR.id, AT_DIRECT]]));
    expect(choose(view("a"))).toBeUndefined();
    direct = [answering({ answers: 1 })];
    expect(choose(view("a"))).toEqual({ endpoint: AT_DIRECT, isHeld: true });

    steering = new PathSteering({ clock, log: silentLogger });
    direct = [];
    steering.adopt(new Map([[PAIR.id, AT_DIRECT]]));
    await clock.advance(waitMs);
    expect(choose(view("a"))).toEqual({ endpoint: AT_RELAY, isHeld: false });
  });
});
