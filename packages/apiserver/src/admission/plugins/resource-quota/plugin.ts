import { cloneJson } from "@fairlead/base/json.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";
import { type Attributes, NO_ADMISSION } from "#registry/admission.ts";
import type { Catalog } from "#registry/catalog.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { replaceObject } from "#registry/update.ts";
import { forbidden, internalError } from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import type { Store } from "#storage/store.ts";
import type { Table } from "#storage/table.ts";
import type { AdmissionPlugin } from "../../chain.ts";
import { type Amounts, amountsAt, excess, pick, sum, textsOf } from "@fairlead/kube/quota/amounts.ts";
import { evaluatorOf, usersOf } from "@fairlead/kube/quota/evaluators.ts";
import { type Scope, scopesOf } from "@fairlead/kube/quota/scopes.ts";
import type { Evaluator } from "@fairlead/kube/quota/types.ts";

const QUOTAS = "resourcequotas";
/** The user that writes: the server itself. */
const SERVER = { name: "system:apiserver", groups: ["system:masters", "system:authenticated"] };

/** One quota that the object of a request counts in. */
interface Concerned {
  readonly entry: Entry;
  readonly scopes: readonly Scope[];
  readonly hard: Amounts;
  readonly used: Amounts;
}

/**
 * Nothing is made that a namespace's quotas leave no room for. What is used rises in the transaction of the write, so that
 * no two writes share what is left; a controller lowers it. What a quota limits is what its status says, which that
 * controller fills. Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota.
 */
export class ResourceQuotas implements AdmissionPlugin {
  readonly #quotas: Table;
  readonly #catalog: Catalog;

  constructor(store: Store, catalog: Catalog) {
    this.#quotas = store.table(QUOTAS);
    this.#catalog = catalog;
  }

  validate(attributes: Attributes): void {
    const { definition, operation, namespace, object, dryRun } = attributes;
    if (this.#quotas.size === 0 || !definition.namespaced || object === undefined) return;
    if (operation !== "CREATE" && operation !== "UPDATE") return;
    const entries = [...this.#quotas.entries(namespace)];
    if (entries.length === 0) return;
    const evaluator = evaluatorOf(definition);
    if (!evaluator.handles(attributes)) return;
    const charges = chargesOf({ ...attributes, object }, evaluator, entries);
    if (dryRun) return;
    for (const [entry, used] of charges) this.#charge(attributes, entry, used);
  }

  #charge({ write }: Attributes, entry: Entry, used: Amounts): void {
    const { metadata } = entry.object;
    const request = {
      definition: this.#definition(),
      namespace: metadata.namespace,
      name: metadata.name,
      subresource: "status",
      user: SERVER,
      dryRun: false,
      fieldManager: "kube-apiserver",
      warn: () => {},
    };
    const input = cloneJson(entry.object);
    input["status"] = { ...fieldsAt(input, "status"), used: textsOf(used) };
    replaceObject({ ...write, env: { ...write.env, admission: NO_ADMISSION }, request }, { entry, input });
  }

  #definition(): ResourceDefinition {
    const found = this.#catalog.resource("", "v1", QUOTAS);
    if (found === undefined) throw internalError("resource quotas are not served");
    return found;
  }
}

type Admitted = Attributes & { readonly object: ApiObject };

/** The usage of each quota including the object. @throws {StatusError} if a quota is exceeded. */
function chargesOf(
  attributes: Admitted,
  evaluator: Evaluator,
  entries: readonly Entry[],
): readonly (readonly [Entry, Amounts])[] {
  const concerned = entries.flatMap((entry) => concernedBy(attributes, evaluator, entry) ?? []);
  if (concerned.length === 0) return [];
  const added = additions(attributes, evaluator);
  return concerned.flatMap((quota): (readonly [Entry, Amounts])[] => {
    const requested = pick(added(quota), (name, { nanos }) => nanos !== 0n && quota.hard.has(name));
    if (requested.size === 0) return [];
    const used = sum(quota.used, requested);
    if (attributes.subresource !== "status") refuseExceeding(attributes, quota, { requested, used });
    return [[quota.entry, used]];
  });
}

function concernedBy(
  { object, definition, name }: Admitted,
  evaluator: Evaluator,
  entry: Entry,
): Concerned | undefined {
  const quota = entry.object;
  const status = fieldsAt(quota, "status");
  const hard = amountsAt(status, "hard");
  const names = [...hard.keys()].filter((it) => isUsedBy(it, definition)).toSorted();
  const scopes = scopesOf(fieldsAt(quota, "spec"));
  if (names.length === 0 || !scopes.every((it) => evaluator.isInScope(it, object))) return undefined;
  const problem = evaluator.problem?.(names, object);
  if (problem !== undefined) {
    throw forbidden(definition, name, `failed quota: ${quota.metadata.name}: ${problem}`);
  }
  const used = amountsAt(status, "used");
  if (!names.every((it) => used.has(it))) {
    const why = `status unknown for quota: ${quota.metadata.name}, resources: ${names.join(",")}`;
    throw forbidden(definition, name, why);
  }
  return { entry, scopes, hard, used };
}

function isUsedBy(name: string, { group, plural }: ResourceDefinition): boolean {
  const users = usersOf(name);
  return users?.plural === plural && users.group === group;
}

/** The increase of the usage: that of the whole object, or the difference to the old one. */
function additions({ object, old, nowMs }: Admitted, evaluator: Evaluator): (quota: Concerned) => Amounts {
  const all = evaluator.usage(object, nowMs);
  if (old === undefined) return () => all;
  const more = excess(all, evaluator.usage(old, nowMs));
  return ({ scopes }) => (scopes.every((it) => evaluator.isInScope(it, old)) ? more : all);
}

function refuseExceeding(
  { definition, name }: Admitted,
  { entry, hard, used: before }: Concerned,
  { requested, used }: { readonly requested: Amounts; readonly used: Amounts },
): void {
  const isExceeded = (resource: string): boolean =>
    requested.has(resource) && (used.get(resource)?.nanos ?? 0n) > (hard.get(resource)?.nanos ?? 0n);
  if (![...requested.keys()].some(isExceeded)) return;
  const show = (amounts: Amounts): string =>
    Object.entries(textsOf(pick(amounts, isExceeded)))
      .map(([resource, text]) => `${resource}=${text}`)
      .join(",");
  const why = `requested: ${show(requested)}, used: ${show(before)}, limited: ${show(hard)}`;
  throw forbidden(definition, name, `exceeded quota: ${entry.object.metadata.name}, ${why}`);
}
