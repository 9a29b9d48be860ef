/** What every new flow of a lab may meet while things break. Pure. */

/** One new connection that a pod made. */
export interface Flow {
  /** The cluster of the pod. */
  readonly from: string;
  readonly startedAtMs: number;
  /** The backend that answered; undefined if none did. */
  readonly to: Backend | undefined;
  /** The port that it came from, as far as it is known. */
  readonly port?: number;
  /** The error of the client if no backend answered. */
  readonly error?: string;
  /** How long the client tried if no backend answered. Unit: milliseconds. */
  readonly triedMs?: number;
}

export interface Backend {
  readonly cluster: string;
  readonly address: string;
}

/** An endpoint began or ceased to be used somewhere. */
export interface EndpointChange extends Backend {
  readonly atMs: number;
  readonly isThere: boolean;
}

/** What the test did to a cluster, for as long as it did. */
export interface Mark {
  readonly cluster: string;
  /**
   * "unreachable": packets of other clusters do not reach its pods. "unheard": packets of the hub do not reach its
   * manager. "unmanaged": its manager is dead, so nothing there reacts. "robbed": the objects of its manager are deleted.
   * "stalled": its API server, controllers or proxies do not follow what happens. "withheld": it does not export.
   */
  readonly kind: "unreachable" | "unheard" | "unmanaged" | "robbed" | "stalled" | "withheld";
  readonly fromMs: number;
  /** undefined: still. */
  readonly untilMs: number | undefined;
}

export interface FlowRecord {
  readonly flows: readonly Flow[];
  /** What the imported EndpointSlices of each importer said, by importer. */
  readonly imported: ReadonlyMap<string, readonly EndpointChange[]>;
  /** What the hub told all importers. */
  readonly view: readonly EndpointChange[];
  /** What each cluster's own EndpointSlices said. */
  readonly own: readonly EndpointChange[];
  readonly marks: readonly Mark[];
}

export interface Limits {
  /** From when a flow is noted until it surely met its endpoint. Unit: milliseconds. */
  readonly flowMs: number;
  /** How long flows may still reach an endpoint after the importer received its withdrawal. Unit: milliseconds. */
  readonly withdrawnMs: number;
  /** How long flows may reach a dead endpoint whose death could not be reported. Unit: milliseconds. */
  readonly deadMs: number;
  /** How long flows may fail after objects that serve them were deleted. Unit: milliseconds. */
  readonly remadeMs: number;
  /** How long after an endpoint's death its own cluster may report it. Unit: milliseconds. */
  readonly ownLagMs: number;
  /**
   * How long an endpoint has to be there, with nothing wrong anywhere on its way, until an importer that uses no other has
   * to use it. 0: there is always one in use. Unit: milliseconds.
   */
  readonly announcedMs: number;
}

export interface Violation {
  readonly what: "to a withdrawn endpoint" | "to an endpoint never offered" | "failed";
  readonly flow: Flow;
  /** What was known of endpoints then. */
  readonly why: string;
}

/** How long before a flow a withdrawn endpoint is still mentioned with its failure. Unit: milliseconds. */
const RECENTLY_MS = 10_000;

/** Flows that went where they must not go, or failed though they could have been served. */
export function judge(record: FlowRecord, limits: Limits): readonly Violation[] {
  return record.flows.flatMap((flow) => {
    const verdict = judgeFlow(record, flow, limits);
    return typeof verdict === "object" ? verdict : [];
  });
}

