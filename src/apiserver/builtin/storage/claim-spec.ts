import { sameJson } from "#base/json.ts";
import type { FieldError } from "../../status.ts";
import { invalid, notSupported, required } from "../field-errors.ts";
import { type Fields, fieldsAt, stringAt, stringsAt, textAt } from "../fields.ts";
import { labelSelector } from "../labels.ts";
import { subdomain } from "../names.ts";
import { parseQuantity } from "#api/meta/quantity.ts";
import { all, fields, filled, oneOf, optional, present, type Rule, whole } from "../rules.ts";

/** What a claim asks for, by itself and in templates. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/** Upstream tells of a mode at the list. */
export const accessModes: Rule = (value, path) =>
  stringsAt({ value }, "value").flatMap((it): FieldError[] =>
    ACCESS_MODES.includes(it) ? [] : [notSupported(path, it, ACCESS_MODES)],
  );

export const volumeMode: Rule = present(oneOf("Block", "Filesystem"));

const size: Rule = whole((of, path) => {
  const storage = fieldsAt(fieldsAt(of, "resources"), "requests")?.["storage"];
  const at = `${path}.resources`;
  if (storage === undefined) return [required(`${at}[storage]`)];
  if ((parseQuantity(storage) ?? 0n) > 0n) return [];
  return [invalid(`${at}.requests[storage]`, storage, "must be greater than zero")];
});

const reference: Rule = whole((of, path) => {
  const group = stringAt(of, "apiGroup");
  const kind = textAt(of, "kind");
  const errors: FieldError[] = fields({ kind: filled(), name: filled() })(of, path).toSorted((a, b) =>
    b.field.localeCompare(a.field),
  );
  if ((group ?? "") === "" && kind !== "PersistentVolumeClaim") {
    const detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    errors.push(invalid(path, kind, detail));
  }
  return [...errors, ...fields({ apiGroup: optional(subdomain) })(of, path)];
});

const sameSource: Rule = whole((of, path) => {
  const source = fieldsAt(of, "dataSource");
  const other = fieldsAt(of, "dataSourceRef");
  if (source === undefined || other === undefined || sameSourceAs(source, other)) return [];
  return [invalid(path, source, "must match dataSourceRef")];
});

function sameSourceAs(a: Fields, b: Fields): boolean {
  const partsOf = (it: Fields): readonly unknown[] => [it["apiGroup"] ?? null, it["kind"], it["name"]];
  return sameJson(partsOf(a), partsOf(b));
}

export const claimSpec: Rule = all(
  fields({ accessModes: filled("at least 1 access mode is required"), selector: labelSelector }),
  fields({ accessModes }),
  size,
  fields({ storageClassName: optional(subdomain), volumeMode }),
  fields({ dataSource: present(reference), dataSourceRef: present(reference) }),
  sameSource,
  fields({ volumeAttributesClassName: optional(subdomain) }),
);

/** A source is written under both of its names, the newer of which takes any kind. */
export function defaultSources(spec: Fields): void {
  const source = fieldsAt(spec, "dataSource");
  const other = fieldsAt(spec, "dataSourceRef");
  if (source !== undefined && other === undefined) spec["dataSourceRef"] = { ...source };
  if (source === undefined && other !== undefined && textAt(other, "namespace") === "")
    spec["dataSource"] = { ...other };
}
