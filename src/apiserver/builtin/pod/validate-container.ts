import { checkDnsLabel } from "../../registry/names.ts";
import type { FieldError } from "../../status.ts";
import {
  duplicate,
  invalid,
  notAllowed,
  required,
  unlessInRange,
  unlessNonNegative,
  unlessOneOf,
} from "../field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, textAt } from "../fields.ts";
import { checkPortName } from "../names.ts";
import { parseQuantity } from "../quantity.ts";
import { validateMounts } from "./validate-volume.ts";

/** Containers of a pod: init and others share one space of names. */
export function validateContainers(spec: Fields, path: string, volumes: ReadonlySet<string>): FieldError[] {
  const names = new Set<string>();
  const errors: FieldError[] =
    itemsAt(spec, "containers").length === 0 ? [required(`${path}.containers`)] : [];
  for (const list of ["initContainers", "containers"]) {
    for (const [index, it] of itemsAt(spec, list).entries()) {
      const at = `${path}.${list}[${index}]`;
      const name = textAt(it, "name");
      if (names.has(name)) errors.push(duplicate(`${at}.name`, name));
      names.add(name);
      errors.push(...validateContainer(it, at, volumes));
    }
  }
  return errors;
}

function validateContainer(container: Fields, path: string, volumes: ReadonlySet<string>): FieldError[] {
  const name = textAt(container, "name");
  const problem = name === "" ? undefined : checkDnsLabel(name);
  const image = textAt(container, "image");
  const errors: FieldError[] = [];
  if (name === "") errors.push(required(`${path}.name`));
  if (problem !== undefined) errors.push(invalid(`${path}.name`, name, problem));
  if (image === "") errors.push(required(`${path}.image`));
  else if (image.trim() !== image) {
    errors.push(invalid(`${path}.image`, image, "must not have leading or trailing whitespace"));
  }
  return [
    ...errors,
    ...unlessOneOf(`${path}.imagePullPolicy`, container["imagePullPolicy"], [
      "Always",
      "IfNotPresent",
      "Never",
    ]),
    ...unlessOneOf(`${path}.terminationMessagePolicy`, container["terminationMessagePolicy"], [
      "FallbackToLogsOnError",
      "File",
    ]),
    ...validateContainerPorts(itemsAt(container, "ports"), `${path}.ports`),
    ...validateEnv(itemsAt(container, "env"), `${path}.env`),
    ...validateMounts(itemsAt(container, "volumeMounts"), `${path}.volumeMounts`, volumes),
    ...validateResources(fieldsAt(container, "resources"), `${path}.resources`),
    ...validateProbe(fieldsAt(container, "livenessProbe"), `${path}.livenessProbe`, true),
    ...validateProbe(fieldsAt(container, "readinessProbe"), `${path}.readinessProbe`, false),
    ...validateProbe(fieldsAt(container, "startupProbe"), `${path}.startupProbe`, true),
  ];
}

function validateContainerPorts(ports: readonly Fields[], path: string): FieldError[] {
  const names = new Set<string>();
  return ports.flatMap((port, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(port, "name");
    const errors: FieldError[] = [];
    const problem = name === "" ? undefined : checkPortName(name);
    if (problem !== undefined) errors.push(invalid(`${at}.name`, name, problem));
    if (name !== "" && names.has(name)) errors.push(duplicate(`${at}.name`, name));
    names.add(name);
    if ((numberAt(port, "containerPort") ?? 0) === 0) errors.push(required(`${at}.containerPort`));
    else errors.push(...unlessInRange(`${at}.containerPort`, port["containerPort"], 1, 65_535));
    if ((numberAt(port, "hostPort") ?? 0) !== 0) {
      errors.push(...unlessInRange(`${at}.hostPort`, port["hostPort"], 1, 65_535));
    }
    return [...errors, ...unlessOneOf(`${at}.protocol`, port["protocol"], ["SCTP", "TCP", "UDP"])];
  });
}

function validateEnv(env: readonly Fields[], path: string): FieldError[] {
  return env.flatMap((it, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(it, "name");
    const errors: FieldError[] = [];
    if (name === "") errors.push(required(`${at}.name`));
    else if (name.includes("=")) {
      const detail = "environment variable names must be printable ASCII characters other than '='";
      errors.push(invalid(`${at}.name`, name, detail));
    }
    const source = fieldsAt(it, "valueFrom");
    if (source === undefined) return errors;
    if (textAt(it, "value") !== "") {
      errors.push(invalid(`${at}.valueFrom`, "", "may not be specified when `value` is not empty"));
    }
    const sources = Object.keys(source).length;
    if (sources === 1) return errors;
    const detail =
      sources === 0
        ? "must specify one of its fields"
        : "may not have more than one field specified at a time";
    return [...errors, invalid(`${at}.valueFrom`, "", detail)];
  });
}

function validateResources(resources: Fields | undefined, path: string): FieldError[] {
  const limits = fieldsAt(resources, "limits") ?? {};
  const requests = fieldsAt(resources, "requests") ?? {};
  const errors = [
    ...validateQuantities(limits, `${path}.limits`),
    ...validateQuantities(requests, `${path}.requests`),
  ];
  for (const [key, value] of Object.entries(requests)) {
    const wanted = parseQuantity(value);
    const limit = parseQuantity(limits[key]);
    if (wanted === undefined || limit === undefined || wanted <= limit) continue;
    const detail = `must be less than or equal to ${key} limit of ${String(limits[key])}`;
    errors.push(invalid(`${path}.requests`, value, detail));
  }
  return errors;
}

function validateQuantities(quantities: Fields, path: string): FieldError[] {
  return Object.entries(quantities).flatMap(([key, value]) => {
    const size = parseQuantity(value);
    const at = `${path}[${key}]`;
    if (size === undefined) {
      const detail =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
      return [invalid(at, value, detail)];
    }
    return size < 0n ? [invalid(at, value, "must be greater than or equal to 0")] : [];
  });
}

const HANDLERS = ["exec", "grpc", "httpGet", "tcpSocket"];
const PROBE_NUMBERS = [
  "initialDelaySeconds",
  "timeoutSeconds",
  "periodSeconds",
  "successThreshold",
  "failureThreshold",
];

function validateProbe(probe: Fields | undefined, path: string, isSingleSuccess: boolean): FieldError[] {
  if (probe === undefined) return [];
  const [first, ...others] = HANDLERS.filter((it) => fieldsAt(probe, it) !== undefined);
  const errors = PROBE_NUMBERS.flatMap((it) => unlessNonNegative(`${path}.${it}`, probe[it]));
  if (first === undefined) errors.push(required(path, "must specify a handler type"));
  for (const it of others) {
    errors.push(notAllowed(`${path}.${it}`, "may not specify more than 1 handler type"));
  }
  if (isSingleSuccess && probe["successThreshold"] !== 1) {
    errors.push(invalid(`${path}.successThreshold`, probe["successThreshold"], "must be 1"));
  }
  return [
    ...errors,
    ...(first === undefined ? [] : validateHandler(fieldsAt(probe, first), `${path}.${first}`, first)),
  ];
}

function validateHandler(handler: Fields | undefined, path: string, kind: string): FieldError[] {
  if (kind === "exec") {
    const command = handler?.["command"];
    return Array.isArray(command) && command.length > 0 ? [] : [required(`${path}.command`)];
  }
  const port = handler?.["port"];
  if (port === undefined) return [required(`${path}.port`)];
  if (typeof port !== "string") return unlessInRange(`${path}.port`, port, 1, 65_535);
  const problem = checkPortName(port);
  return problem === undefined ? [] : [invalid(`${path}.port`, port, problem)];
}
