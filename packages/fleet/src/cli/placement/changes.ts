import { joinLines } from "@fairlead/base/print.ts";
import { byText } from "@fairlead/base/text.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type {
  PatchDetail,
  ResourceIdentifier,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { contentOf } from "#placement/selection/content.ts";
import { identifierIn, orderKey } from "#placement/selection/select.ts";
import { diffObjects } from "#placement/work/diff.ts";

/** What differs between two sets of objects that a placement places. */

export interface ObjectChange {
  readonly change: "add" | "change" | "remove";
  readonly resource: ResourceIdentifier;
  /** Of a change: the fields, without the content of Secrets. */
  readonly fields?: readonly { readonly path: string; readonly from?: string; readonly to?: string }[];
}

export function changesBetween(from: readonly KubeObject[], to: readonly KubeObject[]): ObjectChange[] {
  const before = byKey(from);
  const after = byKey(to);
  return [...new Set([...before.keys(), ...after.keys()])].toSorted(byText).flatMap((key): ObjectChange[] => {
    const old = before.get(key);
    const now = after.get(key);
    if (old === undefined) return now === undefined ? [] : [{ change: "add", resource: identifierIn(now) }];
    if (now === undefined) return [{ change: "remove", resource: identifierIn(old) }];
    if (contentOf(old).digest === contentOf(now).digest) return [];
    return [{ change: "change", resource: identifierIn(now), fields: diffObjects(old, now).map(fieldOf) }];
  });
}

function byKey(objects: readonly KubeObject[]): Map<string, KubeObject> {
  return new Map(objects.map((it) => [orderKey(identifierIn(it)), it]));
}

function fieldOf({ path, valueInMember, valueInHub }: PatchDetail) {
  return {
    path,
    ...(valueInMember === undefined ? {} : { from: valueInMember }),
    ...(valueInHub === undefined ? {} : { to: valueInHub }),
  };
}

const SIGNS = { add: "+", change: "~", remove: "-" } as const;

export function renderChanges(changes: readonly ObjectChange[]): string {
  return joinLines(
    changes.flatMap(({ change, resource, fields = [] }) => [
      `${SIGNS[change]} ${nameOf(resource)}`,
      ...fields.map(({ path, from, to }) => `    ${path}: ${from ?? "(absent)"} -> ${to ?? "(absent)"}`),
    ]),
  );
}

export function nameOf({ kind, namespace, name }: ResourceIdentifier): string {
  return `${kind} ${objectKey(namespace, name)}`;
}
