import { cloneJson } from "@fairlead/base/json.ts";
import { ensureFields, type Fields, fieldsAt, itemsAt, stringMapAt, textAt } from "@fairlead/base/fields.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ApiObject } from "#values/object.ts";
import { canonicalQuantity } from "@fairlead/kube/api/meta/canonical-quantity.ts";
import { forbidden } from "#status.ts";
import type { AdmissionPlugin } from "../chain.ts";

/** Default and permitted resources of pods and claims. Source: plugin/pkg/admission/limitranger. */
export const limitRanger: AdmissionPlugin = {
  mutate(attributes) {
    const { object, operation } = attributes;
    if (object === undefined || operation !== "CREATE" || !isOf(attributes, "pods")) return object;
    const ranges = limitRangesOf(attributes);
    return ranges.length === 0 ? object : withDefaults(object, ranges);
  },
  validate(attributes) {
    const { definition, object, old, name } = attributes;
    if (object === undefined || old?.metadata.deletionTimestamp !== undefined) return;
    const isPod = isOf(attributes, "pods") && attributes.operation === "CREATE";
    if (!isPod && !isOf(attributes, "persistentvolumeclaims")) return;
    for (const range of limitRangesOf(attributes)) {
      const problems = isPod ? podProblems(object, range) : claimProblems(object, range);
      const [first] = problems;
      if (first === undefined) continue;
      const unique = [...new Set(problems)];
      throw forbidden(definition, name, unique.length === 1 ? first : `[${unique.join(", ")}]`);
    }
  },
};

function isOf({ definition, subresource }: Attributes, plural: string): boolean {
  return definition.group === "" && definition.plural === plural && subresource === "";
}

function limitRangesOf({ reader, namespace }: Attributes): readonly ApiObject[] {
  return [...reader.list("", "limitranges", namespace)];
}

function limitsOf(range: ApiObject): readonly Fields[] {
  return itemsAt(fieldsAt(range, "spec"), "limits");
}

type Quantities = Readonly<Record<string, string>>;

const ANNOTATION = "kubernetes.io/limit-ranger";

function withDefaults(pod: ApiObject, ranges: readonly ApiObject[]): ApiObject {
  const made = cloneJson(pod);
  const spec = ensureFields(made, "spec");
  for (const range of ranges) {
    const limits = limitsOf(range).filter((it) => textAt(it, "type") === "Container");
    const requests = Object.assign(
      {},
      ...limits.map((it) => stringMapAt(it, "defaultRequest")),
    ) as Quantities;
    const defaults = Object.assign({}, ...limits.map((it) => stringMapAt(it, "default"))) as Quantities;
    const notes = [
      ...itemsAt(spec, "containers").flatMap((it) => fill(it, "container", { requests, defaults })),
      ...itemsAt(spec, "initContainers").flatMap((it) => fill(it, "init container", { requests, defaults })),
    ];
    if (notes.length === 0) continue;
    const annotations = (made.metadata.annotations ??= {});
    annotations[ANNOTATION] = `LimitRanger plugin set: ${notes.join("; ")}`;
  }
  return made;
}

function fill(
  container: Fields,
  what: string,
  { requests, defaults }: { readonly requests: Quantities; readonly defaults: Quantities },
): string[] {
  const resources = ensureFields(container, "resources");
  const set = (field: "requests" | "limits", values: Quantities): string[] => {
    const missing = Object.keys(values)
      .filter((it) => fieldsAt(resources, field)?.[it] === undefined)
      .toSorted();
    if (missing.length === 0) return [];
    const target = ensureFields(resources, field);
    for (const it of missing) target[it] = values[it];
    const word = field === "requests" ? "request" : "limit";
    return [`${missing.join(", ")} ${word} for ${what} ${textAt(container, "name")}`];
  };
  return [...set("requests", requests), ...set("limits", defaults)];
}

interface Usage {
  readonly requests: Quantities;
  readonly limits: Quantities;
}

function usageOf(container: Fields): Usage {
  const resources = fieldsAt(container, "resources");
  return { requests: stringMapAt(resources, "requests"), limits: stringMapAt(resources, "limits") };
}

function podProblems(pod: ApiObject, range: ApiObject): readonly string[] {
  const spec = fieldsAt(pod, "spec");
  return limitsOf(range).flatMap((limit) => {
    const type = textAt(limit, "type");
    if (type === "Pod") return usageProblems(limit, podUsage(spec));
    if (type !== "Container") return [];
    const containers = [...itemsAt(spec, "containers"), ...itemsAt(spec, "initContainers")];
    return containers.flatMap((it) => usageProblems(limit, usageOf(it)));
  });
}

