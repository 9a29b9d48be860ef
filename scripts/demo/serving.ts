/** The chapters in which nothing changes: the clusters, the exports and the answers. */

import { FleetError } from "@fairlead/base/errors.ts";
import { systemClock, delay } from "@fairlead/base/clock.ts";
import { type Demo, fairlead, kubectl, root, streamKubectl } from "./cluster.ts";
import { type Answer, parseAnswer, parseTry, requestLoop } from "./requests.ts";
import { countBy, say } from "./story.ts";

export const SERVICE_URL = "http://hello.work.svc.clusterset.local/";
const EXPORTERS = ["member-1", "member-2"];
export const IMPORTER = "member-3";
/** Until pods run and exports have reached every member. Unit: milliseconds; a busy machine must not fail the demo. */
const READY_TIMEOUT_MS = 60_000;

export async function showClusters(demo: Demo): Promise<void> {
  const status = await fairlead(["lab", "status", "--name", demo.lab], demo.signal);
  say(status.trimEnd());
}

/** Applies what a user would apply, and prints each command. */
export async function applyExamples(demo: Demo): Promise<void> {
  for (const cluster of [...EXPORTERS, IMPORTER]) {
    const file = `examples/${cluster}.yaml`;
    say(`$ kubectl --context ${cluster} apply -f ${file}`);
    await kubectl(demo, cluster, ["apply", "-f", `${root}${file}`]);
  }
  await Promise.all([
    ...EXPORTERS.map((cluster) =>
      kubectl(demo, cluster, ["-n", "work", "rollout", "status", "deployment/hello", "--timeout=60s"]),
    ),
    kubectl(demo, IMPORTER, ["-n", "work", "wait", "pod/client", "--for=condition=Ready", "--timeout=60s"]),
    kubectl(demo, IMPORTER, [
      "-n",
      "work",
      "wait",
      "multiclusterservice/hello",
      "--for=condition=Valid",
      "--timeout=60s",
    ]),
  ]);
}

export async function showExports(demo: Demo): Promise<void> {
  await untilBothAnswer(demo);
  say();
  say(
    (
      await fairlead(["status", "--hub-kubeconfig", demo.kubeconfig, "--hub-context", "hub"], demo.signal)
    ).trimEnd(),
  );
}

/** The story needs both exporters' endpoints in the importer's kernel: asks until each has answered. */
async function untilBothAnswer(demo: Demo): Promise<void> {
  const deadlineMs = systemClock.monotonic() + READY_TIMEOUT_MS;
  const seen = new Set<string>();
  while (EXPORTERS.some((it) => !seen.has(it))) {
    for (const answer of await askByName(demo, 10)) if (answer !== undefined) seen.add(answer.cluster);
    if (systemClock.monotonic() > deadlineMs) {
      throw new FleetError(
        "TIMED_OUT",
        `after ${READY_TIMEOUT_MS / 1000} s only ${[...seen].join(", ") || "no cluster"} answered ${SERVICE_URL} in ${IMPORTER}`,
      );
    }
    await delay(systemClock, 50, demo.signal);
  }
}

async function askByName(demo: Demo, count: number): Promise<readonly (Answer | undefined)[]> {
  const answers: (Answer | undefined)[] = [];
  const script = requestLoop(SERVICE_URL, count, 0);
  const stream = streamKubectl(
    demo,
    IMPORTER,
    ["-n", "work", "exec", "client", "--", "sh", "-c", script],
    (line) => {
      const parsed = parseTry(line);
      if (parsed !== undefined) answers.push(parsed.answer);
    },
  );
  await stream.done;
  return answers;
}

export async function showRequestsByName(demo: Demo): Promise<void> {
  say(`$ kubectl -n work exec client -- curl ${SERVICE_URL}`);
  // Chance may let one cluster answer all ten: that would prove nothing, so it asks again.
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const answers = await askByName(demo, 10);
    if (checkAnswers(answers, attempt === 4)) {
      showAnswers(answers.filter((it) => it !== undefined));
      return;
    }
  }
}

/** True when all answered and both clusters did. @throws on a failed request, or at the last attempt. */
function checkAnswers(answers: readonly (Answer | undefined)[], isLast: boolean): boolean {
  const clusters = new Set(answers.map((it) => it?.cluster));
  if (clusters.has(undefined))
    throw new FleetError(
      "LAB_INVALID",
      `${answers.filter((it) => it === undefined).length} of ${answers.length} requests failed`,
    );
  if (answers.length > 0 && clusters.size === EXPORTERS.length) return true;
  if (isLast)
    throw new FleetError("LAB_INVALID", `only ${[...clusters].join(", ") || "no cluster"} answered`);
  return false;
}

function showAnswers(answers: readonly Answer[]): void {
  for (const [at, answer] of answers.entries()) {
    say(
      `${String(at + 1).padStart(2)}  ${answer.cluster}  ${answer.pod.padEnd(24)} client ${answer.clientAddress}`,
    );
  }
  say(countBy(answers.map((it) => it.cluster)));
}

/** Asks from this machine, where the load balancer's address answers. */
export async function showLoadBalancer(demo: Demo): Promise<string> {
  const address = (
    await kubectl(demo, IMPORTER, [
      "-n",
      "work",
      "wait",
      "multiclusterservice/hello",
      "--for=jsonpath={.status.loadBalancer.ingress[0].ip}",
      "--timeout=60s",
      "-o",
      "jsonpath={.status.loadBalancer.ingress[0].ip}",
    ])
  ).trim();
  say(`$ curl http://${address}/`);
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const answers: (Answer | undefined)[] = [];
    for (let at = 0; at < 10; at += 1) answers.push(await askFromHere(`http://${address}/`, demo.signal));
    if (checkAnswers(answers, attempt === 4)) {
      showAnswers(answers.filter((it) => it !== undefined));
      break;
    }
  }
  return address;
}

async function askFromHere(url: string, signal: AbortSignal): Promise<Answer | undefined> {
  try {
    const response = await fetch(url, {
      headers: { accept: "application/json", connection: "close" },
      signal: AbortSignal.any([signal, AbortSignal.timeout(2000)]),
    });
    return parseAnswer(await response.text());
  } catch {
    return undefined;
  }
}
