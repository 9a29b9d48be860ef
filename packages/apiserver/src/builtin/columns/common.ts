import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { ageOf } from "../duration.ts";
import { fieldsAt, type Fields, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { formatLabelSelector } from "../selectors.ts";

/** Columns that many kinds share. Source of all columns: k8s.io/kubernetes, pkg/printers/internalversion/printers.go. */

type Cell = string | number | boolean | null;

/** Shown for what has no value. */
export const NONE = "<none>";
export const UNKNOWN = "<unknown>";
export const UNSET = "<unset>";

export function column(
  name: string,
  cell: (object: ApiObject, nowMs: number) => Cell,
  type: TableColumn["type"] = "string",
): TableColumn {
  return { name, type, cell };
}

/** A column that only `-o wide` shows. */
export function wide(
  name: string,
  cell: (object: ApiObject, nowMs: number) => Cell,
  type: TableColumn["type"] = "string",
): TableColumn {
  return { name, type, priority: 1, cell };
}

export const nameColumn: TableColumn = {
  name: "Name",
  type: "string",
  format: "name",
  cell: (object) => object.metadata.name,
};

export const ageColumn: TableColumn = column("Age", (object, nowMs) =>
  ageOf(object.metadata.creationTimestamp, nowMs),
);

/** For kinds without a table of their own. */
const createdAtColumn: TableColumn = column(
  "Created At",
  (object) => object.metadata.creationTimestamp ?? UNKNOWN,
  "date",
);

export const fallbackColumns: readonly TableColumn[] = [nameColumn, createdAtColumn];

export function specOf(object: ApiObject): Fields | undefined {
  return fieldsAt(object, "spec");
}

export function statusOf(object: ApiObject): Fields | undefined {
  return fieldsAt(object, "status");
}

/** A number of `status`, 0 where absent. */
export function countOf(object: ApiObject, field: string): number {
  return numberAt(statusOf(object), field) ?? 0;
}

/** `a,b,c`, or `<none>`. */
export function listText(texts: readonly string[]): string {
  return texts.length === 0 ? NONE : texts.join(",");
}

/** `a,b,c + 2 more...` when there are more than `max`. */
export function shortList(texts: readonly string[], max = 3): string {
  if (texts.length <= max) return listText(texts);
  return `${texts.slice(0, max).join(",")} + ${texts.length - max} more...`;
}

export function labelsText(labels: Readonly<Record<string, string>>): string {
  return listText(
    Object.entries(labels)
      .map(([key, value]) => `${key}=${value}`)
      .toSorted(),
  );
}

export function selectorText(selector: LabelSelector | Fields | undefined): string {
  const text = formatLabelSelector(selector);
  return text === "" ? NONE : text;
}

/** Containers and images of the pod template, and the selector: what workloads show with `-o wide`. */
export function templateColumns(
  podSpecOf: (object: ApiObject) => Fields | undefined,
): readonly TableColumn[] {
  const textsOf = (object: ApiObject, key: string): string =>
    itemsAt(podSpecOf(object), "containers")
      .map((it) => textAt(it, key))
      .join(",");
  return [
    wide("Containers", (object) => textsOf(object, "name")),
    wide("Images", (object) => textsOf(object, "image")),
  ];
}

export function templateSpecOf(object: ApiObject): Fields | undefined {
  return fieldsAt(fieldsAt(specOf(object), "template"), "spec");
}

export const selectorColumn: TableColumn = wide("Selector", (object) =>
  selectorText(fieldsAt(specOf(object), "selector")),
);
