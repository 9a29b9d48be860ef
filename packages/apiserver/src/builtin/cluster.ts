import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, required } from "#values/field-errors.ts";
import { fieldsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { labels } from "./labels.ts";
import { dnsLabel, subdomain } from "./names.ts";
import { dns1035Problems } from "#values/names.ts";
import { toleration } from "./pod/scheduling.ts";
import { resourceRequirements } from "./resources.ts";
import {
  all,
  distinct,
  each,
  fields,
  filled,
  immutable,
  number,
  oneOf,
  optional,
  present,
  type Rule,
  text,
  whole,
} from "./rules.ts";

/** Defaults and validation of kinds that configure the cluster as a whole. */

/** Above it are the priorities of the system. */
/** Port of a Service where none is named. */
const SERVICE_PORT = 443;
const MAX_USER_PRIORITY = 1_000_000_000;

const SYSTEM_CLASSES = new Set(["system-cluster-critical", "system-node-critical"]);
const preemption: Rule = fields({
  preemptionPolicy: present(filled("", oneOf("PreemptLowerPriority", "Never"))),
});

export const priorityClassStrategy: Partial<Strategy> = {
  generation: "first",
  applyDefaults: (object) => {
    object["preemptionPolicy"] ??= "PreemptLowerPriority";
  },
  validateCreate: (object) => {
    const { value } = object;
    const isTooMuch = typeof value === "number" && value > MAX_USER_PRIORITY;
    const isOfSystem = SYSTEM_CLASSES.has(object.metadata.name);
    const detail = `maximum allowed value of a user defined priority is ${MAX_USER_PRIORITY}`;
    return [...(isTooMuch && !isOfSystem ? [notAllowed("value", detail)] : []), ...preemption(object, "")];
  },
  validateUpdate: (object, old) => [
    ...(object["value"] === old["value"] ? [] : [notAllowed("value", "may not be changed in an update.")]),
    ...immutable(object, old, "", "preemptionPolicy"),
  ],
};

const runtimeClass: Rule = fields({
  handler: filled("", dnsLabel),
  overhead: present((value, path) =>
    resourceRequirements({ limits: fieldsAt({ value }, "value")?.["podFixed"] }, path),
  ),
  scheduling: present(
    fields({
      nodeSelector: labels,
      tolerations: all(
        each(toleration),
        distinct((it) => JSON.stringify(it)),
      ),
    }),
  ),
});

export const runtimeClassStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  allowCreateOnUpdate: true,
  validateCreate: (object) => runtimeClass(object, ""),
  validateUpdate: (object, old) => [...runtimeClass(object, ""), ...immutable(object, old, "", "handler")],
};

const MAX_GROUP_PRIORITY = 20_000;
const MAX_VERSION_PRIORITY = 1000;

function priority(limit: number): Rule {
  return number((it) => it > 0 && it <= limit, `must be positive and less than ${limit}`);
}

const apiService: Rule = all(
  whole((of, path) => {
    const isRight = textAt(of, "group") !== "" || textAt(of, "version") === "v1";
    return isRight
      ? []
      : [required(`${path}.group`, "only v1 may have an empty group and it better be legacy kube")];
  }),
  fields({
    group: optional(subdomain),
    version: text(dns1035Problems),
    groupPriorityMinimum: priority(MAX_GROUP_PRIORITY),
    versionPriority: priority(MAX_VERSION_PRIORITY),
  }),
  whole((of, path) => {
    const service = fieldsAt(of, "service");
    if (service === undefined) {
      const detail = "local APIServices may not have insecureSkipTLSVerify";
      const at = `${path}.insecureSkipTLSVerify`;
      const message = `Invalid value: true: ${detail}`;
      return of["insecureSkipTLSVerify"] === true ? [{ type: "FieldValueInvalid", field: at, message }] : [];
    }
    const port = numberAt(service, "port") ?? 0;
    const isPort = port >= 1 && port <= 65_535;
    const detail = "port is not valid: must be between 1 and 65535, inclusive";
    return [
      ...fields({ namespace: filled(), name: filled() })(service, `${path}.service`),
      ...(isPort ? [] : [invalid(`${path}.service.port`, port, detail)]),
    ];
  }),
);

export const apiServiceStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  applyDefaults: (object) => {
    const service = fieldsAt(fieldsAt(object, "spec"), "service");
    if (service !== undefined) service["port"] ??= SERVICE_PORT;
  },
  validateCreate: validateApiService,
  validateUpdate: validateApiService,
};

function validateApiService(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const wanted = `${textAt(spec, "version")}.${textAt(spec, "group")}`;
  const { name } = object.metadata;
  const misnamed = invalid(
    "metadata.name",
    name,
    `must be \`spec.version+"."+spec.group\`: ${JSON.stringify(wanted)}`,
  );
  return [...(name === wanted ? [] : [misnamed]), ...apiService(spec, "spec")];
}
