import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { ApiServer } from "@fairlead/apiserver/server.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { renderKubeconfig } from "@fairlead/base/pki/kubeconfig.ts";
import { checkout } from "../support/lab-fixture.ts";

/** Jobs in a cluster that has no nodes: each is run here, with the rights of its ServiceAccount and nothing else. */

export interface JobsIn {
  readonly server: ApiServer;
  readonly client: KubeClient;
  /** Where kubeconfigs of ServiceAccounts are put. */
  readonly home: string;
}

/** @returns Whether it succeeded. */
export type RunsJob = (args: readonly string[], kubeconfig: string) => Promise<boolean>;

/** Runs each Job once, as soon as it exists, until disposed. */
export async function runJobs(where: JobsIn, run: RunsJob): Promise<AsyncDisposable> {
  const stop = new AbortController();
  const informer = createInformer(where.client, JOBS, {}, systemDeps(silentLogger));
  const running: Promise<void>[] = [];
  const watch = informer.subscribe(({ before, after }) => {
    if (before === undefined && after !== undefined) running.push(runJob(where, after, run));
  });
  informer.start(stop.signal);
  await informer.synced(stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      watch[Symbol.dispose]();
      await Promise.allSettled(running);
      await informer[Symbol.asyncDispose]();
    },
  };
}

/** `fairlead` of this checkout. */
export function runProgram(args: readonly string[]): Promise<ExecResult> {
  return exec(`${checkout}bin/fairlead`, args, { allowFailure: true, timeoutMs: 60_000 });
}

async function runJob({ server, client, home }: JobsIn, job: Job, run: RunsJob): Promise<void> {
  const spec = job.spec?.template.spec;
  const container = spec?.containers[0];
  const kubeconfig = join(home, `${job.metadata.uid}.kubeconfig`);
  const token = await tokenOf(client, job.metadata.namespace ?? "", spec?.serviceAccountName ?? "default");
  await writeFile(kubeconfig, renderKubeconfig({ server: server.url, ca: server.ca, token }));
  const succeeded = await run(container?.args ?? [], kubeconfig);
  const now = new Date(systemClock.now()).toISOString().replace(/\.\d+/, "");
  const type = succeeded ? "Complete" : "Failed";
  const conditions = [succeeded ? "SuccessCriteriaMet" : "FailureTarget", type].map((it) => ({
    type: it,
    status: "True",
    reason: succeeded ? "CompletionsReached" : "BackoffLimitExceeded",
    lastTransitionTime: now,
    lastProbeTime: now,
  }));
  const counts = succeeded ? { succeeded: 1, completionTime: now } : { failed: 1 };
  const status = {
    startTime: now,
    conditions,
    ...counts,
    uncountedTerminatedPods: {},
    ready: 0,
    terminating: 0,
  };
  await client.mergePatch(JOBS, keyOf(job), { status }, { subresource: "status" });
}

async function tokenOf(client: KubeClient, namespace: string, name: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
  const answer = await client.request("POST", path, body);
  return (answer as { status: { token: string } }).status.token;
}
