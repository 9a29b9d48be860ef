import { FleetError } from "@fairlead/base/errors.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { checkSelectors, problemText, type SelectionInput } from "#placement/selection/check.ts";
import { contentOf, type Selectable } from "#placement/selection/content.ts";
import { discoverKinds } from "#placement/selection/discovery.ts";
import { kindKey } from "#placement/selection/kinds.ts";
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
  { metadata: { namespace }, spec }: Placement,
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const read = (path: string): Promise<unknown> => hub.request("GET", path, undefined, { signal });
  const kinds = await discoverKinds(read, undefined);
  const input: SelectionInput = { namespace, spec, kinds, rules: placementRules() };
  const problems = checkSelectors(input);
  if (problems.length > 0) throw new FleetError("PRECONDITION_FAILED", problemText(problems));
  const { kinds: needed, unknown } = neededKinds(input);
  const [first] = [...unknown.map((it) => it.group), ...kinds.broken];
  if (first !== undefined)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `API group ${first} cannot be read at present, so it is unknown what the placement selects; try again later`,
      { retriable: true },
    );
  const within = onlyNamespace(input);
  const lists = await Promise.all(
    needed.map(
      async (of) =>
        [kindKey(of), await readKind(hub, of, of.namespaced ? within : undefined, signal)] as const,
    ),
  );
  const objects = new Map(lists);
  const selection = select(input, (of) => objects.get(kindKey(of)));
  if (selection.problems.length > 0)
    throw new FleetError("PRECONDITION_FAILED", problemText(selection.problems));
  return selection.objects.map((it) => JSON.parse(it.content.json) as KubeObject);
}

/** The one namespace whose objects are selected; undefined if there may be several. */
function onlyNamespace({ namespace, spec }: SelectionInput): string | undefined {
  if (namespace !== undefined) return namespace;
  const names = spec.resourceSelectors.filter(isNamespace).map((it) => it.name ?? "");
  return names.length === 1 && names[0] !== "" ? names[0] : undefined;
}

async function readKind(
  hub: KubeClient,
  of: Resource,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<KindObjects> {
  const rules = placementRules();
  const { items } = await hub.list(of, { signal, ...(namespace === undefined ? {} : { namespace }) });
  const objects = items.map((item): Selectable => {
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
