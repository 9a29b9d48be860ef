import type { FieldError } from "#status.ts";
import { invalid, notAllowed, required } from "#values/field-errors.ts";
import { fieldsAt, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { headerNameProblems, portReference } from "../names.ts";
import {
  all,
  choice,
  fields,
  filled,
  nonNegative,
  number,
  oneOf,
  present,
  type Rule,
  text,
  whole,
} from "../rules.ts";

/** Probes and hooks of containers. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const httpGet: Rule = all(
  fields({ path: filled(), port: portReference, scheme: oneOf("HTTP", "HTTPS") }),
  whole((of, path) =>
    itemsAt(of, "httpHeaders").flatMap((it) =>
      text(headerNameProblems)(textAt(it, "name"), `${path}.httpHeaders`),
    ),
  ),
);

const HANDLERS: Readonly<Record<string, Rule>> = {
  exec: fields({ command: filled() }),
  httpGet,
  tcpSocket: fields({ port: portReference }),
  grpc: fields({ port: portReference }),
};

const MANY = "may not specify more than 1 handler type";

function handler(rules: Readonly<Record<string, Rule>>): Rule {
  return choice(
    {
      of: Object.keys(rules),
      none: (path) => required(path, "must specify a handler type"),
      several: (path, field) => notAllowed(`${path}.${field}`, MANY),
    },
    rules,
  );
}

const probe: Rule = all(
  handler(HANDLERS),
  fields({
    initialDelaySeconds: nonNegative,
    timeoutSeconds: nonNegative,
    periodSeconds: nonNegative,
    successThreshold: nonNegative,
    failureThreshold: nonNegative,
    terminationGracePeriodSeconds: present(number((it) => it > 0, "must be greater than 0")),
  }),
);

const once: Rule = fields({ successThreshold: number((it) => it === 1, "must be 1") });

const withoutGracePeriod: Rule = whole((of, path) => {
  const seconds = numberAt(of, "terminationGracePeriodSeconds");
  if (seconds === undefined) return [];
  return [invalid(`${path}.terminationGracePeriodSeconds`, seconds, "must not be set for readinessProbes")];
});

const PROBES: Readonly<Record<string, Rule>> = {
  livenessProbe: present(probe, once),
  readinessProbe: present(probe, withoutGracePeriod),
  startupProbe: present(probe, once),
};

/**
 * @param gracePeriod - How long the pod may take to stop, which a hook that sleeps must fit into. Unit: seconds.
 */
export function handlers(gracePeriod: number): Rule {
  return fields({ lifecycle: present(lifecycle(gracePeriod)), ...PROBES });
}

function lifecycle(gracePeriod: number): Rule {
  const hook = handler({
    ...HANDLERS,
    sleep: (value, path) => sleep(gracePeriod)(fieldsAt({ value }, "value")?.["seconds"], path),
  });
  return fields({ postStart: present(hook), preStop: present(hook) });
}

function sleep(gracePeriod: number): Rule {
  return (value, path) => {
    const seconds = typeof value === "number" ? value : 0;
    if (seconds >= 0 && seconds <= gracePeriod) return [];
    const detail = `must be non-negative and less than terminationGracePeriodSeconds (${gracePeriod})`;
    return [invalid(path, seconds, detail)];
  };
}

/** Init containers that end by themselves are neither probed nor hooked. */
export const noHandlers: Rule = whole((of, path): FieldError[] =>
  ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"]
    .filter((it) => fieldsAt(of, it) !== undefined)
    .map((it) =>
      notAllowed(`${path}.${it}`, "may not be set for init containers without restartPolicy=Always"),
    ),
);
