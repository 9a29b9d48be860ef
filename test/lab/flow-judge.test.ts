import { describe, expect, it } from "vitest";
import { type EndpointChange, type Flow, type FlowRecord, judge, type Mark, tally } from "./flow-judge.ts";

const LIMITS = { flowMs: 20, withdrawnMs: 1000, deadMs: 8000, remadeMs: 500, ownLagMs: 0, announcedMs: 0 };
const X = { cluster: "a", address: "10.0.0.1" };
const Y = { cluster: "b", address: "10.0.0.2" };
const from = (atMs: number, it: typeof X): EndpointChange => ({ ...it, atMs, isThere: true });
const gone = (atMs: number, it: typeof X): EndpointChange => ({ ...it, atMs, isThere: false });
const flow = (startedAtMs: number, to: Flow["to"]): Flow => ({ from: "c", startedAtMs, to });
const all = [from(0, X), from(0, Y)];

function verdict(
  flows: readonly Flow[],
  {
    imported = all,
    view = all,
    own = all,
    marks = [],
    limits = LIMITS,
  }: Partial<Omit<FlowRecord, "imported">> & {
    imported?: readonly EndpointChange[];
    limits?: typeof LIMITS;
  } = {},
): string[] {
  const record = { flows, imported: new Map([["c", imported]]), view, own, marks };
  return judge(record, limits).map((it) => `${it.what} at ${it.flow.startedAtMs}`);
}

const mark = (kind: Mark["kind"], cluster: string, fromMs: number, untilMs?: number): Mark => ({
  kind,
  cluster,
  fromMs,
  untilMs,
});

describe("where new flows may go", () => {
  it("is every endpoint that the importer was offered, and for a second after it was withdrawn", () => {
    const imported = [...all, gone(5000, X)];
    expect(verdict([flow(4000, X), flow(5900, X), flow(6100, X), flow(6100, Y)], { imported })).toEqual([
      "to a withdrawn endpoint at 6100",
    ]);
  });

  it("counts from the importer's receipt of the change, if it can reach the hub", () => {
    const view = [...all, gone(3000, X)];
    const imported = [...all, gone(9000, X)];
    const flows = [flow(3900, X), flow(4100, X)];
    expect(verdict(flows, { view, imported })).toEqual(["to a withdrawn endpoint at 4100"]);
    for (const kind of ["unheard", "unmanaged"] as const)
      expect(verdict(flows, { view, imported, marks: [mark(kind, "c", 2500, 8000)] })).toEqual([]);
  });

  it("may be an endpoint that returned, even if the hub's record has it later than the importer's", () => {
    const imported = [...all, gone(3000, X), from(8000, X)];
    const view = (...more: readonly EndpointChange[]) => [...all, gone(3000, X), ...more];
    expect(verdict([flow(8030, X)], { imported, view: view(from(8100, X)) })).toEqual([]);
    expect(verdict([flow(8030, X)], { imported, view: view() })).toEqual(["to a withdrawn endpoint at 8030"]);
  });

  it("is an endpoint that is offered between the start of the client and its connection", () => {
    const imported = [from(0, Y), from(100, X)];
    expect(verdict([flow(85, X)], { imported })).toEqual([]);
    expect(verdict([flow(4085, X)], { imported: [...all, gone(1000, X), from(4100, X)] })).toEqual([]);
  });

  it("must not reach an endpoint that the importer never saw", () => {
    expect(verdict([flow(50, X)], { imported: [from(100, X), from(0, Y)] })).toEqual([
      "to an endpoint never offered at 50",
    ]);
  });

  it("is an endpoint that came back", () => {
    const changes = [...all, gone(3000, X), from(5000, X)];
    expect(verdict([flow(5001, X)], { imported: changes, view: changes })).toEqual([]);
  });
});

