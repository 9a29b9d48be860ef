import { describe, expect, it } from "vitest";
import { abortable } from "@fairlead/base/abortable.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { Requests } from "./requests.ts";

const never = new AbortController().signal;

/** Calls that end when the test ends them, or when they are given up. */
class Server {
  readonly underWay: string[] = [];
  readonly #ends = new Map<string, PromiseWithResolvers<string>>();

  readonly call =
    (name: string) =>
    (signal: AbortSignal): Promise<string> => {
      this.underWay.push(name);
      return abortable(this.#end(name).promise, signal);
    };
  end(name: string): void {
    this.#end(name).resolve(name);
  }
  #end(name: string): PromiseWithResolvers<string> {
    const known = this.#ends.get(name) ?? Promise.withResolvers<string>();
    this.#ends.set(name, known);
    return known;
  }
}

function start(): { readonly clock: FakeClock; readonly requests: Requests; readonly server: Server } {
  const clock = new FakeClock();
  return { clock, requests: new Requests(clock, { timeoutMs: 1000 }), server: new Server() };
}

describe("writes", () => {
  it("are four at a time in a lane, and twelve in all", async () => {
    const { requests, server } = start();
    for (const lane of ["a", "b", "c", "d"])
      for (const at of [1, 2, 3, 4, 5]) void requests.write(lane, never, server.call(`${lane}${at}`));
    await Promise.resolve();
    const first = ["a", "b", "c"].flatMap((lane) => [1, 2, 3, 4].map((at) => `${lane}${at}`));
    expect(server.underWay).toEqual(first);
    server.end("a1");
    await expect.poll(() => server.underWay).toEqual([...first, "a5"]);
  });

  it("in ever new lanes that never answer are remembered up to a bound, the last ones", async () => {
    const { clock, requests, server } = start();
    const lanes = Array.from({ length: 1010 }, (_, at) => `lane-${at}`);
    for (const lane of lanes) {
      const late = requests.write(lane, never, server.call(lane)).catch(() => {});
      await Promise.resolve();
      await clock.advance(1000);
      await late;
    }
    const startTwo = async (lane: string): Promise<number> => {
      const before = server.underWay.length;
      for (const at of [1, 2]) requests.write(lane, never, server.call(`${lane} ${at}`)).catch(() => {});
      await Promise.resolve();
      return server.underWay.length - before;
    };
    expect(await startTwo(lanes.at(-1) ?? "")).toBe(1);
    expect(await startTwo(lanes[0] ?? "")).toBe(2);
  });

  it("end without a response in time, and then are one at a time in this lane until one has a response", async () => {
    const { clock, requests, server } = start();
    const write = (lane: string, name: string): Promise<string> =>
      requests.write(lane, never, server.call(name));
    const late = write("a", "a1").catch((error: unknown) => error);
    await clock.advance(1000);
    expect(hasCode(await late, "TIMED_OUT")).toBe(true);
    const probe = write("a", "a2");
    const refused = await write("a", "a3").catch((error: unknown) => error);
    expect(hasCode(refused, "TIMED_OUT")).toBe(true);
    const elsewhere = write("b", "b1");
    server.end("b1");
    expect(await elsewhere).toBe("b1");
    server.end("a2");
    expect(await probe).toBe("a2");
    const both = Promise.all([write("a", "a4"), write("a", "a5")]);
    await Promise.resolve();
    server.end("a4");
    server.end("a5");
    expect(await both).toEqual(["a4", "a5"]);
    expect(server.underWay).not.toContain("a3");
  });

  it("pass on what the server refuses, and what the caller gives up", async () => {
    const { requests, server } = start();
    await expect(requests.write("a", never, () => Promise.reject(new Error("refused")))).rejects.toThrow(
      "refused",
    );
    const stop = new AbortController();
    const given = requests.write("a", stop.signal, server.call("a1"));
    stop.abort();
    await expect(given).rejects.toThrow("cancelled");
  });
});
