/** The examples in a lab of three members, until a pod in one cluster has an answer from a pod in another. */

import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { findKubectl } from "@fairlead/base/program/kubectl.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type BenchLab, root } from "./lab.ts";

const URL = "http://hello.work.svc.clusterset.local/";

/** @param checkout - Where the examples come from. Default: this checkout. */
export async function answerAcross(lab: BenchLab, checkout = root): Promise<void> {
  await applyExamples(lab, checkout);
  await firstAnswer(lab);
}

async function applyExamples(lab: BenchLab, checkout: string): Promise<void> {
  const kubectl = findKubectl(`${root}node_modules/.tools`);
  await Promise.all(
    ["member-1", "member-2", "member-3"].map((cluster) =>
      exec(kubectl, [
        "--kubeconfig",
        lab.layout.kubeconfig,
        "--context",
        cluster,
        "apply",
        "-f",
        join(checkout, `examples/${cluster}.yaml`),
      ]),
    ),
  );
  const client = await lab.client("member-3");
  const key = objectKey("work", "client");
  const selector = {
    namespace: "work",
    fieldSelector: "metadata.name=client",
    sendInitialEvents: true,
    allowWatchBookmarks: true,
  };
  for await (const event of client.watch(PODS, selector, AbortSignal.timeout(60_000))) {
    if (event.type !== "ERROR" && event.object.status?.phase === "Running") return;
  }
  throw new Error(`pod ${key} does not run`);
}

/** Sends requests from the pod until one is answered: the loop runs inside, so that the start of kubectl is counted once. */
async function firstAnswer(lab: BenchLab): Promise<void> {
  const script = `i=0; while [ $i -lt 3000 ]; do curl -sf -m 1 ${URL} && exit 0; i=$((i+1)); sleep 0.02; done; exit 1`;
  const args = [
    "--kubeconfig",
    lab.layout.kubeconfig,
    "--context",
    "member-3",
    "-n",
    "work",
    "exec",
    "client",
    "--",
    "sh",
    "-c",
    script,
  ];
  await exec(findKubectl(`${root}node_modules/.tools`), args, { timeoutMs: 90_000 });
}