/** How many flows there were of each kind: answered, wrong, or failed for which reason. */
export function tally(record: FlowRecord, limits: Limits): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const flow of record.flows) {
    const verdict = judgeFlow(record, flow, limits) ?? "answered";
    const name = typeof verdict === "string" ? verdict : verdict.what;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** Why a flow may fail. */
type Excuse =
  | "failed: no endpoint was available"
  | "failed: the importer recreated deleted objects"
  | "failed: the importer's own programs stood still"
  | "failed: it may have met what died or could not say so";

/** A violation, or why a flow that failed may; undefined: it was answered as it should be. */
function judgeFlow(record: FlowRecord, flow: Flow, limits: Limits): Violation | Excuse | undefined {
  if (flow.to === undefined) return judgeFailure(record, flow, limits);
  if (hasMark(record, "stalled", flow.from, flow.startedAtMs)) return undefined;
  const { address } = flow.to;
  const offers = (record.imported.get(flow.from) ?? []).filter((it) => it.address === address && it.isThere);
  if (!offers.some((it) => it.atMs <= flow.startedAtMs + limits.flowMs))
    return { what: "to an endpoint never offered", flow, why: `offered at ${offers[0]?.atMs ?? "no time"}` };
  // The client is started before it connects: it may have met what was offered only then.
  if (offers.some((it) => it.atMs > flow.startedAtMs && it.atMs <= flow.startedAtMs + limits.flowMs))
    return undefined;
  const goneMs = receivedWithdrawal(record, flow.from, flow.to, flow.startedAtMs);
  if (goneMs === undefined || flow.startedAtMs - goneMs <= limits.withdrawnMs) return undefined;
  return { what: "to a withdrawn endpoint", flow, why: `gone ${flow.startedAtMs - goneMs} ms before` };
}

const DEAFENING: ReadonlySet<Mark["kind"]> = new Set(["unheard", "unmanaged"]);

/** The time at which the importer received the withdrawal of an endpoint, as of that time; undefined if it is in use. */
function receivedWithdrawal(
  { imported, view, own, marks }: FlowRecord,
  importer: string,
  { cluster, address }: Backend,
  atMs: number,
): number | undefined {
  const here = lastOf(imported.get(importer) ?? [], address, atMs);
  const source = cluster === importer ? own : view;
  const reported = lastOf(source, address, atMs);
  const isSeen =
    reported !== undefined &&
    !isAheadOf(here, reported, source) &&
    !marks.some((it) => it.cluster === importer && DEAFENING.has(it.kind) && isDuring(it, reported.atMs));
  const gone = [here, isSeen ? reported : undefined].filter((it) => it?.isThere === false);
  return gone.length === 0 ? undefined : Math.min(...gone.map((it) => it?.atMs ?? 0));
}

/** How much later than the importer the record may hear of something. Unit: milliseconds. */
const RECORD_LAG_MS = 1000;

/** Whether the importer heard first that an endpoint is back. */
function isAheadOf(
  here: EndpointChange | undefined,
  reported: EndpointChange,
  source: readonly EndpointChange[],
): boolean {
  if (here?.isThere !== true || here.atMs < reported.atMs) return false;
  return source.some(
    (it) =>
      it.address === reported.address &&
      it.isThere &&
      it.atMs > reported.atMs &&
      it.atMs <= here.atMs + RECORD_LAG_MS,
  );
}

/** A flow may fail if it may have reached an endpoint that just died, and if no endpoint could have answered. */
function judgeFailure(record: FlowRecord, flow: Flow, limits: Limits): Violation | Excuse {
  const { from, startedAtMs } = flow;
  const underWay = { fromMs: startedAtMs, untilMs: startedAtMs + limits.flowMs };
  const offered = offeredAt(record.imported.get(from) ?? [], startedAtMs, limits.withdrawnMs);
  // A withdrawn export may be gone before the record shows it, and while the client of the flow still starts.
  const isServed =
    limits.announcedMs > 0 &&
    offered.some(
      (it) =>
        it.isThere &&
        // The proxies follow the slices: what was offered just now may not be in use yet.
        startedAtMs - it.atMs > limits.withdrawnMs &&
        !hasMark(record, "withheld", it.cluster, underWay),
    );
  if (!isServed && !isServable(record, from, { atMs: startedAtMs, limits }))
    return "failed: no endpoint was available";
  if (isRobbed(record, from, { atMs: startedAtMs, limits }))
    return "failed: the importer recreated deleted objects";
  if (hasMark(record, "stalled", from, underWay)) return "failed: the importer's own programs stood still";
  // The client is started before it connects: it may have met what was offered only then.
  const soon = (record.imported.get(from) ?? []).filter(
    (it) => it.isThere && it.atMs > startedAtMs && it.atMs <= underWay.untilMs,
  );
  if ([...offered, ...soon].some((it) => isExcused(record, flow, it, limits)))
    return "failed: it may have met what died or could not say so";
  const recent = offeredAt(record.imported.get(from) ?? [], startedAtMs, RECENTLY_MS);
  const known = recent.map(({ address, isThere, atMs }) => {
    const own = lastOf(record.own, address, startedAtMs);
    const since = (it: EndpointChange | undefined): string =>
      it === undefined ? "unknown" : `${it.isThere ? "there" : "gone"} for ${startedAtMs - it.atMs} ms`;
    return `${address}: ${since({ cluster: "", address, isThere, atMs })}, in its own cluster ${since(own)}`;
  });
  return { what: "failed", flow, why: `${flow.error ?? ""}; ${known.join("; ")}` };
}

/** Whether a flow may have met an importer before it recreated deleted objects. */
function isRobbed(
  { marks }: FlowRecord,
  importer: string,
  { atMs, limits }: { readonly atMs: number; readonly limits: Limits },
): boolean {
  return marks.some(
    ({ kind, cluster, fromMs, untilMs = Number.POSITIVE_INFINITY }) =>
      kind === "robbed" &&
      cluster === importer &&
      isDuring({ fromMs: fromMs - limits.flowMs, untilMs: untilMs + limits.remadeMs }, atMs),
  );
}

function isServable(
  record: FlowRecord,
  from: string,
  { atMs, limits }: { readonly atMs: number; readonly limits: Limits },
): boolean {
  const isCutOff = (cluster: string): boolean => hasMark(record, "unreachable", cluster, atMs);
  const sinceMs = atMs - limits.announcedMs;
  const isReported = (it: EndpointChange): boolean =>
    limits.announcedMs === 0 ||
    (it.atMs <= sinceMs &&
      !record.marks.some(
        ({ cluster, fromMs, untilMs = Number.POSITIVE_INFINITY }) =>
          [it.cluster, from, "hub"].includes(cluster) && fromMs <= atMs + limits.flowMs && untilMs >= sinceMs,
      ));
  return offeredAt(record.own, atMs, 0).some(
    (it) => isReported(it) && (it.cluster === from || (!isCutOff(it.cluster) && !isCutOff(from))),
  );
}

/** Whether a cluster is marked so at a time, or at any time between two. */
function hasMark(
  { marks }: FlowRecord,
  kind: Mark["kind"],
  cluster: string,
  at: number | { readonly fromMs: number; readonly untilMs: number },
): boolean {
  const { fromMs, untilMs } = typeof at === "number" ? { fromMs: at, untilMs: at } : at;
  return marks.some(
    (it) =>
      it.kind === kind &&
      it.cluster === cluster &&
      it.fromMs <= untilMs &&
      (it.untilMs === undefined || it.untilMs >= fromMs),
  );
}

/** Whether an endpoint that the importer may have used was dead, and not for so long that it had to know. */
function isExcused(
  record: FlowRecord,
  { from: importer, startedAtMs: atMs, triedMs = 0 }: Flow,
  { cluster, address }: Backend,
  limits: Limits,
): boolean {
  const { own, marks } = record;
  // The state in its own cluster may be out of date.
  if (hasMark(record, "stalled", cluster, atMs)) return true;
  const last = lastOf(own, address, atMs + (limits.ownLagMs === 0 ? 0 : triedMs + limits.ownLagMs));
  const deadSinceMs = [
    ...(last?.isThere === false ? [last.atMs] : []),
    // Packets between two clusters go through the links of both. A flow may be under way when they are cut.
    ...marks
      .filter((it) => it.kind === "unreachable" && cluster !== importer)
      .filter((it) => isDuring({ ...it, fromMs: it.fromMs - triedMs }, atMs))
      .filter((it) => it.cluster === cluster || it.cluster === importer)
      .map((it) => it.fromMs),
  ];
  if (deadSinceMs.length === 0) return false;
  const isUnmanaged = marks.some(
    (it) =>
      it.cluster === importer &&
      it.kind === "unmanaged" &&
      isDuring({ ...it, untilMs: it.untilMs === undefined ? undefined : it.untilMs + limits.deadMs }, atMs),
  );
  return isUnmanaged || deadSinceMs.some((it) => atMs - it <= limits.deadMs);
}

function isDuring({ fromMs, untilMs }: Pick<Mark, "fromMs" | "untilMs">, atMs: number): boolean {
  return atMs >= fromMs && (untilMs === undefined || atMs <= untilMs);
}

function lastOf(
  changes: readonly EndpointChange[],
  address: string,
  atMs: number,
): EndpointChange | undefined {
  return changes.findLast((it) => it.address === address && it.atMs <= atMs);
}

/** Endpoints in use at a time, or until shortly before. */
function offeredAt(
  changes: readonly EndpointChange[],
  atMs: number,
  graceMs: number,
): readonly EndpointChange[] {
  const last = new Map<string, EndpointChange>();
  for (const it of changes) if (it.atMs <= atMs) last.set(it.address, it);
  return [...last.values()].filter((it) => it.isThere || atMs - it.atMs <= graceMs);
}
