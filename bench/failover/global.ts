/**
 * What do the clients of a global Service lose when a part of another cluster fails? Three members in a flat network; the client's
 * cluster has no pods of the Service, the two others two each. 100 requests a second, each on a connection of its own.
 */
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { cut, heal } from "../../test/lab/fault-tools.ts";
import { annotate, makeNamespace } from "../../test/support/lab-actions.ts";
import { startLab, type TestLab } from "../../test/support/lab-fixture.ts";
import { echoDeployment, nodePod, programScript, service } from "../../test/support/lab-manifests.ts";
import { until } from "../../test/support/waiting.ts";
import type { Requests } from "./result.ts";

const CLIENT = "member-1";
const FAILING = "member-2";
const SERVERS = [FAILING, "member-3"] as const;
const HELLO = { namespace: "work", name: "hello" };
const URL_OF_HELLO = "http://hello.work.svc.cluster.local/";
/** The fault comes after the requests began. Unit: milliseconds. */
const FAULT_AFTER_MS = 3000;
/** Of a link that goes up and down. Unit: milliseconds. */
const FLAP_MS = 1500;
const LAST_MS = 5000;

interface Fault {
  readonly name: string;
  /** @param signal - The end of the requests, less some seconds. */
  readonly begin: (lab: TestLab, signal: AbortSignal) => Promise<unknown>;
  readonly end: (lab: TestLab) => Promise<unknown>;
}

const killing = (name: string, target: string): Fault => ({
  name,
  begin: (lab) => lab.lab("kill", [target]),
  end: (lab) => lab.lab("restore", [target]),
});

function share(isShared: boolean): (lab: TestLab) => Promise<void> {
  return async (lab) =>
    annotate(await lab.client(FAILING), SERVICES, HELLO, { "service.cilium.io/shared": String(isShared) });
}

const FAULTS: readonly Fault[] = [
  { name: "nothing", begin: async () => {}, end: async () => {} },
  killing("API server of a member", `${FAILING}/apiserver`),
  killing("a whole cluster", FAILING),
  {
    name: "packets between two members, not those to the hub",
    begin: (lab) => cut(lab, { from: CLIENT, to: FAILING }, { from: FAILING, to: CLIENT }),
    end: heal,
  },
  killing("a node", `${FAILING}-node-2`),
  { name: "the Service of a member, no longer shared", begin: share(false), end: share(true) },
  {
    name: "a link that goes up and down every 1.5 s",
    async begin(lab, signal) {
      while (!signal.aborted) {
        await cut(lab, { around: FAILING });
        await pause(FLAP_MS);
        await heal(lab);
        await pause(FLAP_MS);
      }
    },
    end: heal,
  },
];

const pause = (ms: number): Promise<void> => delay(systemClock, ms, new AbortController().signal);

interface Outcome {
  readonly asked: number;
  readonly failed: number;
  /** From the fault to the begin of the last request that failed; 0: none did. Unit: milliseconds. */
  readonly lastMs: number;
  /** From the fault to the begin of the last request that the failing cluster answered. Unit: milliseconds. */
  readonly answeredMs: number;
}

export async function runGlobal({
  rounds,
  seconds,
  only,
}: {
  readonly rounds: number;
  readonly seconds: number;
  readonly only: string;
}): Promise<void> {
  await using lab = await startLab({
    name: "global",
    members: 1 + SERVERS.length,
    nodes: 2,
    flags: ["--network-policy"],
  });
  for (const member of [CLIENT, ...SERVERS]) {
    await makeNamespace(await lab.client(member), HELLO.namespace);
    await lab.apply(member, service(HELLO));
    await annotate(await lab.client(member), SERVICES, HELLO, { "service.cilium.io/global": "true" });
    if (member === CLIENT) await lab.apply(member, nodePod({ namespace: "work", name: "client" }));
    else await lab.apply(member, echoDeployment(HELLO, 2));
  }
  console.log(`${rounds} rounds of ${seconds} s for each fault, ${seconds * 100} requests in each`);
  const faults = FAULTS.filter((it) => it.name.includes(only));
  const outcomes = new Map<Fault, Outcome[]>(faults.map((it) => [it, []]));
  for (let round = 0; round < rounds; round++)
    for (const [fault, of] of outcomes) {
      await untilAllAnswer(lab);
      const outcome = await measure(lab, fault, seconds);
      of.push(outcome);
      console.log(`${fault.name}: ${JSON.stringify(outcome)}`);
    }
  print(outcomes);
}

/** Until both clusters answer from both of their pods. */
async function untilAllAnswer(lab: TestLab): Promise<void> {
  await until(
    "four pods answer",
    async () => {
      const answers = await lab.ask(CLIENT, "work/client", { url: URL_OF_HELLO, count: 32 });
      return { pods: new Set(answers.map((it) => it?.pod)), hasFailed: answers.includes(undefined) };
    },
    ({ pods, hasFailed }) => pods.size === 4 && !hasFailed,
    { timeoutMs: 120_000 },
  );
}

async function measure(lab: TestLab, fault: Fault, seconds: number): Promise<Outcome> {
  const program = new URL("requests.ts", import.meta.url);
  const script = programScript(program, URL_OF_HELLO, String(seconds));
  const running = lab.inPod(CLIENT, "work/client", script);
  await pause(FAULT_AFTER_MS);
  const faultMs = systemClock.now();
  await fault.begin(lab, AbortSignal.timeout(Math.max(1, seconds * 1000 - FAULT_AFTER_MS - LAST_MS)));
  const { asked, failures, answeredMs } = JSON.parse(await running) as Requests;
  await fault.end(lab);
  const last = failures.at(-1);
  return {
    asked,
    failed: failures.length,
    lastMs: last === undefined ? 0 : last - faultMs,
    answeredMs: (answeredMs[FAILING] ?? faultMs) - faultMs,
  };
}

function print(outcomes: ReadonlyMap<Fault, readonly Outcome[]>): void {
  const spread = (of: readonly number[]): string => {
    const sorted = of.toSorted((a, b) => a - b);
    return `${sorted[sorted.length >> 1]} (${sorted[0]} to ${sorted.at(-1)})`;
  };
  const columns: [string, (it: [Fault, readonly Outcome[]]) => string][] = [
    ["WHAT FAILS", ([fault]) => fault.name],
    ["REQUESTS", ([, of]) => String(of[0]?.asked)],
    ["FAILED", ([, of]) => spread(of.map((it) => it.failed))],
    ["LAST AFTER MS", ([, of]) => spread(of.map((it) => it.lastMs))],
    ["IT ANSWERED FOR MS", ([, of]) => spread(of.map((it) => it.answeredMs))],
  ];
  console.log(
    renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      [...outcomes],
    ),
  );
}
