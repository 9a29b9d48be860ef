import { FLOW_LOG_ALL, FLOW_LOG_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { FLOW_REASONS, type FlowEnd, type FlowRecord, parseFlow } from "#domain/flow-record.ts";
import { abortError } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { byText } from "@fairlead/base/text.ts";
import { type CoreEvent, EVENTS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
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

/** Undefined: another Event, or another flow. */
export function flowLine(event: CoreEvent, { verdicts, namespace, pod }: FlowFilter): FlowLine | undefined {
  const isOne = verdicts.some((it) => FLOW_REASONS[it] === event.reason);
  const flow = isOne ? parseFlow(event.message ?? "") : undefined;
  if (flow === undefined) return undefined;
  const ends = [flow.from, flow.to];
  if (namespace !== undefined && !ends.some((it) => it.namespace === namespace)) return undefined;
  if (pod !== undefined && !ends.some((it) => isNamed(it, pod))) return undefined;
  const time = event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";
  return { time, count: event.count ?? 1, ...flow };
}

function isNamed({ cluster, namespace, pod }: FlowEnd, name: string): boolean {
  if (pod === undefined) return false;
  return [pod, `${namespace}/${pod}`, `${cluster}/${namespace}/${pod}`].includes(name);
}

const byTime = (a: FlowLine, b: FlowLine): number => byText(a.time, b.time);

const selectorOf = (verdict: FlowVerdict) => ({ fieldSelector: `reason=${FLOW_REASONS[verdict]}` });

/** The present ones of some clusters, in the order of their times. */
export async function flowLines(
  clients: readonly KubeClient[],
  filter: FlowFilter,
  signal: AbortSignal,
): Promise<readonly FlowLine[]> {
  const lists = clients.flatMap((client) =>
    filter.verdicts.map((it) => client.list(EVENTS, { ...selectorOf(it), signal })),
  );
  return (await Promise.all(lists))
    .flatMap(({ items }) => items.flatMap((it) => flowLine(it, filter) ?? []))
    .toSorted(byTime);
}

export interface FollowOptions {
  readonly clients: readonly KubeClient[];
  readonly filter: FlowFilter;
  readonly deps: RuntimeDeps;
  readonly onLine: (line: FlowLine) => void;
}

/** The present ones in the order of their times, then those to come, until `signal` aborts. */
export async function followFlows(
  { clients, filter, deps, onLine }: FollowOptions,
  signal: AbortSignal,
): Promise<never> {
  await using stack = new AsyncDisposableStack();
  let waiting: FlowLine[] | undefined = [];
  const informers = clients.flatMap((client) =>
    filter.verdicts.map((it) => stack.use(createInformer(client, EVENTS, selectorOf(it), deps))),
  );
  for (const it of informers) {
    stack.use(
      it.subscribe(({ after }) => {
        const line = after === undefined ? undefined : flowLine(after, filter);
        if (line === undefined) return;
        if (waiting === undefined) onLine(line);
        else waiting.push(line);
      }),
    );
    it.start(signal);
  }
  await Promise.all(informers.map((it) => it.synced(signal)));
  const present = waiting.toSorted(byTime);
  waiting = undefined;
  for (const it of present) onLine(it);
  await new Promise((resolve) => {
    signal.addEventListener("abort", resolve, { once: true });
  });
  throw abortError(signal);
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
  return `${time} ${verdict} at ${direction}: ${endText(from)} -> ${endText(to)} ${protocol} ${port}: ${by.join(" ")}${times}`;
}

function endText({ address, cluster, namespace, pod }: FlowEnd): string {
  return pod === undefined ? address : `${cluster}/${namespace}/${pod} (${address})`;
}
