import { type Job, JOB_TRACKING_FINALIZER, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Container, Pod, PodTemplateSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { ownerReferenceTo, podOfTemplate } from "../templates.ts";
import { failureNotes, INDEX_KEY } from "./tally.ts";
import type { JobPlan } from "./plan.ts";

const INDEX_ENV = "JOB_COMPLETION_INDEX";

export function newPod(job: Job, { index, replaces }: JobPlan["create"][number], suffix: string): Pod {
  const { name, namespace } = job.metadata;
  const owner = ownerReferenceTo(JOBS, job);
  const template = withFinalizer(job.spec?.template);
  if (index === undefined) return podOfTemplate(owner, template, { namespace, prefix: `${name}-`, suffix });
  const own = withIndex(template, index, failureNotes(job, replaces));
  const tail = `-${index}-`;
  const prefix = `${name.slice(0, 58 - tail.length)}${tail}`;
  const pod = podOfTemplate(owner, own, { namespace, prefix, suffix });
  return { ...pod, spec: { containers: [], ...pod.spec, hostname: `${name}-${index}` } };
}

function withFinalizer(template: PodTemplateSpec | undefined): PodTemplateSpec {
  const finalizers = new Set([...(template?.metadata?.finalizers ?? []), JOB_TRACKING_FINALIZER]);
  return { ...template, metadata: { ...template?.metadata, finalizers: [...finalizers] } };
}

function withIndex(
  { metadata, spec }: PodTemplateSpec,
  index: number,
  notes: Readonly<Record<string, string>>,
): PodTemplateSpec {
  const { initContainers, containers = [] } = spec ?? {};
  return {
    metadata: {
      ...metadata,
      labels: { ...metadata?.labels, [INDEX_KEY]: String(index) },
      annotations: { ...metadata?.annotations, [INDEX_KEY]: String(index), ...notes },
    },
    spec: {
      ...spec,
      containers: containers.map(withIndexEnv),
      ...(initContainers === undefined ? {} : { initContainers: initContainers.map(withIndexEnv) }),
    },
  };
}

function withIndexEnv(container: Container): Container {
  const { env = [] } = container;
  if (env.some((it) => it.name === INDEX_ENV)) return container;
  const fieldPath = `metadata.labels['${INDEX_KEY}']`;
  return { ...container, env: [...env, { name: INDEX_ENV, valueFrom: { fieldRef: { fieldPath } } }] };
}
