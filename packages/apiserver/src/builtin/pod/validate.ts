import { formText, qualifiedNameProblems, tooLong, wholly } from "#values/names.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { address } from "../addresses.ts";
import { duplicate, invalid, notAllowed, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, stringMapAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { labels } from "../labels.ts";
import { dnsLabel, subdomain } from "../names.ts";
import { resourceName, resourceRequirements } from "../resources.ts";
import {
  all,
  between,
  each,
  fields,
  filled,
  oneOf,
  optional,
  present,
  type Rule,
  text,
  whole,
} from "../rules.ts";
import { affinity, toleration, topologySpreadConstraints } from "./scheduling.ts";
import { podSecurity } from "./security.ts";
import {
  validateContainers,
  validateHostNetwork,
  validateHostUsers,
  validateOs,
} from "./validate-container.ts";
import { validateVolumes } from "./volumes.ts";

/** Specs of pods and of templates. Source: k8s.io/kubernetes, pkg/apis/core/validation, `ValidatePodSpec`. */

const DNS_POLICIES = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

const policies: Rule = fields({
  restartPolicy: filled("", oneOf("Always", "OnFailure", "Never")),
  dnsPolicy: filled("", oneOf(...DNS_POLICIES)),
  nodeSelector: labels,
  securityContext: podSecurity,
});

const gates: Rule = (value, path) => {
  const seen = new Set<string>();
  return itemsAt({ value }, "value").flatMap((it, at) => {
    const name = textAt(it, "name");
    const isSeen = seen.has(name);
    seen.add(name);
    const here = `${path}[${at}]`;
    return [...text(qualifiedNameProblems)(name, here), ...(isSeen ? [duplicate(here, name)] : [])];
  });
};

const placement: Rule = fields({
  readinessGates: each(fields({ conditionType: text(qualifiedNameProblems) })),
  schedulingGates: gates,
  topologySpreadConstraints,
});

const identity: Rule = fields({
  serviceAccountName: optional(subdomain),
  nodeName: optional(subdomain),
  activeDeadlineSeconds: present(between(1, 2 ** 31 - 1)),
  hostname: optional(dnsLabel),
  subdomain: optional(dnsLabel),
  tolerations: each(toleration),
  hostAliases: each(fields({ ip: address, hostnames: each(subdomain) })),
  priorityClassName: optional(subdomain),
  runtimeClassName: present(subdomain),
  preemptionPolicy: present(oneOf("PreemptLowerPriority", "Never")),
});

export interface PodContext {
  /** The pod's name; absent in templates. */
  readonly podName?: string;
}

/** A pod that is new, beyond what its spec says by itself. */
export function validateNewPod(pod: ApiObject): FieldError[] {
  const spec = fieldsAt(pod, "spec") ?? {};
  const isGated = itemsAt(spec, "schedulingGates").length > 0;
  const lists = ["initContainers", "containers"] as const;
  return [
    ...validatePodSpec(spec, "spec", { podName: pod.metadata.name }),
    ...lists.flatMap((list) => itemsAt(spec, list).flatMap((it, at) => image(it, `spec.${list}[${at}]`))),
    ...(itemsAt(spec, "ephemeralContainers").length > 0
      ? [notAllowed("spec.ephemeralContainers", "cannot be set on create")]
      : []),
    ...(isGated && textAt(spec, "nodeName") !== ""
      ? [notAllowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")]
      : []),
  ];
}

/** Templates may hold a blank, for what fills it in. */
export const image: Rule = fields({
  image: text((it) => (it === it.trim() ? [] : ["must not have leading or trailing whitespace"])),
});

export function validatePodSpec(
  of: Fields | undefined,
  path: string,
  { podName }: PodContext = {},
): FieldError[] {
  const spec = of ?? {};
  const volumes = validateVolumes(itemsAt(spec, "volumes"), `${path}.volumes`, podName);
  return [
    ...volumes.errors,
    ...validateContainers({ spec, volumes: volumes.byName }, path),
    ...resourceRequirements(fieldsAt(spec, "resources"), `${path}.resources`, resourceName),
    ...validateHostNetwork(spec, path, podName !== undefined),
    ...policies(spec, path),
    ...validateSharedProcesses(spec, `${path}.securityContext.shareProcessNamespace`),
    ...fields({ affinity })(spec, path),
    ...validateDns(spec, `${path}.dnsConfig`),
    ...placement(spec, path),
    ...validateHostUsers(spec, path),
    ...identity(spec, path),
    ...resourceRequirements({ limits: spec["overhead"] }, `${path}.overhead`),
    ...validateOs(fieldsAt(spec, "os"), `${path}.os`),
  ];
}

function validateSharedProcesses(spec: Fields, path: string): FieldError[] {
  if (spec["hostPID"] !== true || spec["shareProcessNamespace"] !== true) return [];
  return [invalid(path, true, "ShareProcessNamespace and HostPID cannot both be enabled")];
}

const SEARCH = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";

function searchProblems(name: string): readonly string[] {
  const bare = name.replace(/\.$/, "");
  if (name === "." || wholly(SEARCH).test(bare)) return tooLong(bare, 253, "characters");
  const what =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start " +
    "and end with an alphanumeric character";
  return [...tooLong(bare, 253, "characters"), formText(what, SEARCH, "example.com")];
}

const MAX_NAMESERVERS = 3;
const MAX_SEARCHES = 32;
/** With the spaces between them. */
const MAX_SEARCH_CHARACTERS = 2048;

const dnsConfig: Rule = all(
  whole((of, path) => {
    const count = stringsAt(of, "nameservers").length;
    if (count <= MAX_NAMESERVERS) return [];
    const detail = `must not have more than ${MAX_NAMESERVERS} nameservers`;
    return [invalid(`${path}.nameservers`, of["nameservers"], detail)];
  }),
  fields({ nameservers: each(address) }),
  whole((of, path) => {
    const searches = stringsAt(of, "searches");
    const errors: FieldError[] = [];
    const at = `${path}.searches`;
    if (searches.length > MAX_SEARCHES) {
      errors.push(invalid(at, searches, `must not have more than ${MAX_SEARCHES} search paths`));
    }
    if (searches.join(" ").length > MAX_SEARCH_CHARACTERS) {
      const detail = `must not have more than ${MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list`;
      errors.push(invalid(at, searches, detail));
    }
    const options = itemsAt(of, "options").flatMap((it, index) =>
      textAt(it, "name") === "" ? [required(`${path}.options[${index}]`, "must not be empty")] : [],
    );
    return [...errors, ...each(text(searchProblems))(searches, at), ...options];
  }),
);

function validateDns(spec: Fields, path: string): readonly FieldError[] {
  const config = fieldsAt(spec, "dnsConfig");
  if (textAt(spec, "dnsPolicy") === "None") {
    if (config === undefined) return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")];
    if (stringsAt(config, "nameservers").length === 0) {
      const detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
      return [required(`${path}.nameservers`, detail)];
    }
  }
  return config === undefined ? [] : dnsConfig(config, path);
}

/** A template and the metadata that its pods get. */
export function validatePodTemplate(template: Fields | undefined, path: string): FieldError[] {
  const metadata = fieldsAt(template, "metadata");
  return [
    ...labels(stringMapAt(metadata, "labels"), `${path}.labels`),
    ...Object.keys(stringMapAt(metadata, "annotations")).flatMap((it) =>
      text(qualifiedNameProblems)(it.toLowerCase(), `${path}.annotations`).map((error) => error),
    ),
    ...validatePodSpec(fieldsAt(template, "spec"), `${path}.spec`),
    ...(itemsAt(fieldsAt(template, "spec"), "ephemeralContainers").length > 0
      ? [notAllowed(`${path}.spec.ephemeralContainers`, "ephemeral containers not allowed in pod template")]
      : []),
  ];
}
