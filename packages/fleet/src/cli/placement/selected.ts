import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Placement, ResourceIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { checkSelectors, problemText, type SelectionInput } from "#placement/selection/check.ts";
import { contentOf, type Selectable } from "#placement/selection/content.ts";
import { discoverKinds } from "#placement/selection/discovery.ts";
import { kindKey, type KindTable } from "#placement/selection/kinds.ts";
import { isNamespace, placementRules } from "#placement/selection/rules.ts";
import { type KindObjects, neededKinds, select } from "#placement/selection/select.ts";

/**
 * What a placement selects on the hub at this moment, as the hub would snapshot it; flags of the hub that exclude kinds or namespaces
 * are not known here.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` for selectors that are invalid, or an API group that cannot be read.
 */
export async function selectedNow(
  hub: KubeClient,
  placement: Placement,
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const { objects, problem } = await (await HubObjects.of(hub, signal)).select(placement);
  if (problem !== undefined) throw new FleetError("PRECONDITION_FAILED", problem);
  return objects.map((it) => it.content);
}

export interface SelectedOnHub {
  readonly of: Resource;
  /** As it is on the hub. */
  readonly object: KubeObject;
  /** As it is placed. */
  readonly content: KubeObject;
}

export type ListObjects = (of: Resource, namespace: string | undefined) => Promise<Iterable<KubeObject>>;

/** The objects of a hub at one moment, each kind read when the first placement needs it. */
export class HubObjects {
  readonly #kinds: KindTable;
  readonly #listed: ListObjects;
  readonly #lists = new Map<string, Promise<KindObjects>>();

  private constructor(kinds: KindTable, listed: ListObjects) {
    this.#kinds = kinds;
    this.#listed = listed;
  }

  /** @param listed - What the hub has of a kind. Default: what its API server says. */
  static async of(hub: KubeClient, signal: AbortSignal, listed?: ListObjects): Promise<HubObjects> {
    const read = (path: string): Promise<unknown> => hub.request("GET", path, undefined, { signal });
    return new HubObjects(await discoverKinds(read, undefined), listed ?? listing(hub, signal));
  }

  /**
   * @returns What is selected, and why the hub would make no snapshot of it, such as a kind that it does not serve.
   * @throws {FleetError} `PRECONDITION_FAILED` for an API group that cannot be read.
   */
  async select({ metadata: { namespace }, spec }: Placement): Promise<{
    readonly objects: readonly SelectedOnHub[];
    readonly problem?: string;
  }> {
    const kinds = this.#kinds;
    const input: SelectionInput = { namespace, spec, kinds, rules: placementRules() };
    const problems = checkSelectors(input);
    if (problems.length > 0) return { objects: [], problem: problemText(problems) };
    const { kinds: needed, unknown } = neededKinds(input);
    const [broken] = kinds.broken;
    if (broken !== undefined)
      throw new FleetError("PRECONDITION_FAILED", unreadable(broken), { retriable: true });
    const within = onlyNamespace(input);
    const lists = await Promise.all(
      needed.map(
        async (of) => [kindKey(of), await this.#read(of, of.namespaced ? within : undefined)] as const,
      ),
    );
    const byKind = new Map(lists);
    const selection = select(input, (of) => byKind.get(kindKey(of)));
    const objects = selection.objects.flatMap(({ id, content }) => {
      const of = kinds.find(nameOf(id));
      const object =
        of === undefined ? undefined : byKind.get(kindKey(of))?.get(objectKey(id.namespace, id.name ?? ""));
      if (of === undefined || object === undefined) return [];
      const { content: _, ...whole } = object;
      return [{ of, object: whole, content: JSON.parse(content.json) as KubeObject }];
    });
    const [unserved] = unknown;
    if (unserved !== undefined) return { objects, problem: unreadable(unserved.group) };
    const found = selection.problems;
    return { objects, ...(found.length === 0 ? {} : { problem: problemText(found) }) };
  }

  #read(of: Resource, namespace: string | undefined): Promise<KindObjects> {
    const key = `${kindKey(of)} ${namespace ?? ""}`;
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    const reading = this.#listed(of, namespace).then((items) => kindObjects(of, items));
    this.#lists.set(key, reading);
    return reading;
  }
}

function unreadable(group: string): string {
  return `API group ${group} cannot be read at present, so it is unknown what the placement selects; try again later`;
}

function nameOf({
  group = "",
  version,
  kind,
}: ResourceIdentifier): Pick<Resource, "group" | "version" | "kind"> {
  return { group, version, kind };
}

/** The one namespace whose objects are selected; undefined if there may be several. */
function onlyNamespace({ namespace, spec }: SelectionInput): string | undefined {
  if (namespace !== undefined) return namespace;
  const names = spec.resourceSelectors.filter(isNamespace).map((it) => it.name ?? "");
  return names.length === 1 && names[0] !== "" ? names[0] : undefined;
}

export function listing(hub: KubeClient, signal: AbortSignal): ListObjects {
  return async (of, namespace) => (await hub.list(of, { signal, ...defined({ namespace }) })).items;
}

function kindObjects(of: Resource, items: Iterable<KubeObject>): KindObjects {
  const rules = placementRules();
  const objects = Array.from(items, (item): Selectable => {
    const it = { ...item, apiVersion: apiVersionOf(of), kind: of.kind };
    const name = isNamespace(of) ? it.metadata.name : it.metadata.namespace;
    const isPlaced = (name === undefined || rules.isNamespacePlaced(name)) && rules.isObjectPlaced(it);
    return isPlaced ? { ...it, content: contentOf(it) } : it;
  });
  const byKey = new Map(objects.map((it) => [keyOf(it), it]));
  const byNamespace = Map.groupBy(objects, (it) => it.metadata.namespace ?? "");
  return {
    get: (key) => byKey.get(key),
    list: () => objects,
    in: (name) => byNamespace.get(name) ?? [],
  };
}
