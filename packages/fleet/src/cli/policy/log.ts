import { oneLine } from "@fairlead/base/print.ts";
import { FLOW_LOG_ALL, FLOW_LOG_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { FLOW_REASONS, type FlowEnd, type FlowRecord, parseFlow } from "#domain/flow-record.ts";
import { abortError } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { byText } from "@fairlead/base/text.ts";
import { type CoreEvent, EVENTS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { PodNames } from "./pod-names.ts";
import type { LogOutput } from "../output.ts";

/** Connections that policies of a cluster denied or allowed, from the Events that agents of nodes record. */

export interface FlowLine extends FlowRecord {
  /** When it was seen last. RFC 3339. */
  readonly time: string;
  /** How often it was reported. */
  readonly count: number;
}

export type FlowVerdict = FlowRecord["verdict"];

export interface FlowFilter {
  readonly verdicts: readonly FlowVerdict[];
  /** Of either end. */
  readonly namespace?: string | undefined;
  /** Of either end: NAME, NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME. */
  readonly pod?: string | undefined;
}

/** Undefined: another Event. */
function flowLine(event: CoreEvent, { verdicts }: FlowFilter): FlowLine | undefined {
  const isOne = verdicts.some((it) => FLOW_REASONS[it] === event.reason);
  const flow = isOne ? parseFlow(event.message ?? "") : undefined;
  if (flow === undefined) return undefined;
  const time = event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";
  return { time, count: event.count ?? 1, ...flow };
}

/** With the names of ends that the node does not know. Undefined: another flow. */
async function selected(
  line: FlowLine,
  { namespace, pod }: FlowFilter,
  names: PodNames,
  signal: AbortSignal,
): Promise<FlowLine | undefined> {
  const from = await names.complete(line.from, line.time, signal);
  const to = await names.complete(line.to, line.time, signal);
  if (namespace !== undefined && ![from, to].some((it) => it.namespace === namespace)) return undefined;
  if (pod !== undefined && ![from, to].some((it) => isNamed(it, pod))) return undefined;
  return { ...line, from, to };
}

function isNamed({ cluster, namespace, pod }: FlowEnd, name: string): boolean {
  if (pod === undefined) return false;
  return [pod, `${namespace}/${pod}`, `${cluster}/${namespace}/${pod}`].includes(name);
}

const byTime = (a: FlowLine, b: FlowLine): number => byText(a.time, b.time);

const selectorOf = (verdict: FlowVerdict) => ({ fieldSelector: `reason=${FLOW_REASONS[verdict]}` });

export interface LogOptions {
  readonly clients: readonly KubeClient[];
  readonly filter: FlowFilter;
  readonly deps: RuntimeDeps;
}

/** The present ones of some clusters, in the order of their times. */
export async function flowLines(
  { clients, filter, deps }: LogOptions,
  signal: AbortSignal,
): Promise<readonly FlowLine[]> {
  const names = new PodNames(clients, deps.clock);
  const lists = clients.flatMap((client) =>
    filter.verdicts.map((it) => client.list(EVENTS, { ...selectorOf(it), signal })),
  );
  const all = (await Promise.all(lists)).flatMap(({ items }) =>
    items.flatMap((it) => flowLine(it, filter) ?? []),
  );
  const lines: FlowLine[] = [];
  for (const it of all.toSorted(byTime)) {
    const line = await selected(it, filter, names, signal);
    if (line !== undefined) lines.push(line);
  }
  return lines;
}

export interface FollowOptions extends LogOptions {
  readonly onLine: (line: FlowLine) => void;
}

/** The present ones in the order of their times, then those to come, until `signal` aborts. */
export async function followFlows(
  { clients, filter, deps, onLine }: FollowOptions,
  signal: AbortSignal,
): Promise<never> {
  await using stack = new AsyncDisposableStack();
  const names = new PodNames(clients, deps.clock);
  let waiting: FlowLine[] | undefined = [];
  const failed = Promise.withResolvers<never>();
  let last = Promise.resolve();
  const writeAfter = async (before: Promise<void>, line: FlowLine): Promise<void> => {
    await before;
    const wanted = await selected(line, filter, names, signal);
    if (wanted !== undefined) onLine(wanted);
  };
  // One after another: some wait for names.
  const write = (line: FlowLine): void => {
    last = writeAfter(last, line);
    last.catch(failed.reject);
  };
  const informers = clients.flatMap((client) =>
    filter.verdicts.map((it) => stack.use(createInformer(client, EVENTS, selectorOf(it), deps))),
  );
  for (const it of informers) {
    stack.use(
      it.subscribe(({ after }) => {
        const line = after === undefined ? undefined : flowLine(after, filter);
        if (line === undefined) return;
        if (waiting === undefined) write(line);
        else waiting.push(line);
      }),
    );
    it.start(signal);
  }
  await Promise.all(informers.map((it) => it.synced(signal)));
  const present = waiting.toSorted(byTime);
  waiting = undefined;
  for (const it of present) write(it);
  signal.addEventListener("abort", () => failed.reject(abortError(signal)), { once: true });
  return await failed.promise;
}

/** Whether allowed connections of some namespace are logged. */
export async function logsAllowed(client: KubeClient, signal: AbortSignal): Promise<boolean> {
  const { items } = await client.list(NAMESPACES, { signal });
  return items.some((it) => it.metadata.annotations?.[FLOW_LOG_ANNOTATION] === FLOW_LOG_ALL);
}

export function renderFlow(line: FlowLine, output: LogOutput): string {
  if (output === "json") return JSON.stringify(line);
  const { time, verdict, direction, from, to, protocol, port, policies, rule, count } = line;
  const by = [
    ...(policies.length === 0 ? ["no policy"] : [policies.join(", ")]),
    ...(rule === undefined ? [] : [rule]),
  ];
  const times = count === 1 ? "" : ` (${count} times)`;
  return oneLine(
    `${time} ${verdict} at ${direction}: ${endText(from)} -> ${endText(to)} ${protocol} ${port}: ${by.join(" ")}${times}`,
  );
}

function endText({ address, cluster, namespace, pod }: FlowEnd): string {
  return pod === undefined ? address : `${cluster}/${namespace}/${pod} (${address})`;
}
