import type { FieldError } from "#status.ts";
import { duplicate, invalid, notAllowed, notSupported, required, tooMany } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringAt, textAt } from "@fairlead/base/fields.ts";
import { dnsLabel, portNameProblems } from "../names.ts";
import { resourceClaims, resourceRequirements } from "../resources.ts";
import { between, fields, filled, oneOf, optional, type Rule } from "../rules.ts";
import { environment, environmentSources } from "./environment.ts";
import { handlers, noHandlers } from "./handlers.ts";
import { validateDevices, validateMounts } from "./mounts.ts";
import { containerSecurity } from "./security.ts";

/** Containers of pods. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

/** The properties of the pod that container validation needs. */
export interface PodView {
  readonly spec: Fields;
  /** Volumes that are right, by name. */
  readonly volumes: ReadonlyMap<string, Fields>;
}

export function validateContainers(pod: PodView, path: string): FieldError[] {
  const { spec } = pod;
  const containers = itemsAt(spec, "containers");
  const names = new Set<string>();
  const gracePeriod = gracePeriodOf(spec);
  const at = `${path}.containers`;
  if (containers.length === 0) return [required(at), ...validateInitContainers(pod, path, names)];
  return [
    ...containers.flatMap((it, index) => [
      ...validateContainer(it, `${at}[${index}]`, pod),
      ...addName(names, it, `${at}[${index}].name`),
      ...handlers(gracePeriod)(it, `${at}[${index}]`),
      ...validateRestarts(it, `${at}[${index}]`),
    ]),
    ...validateHostPorts(containers, at),
    ...validateInitContainers(pod, path, names),
  ];
}

function gracePeriodOf(spec: Fields): number {
  return numberAt(spec, "terminationGracePeriodSeconds") ?? 0;
}

/** Init and other containers share one space of names. */
function validateInitContainers(pod: PodView, path: string, names: Set<string>): FieldError[] {
  const gracePeriod = gracePeriodOf(pod.spec);
  return itemsAt(pod.spec, "initContainers").flatMap((it, index) => {
    const list = `${path}.initContainers`;
    const at = `${list}[${index}]`;
    const isSidecar = it["restartPolicy"] === "Always";
    return [
      ...validateContainer(it, at, pod),
      ...validateRestarts(it, at),
      ...addName(names, it, `${at}.name`),
      ...validateHostPorts([it], list),
      ...(isSidecar ? handlers(gracePeriod) : noHandlers)(it, at),
    ];
  });
}

function addName(names: Set<string>, container: Fields, path: string): FieldError[] {
  const name = textAt(container, "name");
  if (names.has(name)) return [duplicate(path, name)];
  names.add(name);
  return [];
}

const identity: Rule = fields({
  name: filled("", dnsLabel),
  image: filled(),
  terminationMessagePolicy: filled("", oneOf("File", "FallbackToLogsOnError")),
});

const port: Rule = fields({
  containerPort: filled("", between(1, 65_535)),
  hostPort: optional((value, path) => (value === 0 ? [] : between(1, 65_535)(value, path))),
  protocol: filled("", oneOf("SCTP", "TCP", "UDP")),
});

function validateContainer(container: Fields, path: string, { spec, volumes }: PodView): FieldError[] {
  return [
    ...identity(container, path),
    ...validatePorts(itemsAt(container, "ports"), `${path}.ports`),
    ...fields({ env: environment, envFrom: environmentSources })(container, path),
    ...validateMounts(container, `${path}.volumeMounts`, volumes),
    ...validateDevices(container, `${path}.volumeDevices`, volumes),
    ...fields({ imagePullPolicy: filled("", oneOf("Always", "IfNotPresent", "Never")) })(container, path),
    ...resourceRequirements(fieldsAt(container, "resources"), `${path}.resources`),
    ...resourceClaims(fieldsAt(container, "resources"), `${path}.resources.claims`, spec),
    ...validateResizePolicy(container, `${path}.resizePolicy`, textAt(spec, "restartPolicy")),
    ...containerSecurity(spec["hostUsers"] !== false)(
      fieldsAt(container, "securityContext"),
      `${path}.securityContext`,
    ),
  ];
}

function validatePorts(ports: readonly Fields[], path: string): FieldError[] {
  const names = new Set<string>();
  return ports.flatMap((it, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(it, "name");
    const problems = name === "" ? [] : portNameProblems(name);
    const isSeen = problems.length === 0 && names.has(name);
    if (name !== "" && problems.length === 0) names.add(name);
    return [
      ...problems.map((problem) => invalid(`${at}.name`, name, problem)),
      ...(isSeen ? [duplicate(`${at}.name`, name)] : []),
      ...port(it, at),
    ];
  });
}

