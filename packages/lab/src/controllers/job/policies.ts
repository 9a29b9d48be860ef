import type { Job, PodFailurePolicyRule } from "@fairlead/kube/api/batch/v1/types.ts";
import type { ContainerStatus, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { IndexSet } from "./indexes.ts";

/** The podFailurePolicy (KEP-3329) and the successPolicy (KEP-3998) of a Job. */

export interface FailureVerdict {
  /** Whether the failure counts towards `backoffLimit`. */
  readonly isCounted: boolean;
  readonly failsIndex: boolean;
  /** Why the whole Job fails; undefined: it does not. */
  readonly failsJob: string | undefined;
}

const COUNTED: FailureVerdict = { isCounted: true, failsIndex: false, failsJob: undefined };

/** The verdict of the first rule that matches the failed pod; without one a failure counts. */
export function judgeFailure(job: Job, pod: Pod): FailureVerdict {
  for (const [at, rule] of (job.spec?.podFailurePolicy?.rules ?? []).entries()) {
    const why = matchRule(rule, pod);
    if (why === undefined) continue;
    switch (rule.action) {
      case "Ignore":
        return { ...COUNTED, isCounted: false };
      case "FailIndex":
        return { ...COUNTED, failsIndex: true };
      case "FailJob":
        return { ...COUNTED, failsJob: `${why} matching ${rule.action} rule at index ${at}` };
      case "Count":
        return COUNTED;
      default:
        return rule.action satisfies never;
    }
  }
  return COUNTED;
}

/** What about the pod matches the rule, in upstream's words. */
function matchRule({ onExitCodes, onPodConditions }: PodFailurePolicyRule, pod: Pod): string | undefined {
  const { namespace, name } = pod.metadata;
  const { containerStatuses = [], initContainerStatuses = [], conditions = [] } = pod.status ?? {};
  if (onExitCodes !== undefined) {
    const { containerName, operator, values } = onExitCodes;
    const isMatch = (status: ContainerStatus): boolean => {
      const code = status.state?.terminated?.exitCode ?? 0;
      const isNamed = containerName === undefined || containerName === status.name;
      return code !== 0 && isNamed && values.includes(code) === (operator === "In");
    };
    const failed = containerStatuses.find(isMatch) ?? initContainerStatuses.find(isMatch);
    if (failed === undefined) return undefined;
    const code = failed.state?.terminated?.exitCode;
    return `Container ${failed.name} for pod ${namespace}/${name} failed with exit code ${code}`;
  }
  const met = conditions.find(({ type, status }) =>
    (onPodConditions ?? []).some((it) => it.type === type && (it.status ?? "True") === status),
  );
  return met === undefined ? undefined : `Pod ${namespace}/${name} has condition ${met.type}`;
}

/** Which rule of `successPolicy` the indexes that succeeded meet, in upstream's words. */
export function metSuccessPolicy(job: Job, succeeded: IndexSet): string | undefined {
  if (succeeded.size === 0) return undefined;
  const rules = job.spec?.successPolicy?.rules ?? [];
  const at = rules.findIndex(({ succeededIndexes, succeededCount }) => {
    if (succeededIndexes === undefined)
      return succeededCount !== undefined && succeeded.size >= succeededCount;
    const required = IndexSet.parse(succeededIndexes, job.spec?.completions ?? 0);
    return required.size > 0 && required.overlap(succeeded) >= (succeededCount ?? required.size);
  });
  return at < 0 ? undefined : `Matched rules at index ${at}`;
}
