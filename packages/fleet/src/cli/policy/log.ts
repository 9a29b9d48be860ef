import { type DeniedFlow, parseDeniedFlow, POLICY_DENIED } from "#domain/denied-flow.ts";
import { abortError } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { byText } from "@fairlead/base/text.ts";
import { type CoreEvent, EVENTS } from "@fairlead/kube/api/core/v1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Connections that policies of a cluster denied, from the Events that agents of nodes record. */

export interface DeniedLine extends DeniedFlow {
  /** When it was denied last. RFC 3339. */
  readonly time: string;
  /** How often it was reported. */
  readonly count: number;
}

const SELECTED = { fieldSelector: `reason=${POLICY_DENIED}` };

/** Undefined: another Event. */
export function deniedLine(event: CoreEvent): DeniedLine | undefined {
  const flow = event.reason === POLICY_DENIED ? parseDeniedFlow(event.message ?? "") : undefined;
  if (flow === undefined) return undefined;
  const time = event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";
  return { time, count: event.count ?? 1, ...flow };
}

/** The present ones, in the order of their times. */
export async function deniedLines(client: KubeClient, signal: AbortSignal): Promise<readonly DeniedLine[]> {
  const { items } = await client.list(EVENTS, { ...SELECTED, signal });
  return items.flatMap((it) => deniedLine(it) ?? []).toSorted((a, b) => byText(a.time, b.time));
}

/** The present ones and those to come, until `signal` aborts. */
export async function followDenied(
  client: KubeClient,
  deps: RuntimeDeps,
  onLine: (line: DeniedLine) => void,
  signal: AbortSignal,
): Promise<never> {
  await using events = createInformer(client, EVENTS, SELECTED, deps);
  using _ = events.subscribe(({ after }) => {
    const line = after === undefined ? undefined : deniedLine(after);
    if (line !== undefined) onLine(line);
  });
  events.start(signal);
  await new Promise((resolve) => {
    signal.addEventListener("abort", resolve, { once: true });
  });
  throw abortError(signal);
}
