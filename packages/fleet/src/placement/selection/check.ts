import { messageOf } from "@fairlead/base/errors.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import type {
  PlacementSpec,
  ResourceSelector,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { KindTable } from "./kinds.ts";
import { isNamespace, type PlacementRules } from "./rules.ts";

/** What a user has to change in a placement before anything can be selected. */
export interface SelectorProblem {
  /** The field of the placement. */
  readonly field: string;
  readonly message: string;
}

/** What selectors are evaluated against. */
export interface SelectionInput {
  /** Of a ResourcePlacement: its own; it selects nothing outside. */
  readonly namespace: string | undefined;
  readonly spec: Pick<PlacementSpec, "resourceSelectors" | "statusReportingScope">;
  readonly kinds: KindTable;
  readonly rules: PlacementRules;
}

export function fieldOf(at: number, name?: string): string {
  return `spec.resourceSelectors[${at}]${name === undefined ? "" : `.${name}`}`;
}

/** The namespace in which the selectors of namespaced kinds select: that of `NamespaceWithResourceSelectors`, or of a ResourcePlacement. */
export function selectedWithin(input: Pick<SelectionInput, "namespace" | "spec">): string | undefined {
  return input.namespace ?? input.spec.resourceSelectors.find(selectsWithin)?.name;
}

export function selectsWithin(selector: ResourceSelector): boolean {
  return isNamespace(selector) && selector.selectionScope === "NamespaceWithResourceSelectors";
}

/** What is wrong with the selectors, whatever objects there are. */
export function checkSelectors(input: SelectionInput): SelectorProblem[] {
  const { namespace, spec, rules } = input;
  const problems: SelectorProblem[] = [];
  if (namespace !== undefined && !rules.isNamespacePlaced(namespace))
    problems.push({ field: "metadata.namespace", message: `namespace ${namespace} is reserved` });
  for (const [at, selector] of spec.resourceSelectors.entries())
    problems.push(...checkSelector(input, at, selector));
  return [...problems, ...checkScopes(input)];
}

function checkSelector(input: SelectionInput, at: number, selector: ResourceSelector): SelectorProblem[] {
  const [name, message] = fieldFault(selector) ?? kindFault(input, selector) ?? [];
  return name === undefined || message === undefined ? [] : [{ field: fieldOf(at, name), message }];
}

/** The field, and what is wrong with it. */
type Fault = readonly [name: string, message: string] | undefined;

function fieldFault({ name, labelSelector }: ResourceSelector): Fault {
  if (labelSelector === undefined) return undefined;
  if (name !== undefined && name !== "") return ["labelSelector", "cannot be set together with name"];
  const message = selectorFault(labelSelector);
  return message === undefined ? undefined : ["labelSelector", message];
}

function kindFault(input: SelectionInput, selector: ResourceSelector): Fault {
  const { name = "", group, kind } = selector;
  const of = input.kinds.find(selector);
  // A group that cannot be read may have the kind.
  if (of === undefined && input.kinds.isBroken(group)) return undefined;
  if (of === undefined)
    return [
      "kind",
      `the API server does not serve kind ${kind} of ${apiVersionOf(selector)}; install its CustomResourceDefinition or correct group, version and kind`,
    ];
  return input.rules.isKindPlaced(of) ? scopeFault(input, of, name) : undefined;
}

function scopeFault(input: SelectionInput, of: Resource, name: string): Fault {
  const { kind } = of;
  if (input.namespace !== undefined && !of.namespaced)
    return ["kind", `${kind} is cluster-scoped; a ResourcePlacement selects objects in its own namespace`];
  if (of.namespaced && selectedWithin(input) === undefined)
    return [
      "kind",
      `${kind} is namespaced; select its Namespace, with selectionScope NamespaceWithResourceSelectors for some of its objects, or use a ResourcePlacement`,
    ];
  if (isNamespace(of) && name !== "" && !input.rules.isNamespacePlaced(name))
    return ["name", `namespace ${name} is reserved and cannot be placed`];
  return undefined;
}

function selectorFault(labelSelector: NonNullable<ResourceSelector["labelSelector"]>): string | undefined {
  try {
    matcherOf(labelSelector);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** `NamespaceWithResourceSelectors` and `NamespaceAccessible` both are about one namespace. */
function checkScopes({ namespace, spec }: SelectionInput): SelectorProblem[] {
  if (namespace !== undefined) return [];
  const problems: SelectorProblem[] = [];
  const namespaces = [...spec.resourceSelectors.entries()].filter(([, it]) => isNamespace(it));
  const within = namespaces.find(([, it]) => selectsWithin(it));
  const isNamed = (it: ResourceSelector | undefined): boolean => (it?.name ?? "") !== "";
  if (within !== undefined && !isNamed(within[1]))
    problems.push({
      field: fieldOf(within[0], "name"),
      message: "selectionScope NamespaceWithResourceSelectors selects a namespace by name",
    });
  const other = namespaces.find((it) => it !== within);
  if (within !== undefined && other !== undefined)
    problems.push({
      field: fieldOf(other[0]),
      message: `${fieldOf(within[0])} has selectionScope NamespaceWithResourceSelectors, which excludes other Namespace selectors`,
    });
  if (
    spec.statusReportingScope === "NamespaceAccessible" &&
    (namespaces.length !== 1 || !isNamed(namespaces[0]?.[1]))
  )
    problems.push({
      field: "spec.statusReportingScope",
      message: `NamespaceAccessible needs exactly one Namespace selector, by name; found ${namespaces.length} Namespace selectors`,
    });
  return problems;
}

/** One line for a condition: every problem with its field, up to a limit. */
export function problemText(problems: readonly SelectorProblem[]): string {
  const shown = problems.slice(0, MAX_SHOWN).map(({ field, message }) => `${field}: ${message}`);
  const more = problems.length - shown.length;
  return `The resource selectors are invalid: ${shown.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}
const MAX_SHOWN = 10;