describe("a flow that fails", () => {
  it("must not fail if every offered endpoint is alive", () => {
    expect(verdict([flow(1000, undefined)])).toEqual(["failed at 1000"]);
  });

  it("may fail until an importer must know that a cluster is dead, and not longer", () => {
    const marks = [mark("unreachable", "a", 10_000)];
    const flows = [9000, 10_000, 17_000, 19_000].map((it) => flow(it, undefined));
    expect(verdict(flows, { marks })).toEqual(["failed at 9000", "failed at 19000"]);
  });

  it("may fail if it was in progress when the links of a cluster were cut, and must not if it had ended", () => {
    const marks = [mark("unreachable", "a", 10_000)];
    const flows = [900, 1100].map((triedMs) => ({ ...flow(9000, undefined), triedMs }));
    expect(verdict(flows.slice(0, 1), { marks })).toEqual(["failed at 9000"]);
    expect(verdict(flows.slice(1), { marks })).toEqual([]);
  });

  it("must not fail if the dead cluster is no longer offered", () => {
    const marks = [mark("unreachable", "a", 10_000)];
    const imported = [...all, gone(12_000, X)];
    expect(verdict([flow(12_500, undefined), flow(13_500, undefined)], { marks, imported })).toEqual([
      "failed at 13500",
    ]);
  });

  it("may fail if no endpoint could have answered", () => {
    expect(verdict([flow(5000, undefined)], { own: [...all, gone(4000, X), gone(4000, Y)] })).toEqual([]);
    const marks = [mark("unreachable", "c", 4000)];
    expect(verdict([flow(20_000, undefined)], { marks })).toEqual([]);
  });

  it("is right while the importer has no manager that could act, and until shortly after", () => {
    const own = [...all, gone(4000, X)];
    const marks = [mark("unmanaged", "c", 3000, 50_000)];
    const flows = [40_000, 55_000, 60_000].map((it) => flow(it, undefined));
    expect(verdict(flows, { own, marks })).toEqual(["failed at 60000"]);
  });

  it("may fail while the importer recreates deleted objects, and for half a second after", () => {
    const marks = [mark("robbed", "c", 3000, 3010)];
    const flows = [2970, 2990, 3005, 3500, 3520].map((it) => flow(it, undefined));
    expect(verdict(flows, { marks })).toEqual(["failed at 2970", "failed at 3520"]);
    expect(verdict([flow(3100, undefined)], { marks: [mark("robbed", "a", 3000, 3010)] })).toEqual([
      "failed at 3100",
    ]);
  });
});

describe("flows while many things break at once", () => {
  const limits = { ...LIMITS, ownLagMs: 1500, announcedMs: 10_000 };
  const failed = (atMs: number): Flow => flow(atMs, undefined);

  it("may go anywhere, or nowhere, while the importer's own programs are suspended, and not afterwards", () => {
    const imported = [...all, gone(5000, X)];
    const marks = [mark("stalled", "c", 5000, 20_000)];
    const flows = [flow(9000, X), failed(9000), flow(20_100, X), failed(20_100)];
    expect(verdict(flows, { imported, marks, limits })).toEqual([
      "to a withdrawn endpoint at 20100",
      "failed at 20100",
    ]);
  });

  it("may fail if an endpoint's cluster cannot report its death, or reports it shortly after", () => {
    expect(verdict([failed(9000)], { limits })).toEqual(["failed at 9000"]);
    expect(verdict([failed(9000)], { marks: [mark("stalled", "a", 8000)], limits })).toEqual([]);
    expect(verdict([failed(9000)], { own: [...all, gone(10_400, X)], limits })).toEqual([]);
    expect(verdict([failed(9000)], { own: [...all, gone(10_600, X)], limits })).toEqual(["failed at 9000"]);
  });

  it("may fail if the last endpoint was just withdrawn, or if another is offered too briefly", () => {
    const only = [from(0, X)];
    const marks = [mark("withheld", "a", 20_000, 30_000)];
    expect(verdict([failed(20_050)], { imported: only, own: only, view: only, marks, limits })).toEqual([]);
    // The client of a flow starts before it connects.
    expect(verdict([failed(19_999)], { imported: only, own: only, view: only, marks, limits })).toEqual([]);
    const other = { imported: only, own: [...only, from(15_000, Y)], marks, limits };
    expect(verdict([failed(24_900), failed(25_100)], other)).toEqual(["failed at 25100"]);
  });

  it("may fail until the proxies follow an endpoint that is offered again after there was none", () => {
    const imported = [from(0, X), gone(10_000, X), from(20_000, X)];
    const record = { imported, own: imported, view: imported, limits };
    expect(verdict([failed(20_200), failed(21_100)], record)).toEqual(["failed at 21100"]);
  });

  it("may fail at an endpoint behind a cut link that was offered while the client started", () => {
    const imported = [from(0, X), from(20_010, Y)];
    const record = { imported, own: [from(0, X), from(0, Y)], view: imported, limits };
    const marks = [mark("unreachable", "b", 19_990, 30_000)];
    expect(verdict([failed(20_000)], { ...record, marks })).toEqual([]);
    expect(verdict([failed(20_000)], record)).toEqual(["failed at 20000"]);
  });

  it("are counted by what became of them", () => {
    const record = {
      flows: [flow(1, X), failed(2)],
      imported: new Map([["c", all]]),
      view: all,
      own: [],
      marks: [],
    };
    expect(tally(record, LIMITS)).toEqual({ answered: 1, "failed: no endpoint was available": 1 });
  });
});
