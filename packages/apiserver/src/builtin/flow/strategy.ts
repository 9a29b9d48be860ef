import { dnsLabelProblems } from "#values/names.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, required } from "#values/field-errors.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { subdomain, dnsLabel } from "../names.ts";
import { between, each, fields, filled, number, oneOf, present, type Rule, whole } from "../rules.ts";

/** FlowSchemas and PriorityLevelConfigurations. Source: k8s.io/kubernetes, pkg/apis/flowcontrol. */

const MAX_PRECEDENCE = 10_000;
const DEFAULT_PRECEDENCE = 1000;
const VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

function verbs(of: Fields, path: string): FieldError[] {
  const given = stringsAt(of, "verbs");
  const at = `${path}.verbs`;
  if (given.length === 0) return [required(at, "verbs must contain at least one value")];
  if (given.includes("*")) {
    return given.length > 1 ? [invalid(at, given, "if '*' is present, must not specify other verbs")] : [];
  }
  const quoted = VERBS.map((it) => JSON.stringify(it)).join(", ");
  if (given.every((it) => VERBS.includes(it))) return [];
  const message = `Unsupported value: ${JSON.stringify(given)}: supported values: ${quoted}`;
  return [{ type: "FieldValueNotSupported", field: at, message }];
}

/** A list that must not be empty, and in which "*" must be the only item. */
function listed(
  of: Fields,
  path: string,
  { field, missing, others }: Readonly<Record<string, string>>,
): FieldError[] {
  const given = stringsAt(of, field ?? "");
  const at = `${path}.${field ?? ""}`;
  if (given.length === 0) return [required(at, missing ?? "")];
  if (!given.includes("*") || given.length === 1) return [];
  return [invalid(at, given, `if '*' is present, must not specify other ${others ?? ""}`)];
}

const resourceRule: Rule = whole((of, path) => [
  ...verbs(of, path),
  ...listed(of, path, {
    field: "apiGroups",
    missing: "resource rules must supply at least one api group",
    others: "api groups",
  }),
  ...listed(of, path, {
    field: "resources",
    missing: "resource rules must supply at least one resource",
    others: "resources",
  }),
  ...namespaces(of, path),
]);

function namespaces(of: Fields, path: string): FieldError[] {
  const given = stringsAt(of, "namespaces");
  const at = `${path}.namespaces`;
  if (given.length === 0 && of["clusterScope"] !== true) {
    const detail = "resource rules that are not cluster scoped must supply at least one namespace";
    return [required(at, detail)];
  }
  if (given.includes("*")) {
    return given.length > 1
      ? [invalid(at, given, "if '*' is present, must not specify other namespaces")]
      : [];
  }
  const lead = "each member of this list must be '*' or a DNS-1123 label; ";
  return given.flatMap((it, index) =>
    dnsLabelProblems(it).map((problem) => invalid(`${at}[${index}]`, it, lead + problem)),
  );
}

const urlRule: Rule = whole((of, path) => {
  const urls = stringsAt(of, "nonResourceURLs");
  const at = `${path}.nonResourceURLs`;
  if (urls.length === 0) {
    return [...verbs(of, path), required(at, "nonResourceURLs must contain at least one value")];
  }
  if (urls.includes("*")) return verbs(of, path);
  const wrong = urls.flatMap((it, index) => {
    if (it === "") return [invalid(`${at}[${index}]`, it, "must not be empty")];
    return it.startsWith("/") ? [] : [invalid(`${at}[${index}]`, it, "must start with slash")];
  });
  return [...verbs(of, path), ...wrong];
});

/** The fields that name a subject of a kind. */
const SUBJECTS: Readonly<Record<string, { readonly field: string; readonly rule: Rule }>> = {
  ServiceAccount: {
    field: "serviceAccount",
    rule: fields({
      name: filled("", (value, path) => (value === "*" ? [] : subdomain(value, path))),
      namespace: filled("must specify namespace for service account", dnsLabel),
    }),
  },
  User: { field: "user", rule: fields({ name: filled() }) },
  Group: { field: "group", rule: fields({ name: filled() }) },
};

const subject: Rule = whole((of, path) => {
  const kind = textAt(of, "kind");
  const known = SUBJECTS[kind];
  if (known === undefined) return oneOf("Group", "ServiceAccount", "User")(kind, `${path}.kind`);
  const given = fieldsAt(of, known.field);
  const at = `${path}.${known.field}`;
  const missing = required(at, `${known.field} is required when subject kind is '${kind}'`);
  const others = Object.entries(SUBJECTS).filter(([it, { field }]) => it !== kind && of[field] !== undefined);
  return [
    ...(given === undefined ? [missing] : known.rule(given, at)),
    ...others.map(([other, { field }]) =>
      notAllowed(`${path}.${field}`, `${field} is forbidden when subject kind is not '${other}'`),
    ),
  ];
});