/** The sum over all containers, or the maximum of the init containers if that is larger. */
function podUsage(spec: Fields | undefined): Usage {
  const sum = (field: "requests" | "limits"): Quantities => {
    const isSidecar = (it: Fields): boolean => textAt(it, "restartPolicy") === "Always";
    const init = itemsAt(spec, "initContainers");
    const running = [...itemsAt(spec, "containers"), ...init.filter(isSidecar)];
    const total = new Map<string, { nanos: bigint; unit: string }>();
    for (const it of running) addTo(total, usageOf(it)[field]);
    for (const it of init.filter((container) => !isSidecar(container))) raiseTo(total, usageOf(it)[field]);
    return Object.fromEntries([...total].map(([name, { nanos, unit }]) => [name, render(nanos, unit)]));
  };
  return { requests: sum("requests"), limits: sum("limits") };
}

type Totals = Map<string, { nanos: bigint; unit: string }>;

function addTo(total: Totals, values: Quantities): void {
  for (const [name, text] of Object.entries(values)) {
    const { nanos, unit } = total.get(name) ?? { nanos: 0n, unit: text };
    total.set(name, { nanos: nanos + (parseQuantity(text) ?? 0n), unit });
  }
}

function raiseTo(total: Totals, values: Quantities): void {
  for (const [name, text] of Object.entries(values)) {
    const nanos = parseQuantity(text) ?? 0n;
    if (nanos > (total.get(name)?.nanos ?? -1n)) total.set(name, { nanos, unit: text });
  }
}

const NANOS = 1_000_000_000n;

/** In the form of `unit`: binary or decimal. */
function render(nanos: bigint, unit: string): string {
  const isBinary = unit.endsWith("i") && nanos % (1024n * NANOS) === 0n;
  const text = isBinary ? `${nanos / (1024n * NANOS)}Ki` : `${nanos}n`;
  return canonicalQuantity(text) ?? text;
}

function claimProblems(claim: ApiObject, range: ApiObject): readonly string[] {
  const requests = stringMapAt(fieldsAt(fieldsAt(claim, "spec"), "resources"), "requests");
  return limitsOf(range)
    .filter((it) => textAt(it, "type") === "PersistentVolumeClaim")
    .flatMap((limit) => [
      ...Object.entries(stringMapAt(limit, "min")).flatMap(([name, bound]) =>
        minProblem({ type: "PersistentVolumeClaim", name, bound }, { requests, limits: {} }),
      ),
      ...Object.entries(stringMapAt(limit, "max")).flatMap(([name, bound]) => {
        const head = `maximum ${name} usage per PersistentVolumeClaim is ${bound}`;
        const request = requests[name];
        if (request === undefined) return [`${head}.  No request is specified`];
        return amount(request) > amount(bound) ? [`${head}, but request is ${request}`] : [];
      }),
    ]);
}

interface Bound {
  readonly type: string;
  readonly name: string;
  readonly bound: string;
}

function usageProblems(limit: Fields, usage: Usage): readonly string[] {
  const type = textAt(limit, "type");
  const each = (field: string, check: (of: Bound, usage: Usage) => readonly string[]): readonly string[] =>
    Object.entries(stringMapAt(limit, field)).flatMap(([name, bound]) => check({ type, name, bound }, usage));
  return [
    ...each("min", minProblem),
    ...each("max", maxProblem),
    ...each("maxLimitRequestRatio", ratioProblem),
  ];
}

function amount(text: string): bigint {
  return parseQuantity(text) ?? 0n;
}

function minProblem({ type, name, bound }: Bound, { requests, limits }: Usage): readonly string[] {
  const head = `minimum ${name} usage per ${type} is ${bound}`;
  const [request, limit] = [requests[name], limits[name]];
  if (request === undefined) return [`${head}.  No request is specified`];
  if (amount(request) < amount(bound)) return [`${head}, but request is ${request}`];
  return limit !== undefined && amount(limit) < amount(bound) ? [`${head}, but limit is ${limit}`] : [];
}

function maxProblem({ type, name, bound }: Bound, { requests, limits }: Usage): readonly string[] {
  const head = `maximum ${name} usage per ${type} is ${bound}`;
  const [request, limit] = [requests[name], limits[name]];
  if (limit === undefined) return [`${head}.  No limit is specified`];
  if (amount(limit) > amount(bound)) return [`${head}, but limit is ${limit}`];
  return request !== undefined && amount(request) > amount(bound)
    ? [`${head}, but request is ${request}`]
    : [];
}

const RATIO_DIGITS = 6;

function ratioProblem({ type, name, bound }: Bound, { requests, limits }: Usage): readonly string[] {
  const head = `${name} max limit to request ratio per ${type} is ${bound}`;
  const [request, limit] = [amount(requests[name] ?? "0"), amount(limits[name] ?? "0")];
  if (request === 0n) return [`${head}, but no request is specified or request is 0`];
  if (limit === 0n) return [`${head}, but no limit is specified or limit is 0`];
  if (limit * NANOS <= amount(bound) * request) return [];
  return [`${head}, but provided ratio is ${(Number(limit) / Number(request)).toFixed(RATIO_DIGITS)}`];
}