/** A port of the node serves one container. */
function validateHostPorts(containers: readonly Fields[], path: string): FieldError[] {
  const seen = new Set<string>();
  return containers.flatMap((container, at) =>
    itemsAt(container, "ports").flatMap((it, index) => {
      const hostPort = numberAt(it, "hostPort") ?? 0;
      const key = `${textAt(it, "protocol")}/${textAt(it, "hostIP")}/${hostPort}`;
      if (hostPort === 0) return [];
      if (seen.has(key)) return [duplicate(`${path}[${at}].ports[${index}].hostPort`, key)];
      seen.add(key);
      return [];
    }),
  );
}

const MAX_RESTART_RULES = 20;

const restartRule: Rule = (value, path) => {
  const rule = fieldsAt({ value }, "value");
  return [
    ...fields({ action: oneOf("Restart", "RestartAllContainers") })(rule, path),
    ...(fieldsAt(rule, "exitCodes") === undefined
      ? [required(`${path}.exitCodes`, "must be specified")]
      : fields({ exitCodes: fields({ operator: oneOf("In", "NotIn") }) })(rule, path)),
  ];
};

function validateRestarts(container: Fields, path: string): FieldError[] {
  const policy = stringAt(container, "restartPolicy");
  const rules = itemsAt(container, "restartPolicyRules");
  const at = `${path}.restartPolicy`;
  const errors: FieldError[] = [];
  if (policy !== undefined) errors.push(...oneOf("Always", "Never", "OnFailure")(policy, at));
  else if (rules.length > 0) {
    errors.push(required(at, "must specify restartPolicy when restart rules are used"));
  }
  const list = `${path}.restartPolicyRules`;
  if (rules.length > MAX_RESTART_RULES) errors.push(tooMany(list, rules.length, MAX_RESTART_RULES));
  return [...errors, ...rules.flatMap((it, index) => restartRule(it, `${list}[${index}]`))];
}

/** Upstream reports all errors except duplicates at the path of the list. */
function validateResizePolicy(container: Fields, path: string, podPolicy: string): FieldError[] {
  const seen = new Set<string>();
  return itemsAt(container, "resizePolicy").flatMap((it, index) => {
    const resource = textAt(it, "resourceName");
    const policy = textAt(it, "restartPolicy");
    const isSeen = seen.has(resource);
    seen.add(resource);
    const isForbidden = podPolicy === "Never" && policy !== "NotRequired";
    return [
      ...(isSeen ? [duplicate(`${path}[${index}]`, resource)] : []),
      ...filled("", oneOf("cpu", "memory"))(resource, path),
      ...filled("", oneOf("NotRequired", "RestartContainer"))(policy, path),
      ...(isForbidden
        ? [invalid(path, policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")]
        : []),
    ];
  });
}

/** In the node's own network, a container's port is the node's. */
export function validateHostNetwork(spec: Fields, path: string, isPod: boolean): FieldError[] {
  if (spec["hostNetwork"] !== true) return [];
  const detail = "must match `containerPort` when `hostNetwork` is true";
  return itemsAt(spec, "containers").flatMap((container, at) =>
    itemsAt(container, "ports").flatMap((it, index) => {
      const hostPort = numberAt(it, "hostPort") ?? 0;
      if ((!isPod && hostPort === 0) || hostPort === (numberAt(it, "containerPort") ?? 0)) return [];
      return [invalid(`${path}.containers[${at}].ports[${index}].hostPort`, hostPort, detail)];
    }),
  );
}

/** With users of its own, a pod cannot share what belongs to the node's. */
export function validateHostUsers(spec: Fields, path: string): FieldError[] {
  if (spec["hostUsers"] !== false) return [];
  const detail = "when `hostUsers` is false";
  const shared = [
    ["hostNetwork", "hostNetwork"],
    ["hostPID", "HostPID"],
    ["hostIPC", "HostIPC"],
  ] as const;
  const lists = ["initContainers", "containers"] as const;
  return [
    ...shared.filter(([key]) => spec[key] === true).map(([, name]) => notAllowed(`${path}.${name}`, detail)),
    ...lists.flatMap((list) =>
      itemsAt(spec, list).flatMap((it, at) =>
        itemsAt(it, "volumeDevices").length === 0
          ? []
          : [notAllowed(`${path}.${list}[${at}].volumeDevices`, detail)],
      ),
    ),
  ];
}

/** Validates the name of the operating system. */
export function validateOs(os: Fields | undefined, path: string): FieldError[] {
  if (os === undefined) return [];
  const name = textAt(os, "name");
  if (name === "") return [required(`${path}.name`)];
  return ["linux", "windows"].includes(name) ? [] : [notSupported(path, name, ["linux", "windows"])];
}