const policyRule: Rule = whole((of, path) => {
  const isEmpty = itemsAt(of, "resourceRules").length + itemsAt(of, "nonResourceRules").length === 0;
  return [
    ...fields({ subjects: filled("subjects must contain at least one value", each(subject)) })(of, path),
    ...(isEmpty
      ? [required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")]
      : []),
    ...fields({ resourceRules: each(resourceRule), nonResourceRules: each(urlRule) })(of, path),
  ];
});

const flowSchema: Rule = fields({
  matchingPrecedence: (value, path) => {
    const given = typeof value === "number" ? value : 0;
    if (given <= 0) return [invalid(path, given, "must be a positive value")];
    if (given > MAX_PRECEDENCE) return [invalid(path, given, `must not be greater than ${MAX_PRECEDENCE}`)];
    return [];
  },
  distinguisherMethod: present(fields({ type: oneOf("ByNamespace", "ByUser") })),
  priorityLevelConfiguration: fields({ name: filled("must reference a priority level", subdomain) }),
  rules: each(policyRule),
});

export const flowSchemaStrategy: Partial<Strategy> = {
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    if ((numberAt(spec, "matchingPrecedence") ?? 0) === 0) spec["matchingPrecedence"] = DEFAULT_PRECEDENCE;
  },
  validateCreate: validateSchema,
  validateUpdate: validateSchema,
};

function validateSchema({ metadata, spec }: ApiObject): FieldError[] {
  return [...flowSchema(spec, "spec"), ...notExempt(metadata.name, spec)];
}

/** The first place is that of requests that must never wait. */
function notExempt(name: string, spec: unknown): FieldError[] {
  const precedence = fieldsAt({ spec }, "spec")?.["matchingPrecedence"];
  if (precedence !== 1 || name === "exempt") return [];
  const detail = "only the schema named 'exempt' may have matchingPrecedence 1";
  return [invalid("spec.matchingPrecedence", precedence, detail)];
}

const above = number((it) => it > 0, "must be positive");
const MAX_QUEUES = 10_000_000;
/** Randomness that a hash of 64 bits has to give, less a few. Unit: bits. */
const MAX_ENTROPY = 60;

const queuing: Rule = whole((of, path) => {
  const queues = numberAt(of, "queues") ?? 0;
  const hand = numberAt(of, "handSize") ?? 0;
  const errors = [...fields({ queueLengthLimit: above, queues: above })(of, path)];
  const at = `${path}.handSize`;
  if (queues > MAX_QUEUES) {
    errors.push(invalid(`${path}.queues`, queues, `must not be greater than ${MAX_QUEUES}`));
  }
  errors.push(...above(hand, at));
  if (hand > queues) errors.push(invalid(at, hand, `should not be greater than queues (${queues})`));
  else if (entropyBits(queues, hand) > MAX_ENTROPY) {
    const detail = `required entropy bits of deckSize ${queues} and handSize ${hand} should not be greater than ${MAX_ENTROPY}`;
    errors.push(invalid(at, hand, detail));
  }
  return errors;
});

/** Of drawing a hand of queues, one after the other. */
function entropyBits(queues: number, hand: number): number {
  if (queues <= 0 || hand <= 0) return 0;
  let bits = 0;
  for (let drawn = 0; drawn < Math.min(hand, queues); drawn++) bits += Math.log2(queues - drawn);
  return Math.ceil(bits);
}

const notNegative = (detail: string): Rule => present(number((it) => it >= 0, detail));

const limited: Rule = fields({
  nominalConcurrencyShares: notNegative("must be a non-negative integer"),
  lendablePercent: present(between(0, 100)),
  borrowingLimitPercent: notNegative("if specified, must be a non-negative integer"),
  limitResponse: whole((of, path) => {
    const errors = [...filled("", oneOf("Queue", "Reject"))(of["type"], `${path}.type`)];
    const given = fieldsAt(of, "queuing");
    if (errors.length > 0 || textAt(of, "type") !== "Queue") return errors;
    const detail = "must not be empty if limited.limitResponse.type is Limited";
    return given === undefined ? [required(`${path}.queuing`, detail)] : queuing(given, `${path}.queuing`);
  }),
});

const priorityLevel: Rule = whole((spec, path) => {
  const type = textAt(spec, "type");
  const given = fieldsAt(spec, "limited");
  if (type === "Limited") {
    if (given === undefined) return [required(`${path}.limited`, "must not be empty when type is Limited")];
    return limited(given, `${path}.limited`);
  }
  return filled("", oneOf("Exempt", "Limited"))(type, `${path}.type`);
});

export const priorityLevelStrategy: Partial<Strategy> = {
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    if (textAt(spec, "type") === "Exempt") ensureFields(spec, "exempt")["nominalConcurrencyShares"] ??= 0;
    if (spec["exempt"] !== undefined) ensureFields(spec, "exempt")["lendablePercent"] ??= 0;
    const given = fieldsAt(spec, "limited");
    if (given === undefined) return;
    given["nominalConcurrencyShares"] ??= 30;
    given["lendablePercent"] ??= 0;
    const queues = fieldsAt(fieldsAt(given, "limitResponse"), "queuing");
    if (queues === undefined) return;
    const usual = { queues: 64, handSize: 8, queueLengthLimit: 50 };
    for (const [key, value] of Object.entries(usual))
      if ((numberAt(queues, key) ?? 0) === 0) queues[key] = value;
  },
  validateCreate: (object) => priorityLevel(object["spec"], "spec"),
  validateUpdate: (object) => priorityLevel(object["spec"], "spec"),
};
