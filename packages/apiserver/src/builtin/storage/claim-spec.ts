import { sameJson } from "@fairlead/base/json.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, stringAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { labelSelector } from "../labels.ts";
import { subdomain } from "../names.ts";
import { fractionWarnings } from "../pod/warnings.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { all, fields, filled, oneOf, optional, present, type Rule, whole } from "../rules.ts";

/** Validates the spec of a claim, by itself and in templates. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/** Upstream reports errors of an access mode at the path of the list. */
export const accessModes: Rule = (value, path) => {
  const modes = stringsAt({ value }, "value");
  const [known, unknown] = [true, false].map((is) => modes.filter((it) => ACCESS_MODES.includes(it) === is));
  const isShared = new Set(known).size > 1 && known?.includes("ReadWriteOncePod") === true;
  return [
    ...(unknown ?? []).map((it) => notSupported(path, it, ACCESS_MODES)),
    ...(isShared ? [notAllowed(path, "may not use ReadWriteOncePod with other access modes")] : []),
  ];
};

export const volumeMode: Rule = present(oneOf("Block", "Filesystem"));

const size: Rule = whole((of, path) => {
  const storage = fieldsAt(fieldsAt(of, "resources"), "requests")?.["storage"];
  const at = `${path}.resources`;
  if (storage === undefined) return [required(`${at}[storage]`)];
  if ((parseQuantity(storage) ?? 0n) > 0n) return [];
  return [invalid(`${at}[storage]`, storage, "must be greater than zero")];
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

/** Warnings about valid but discouraged claims. */
export function claimWarnings(spec: Fields | undefined, path: string): readonly string[] {
  return ["requests", "limits"].flatMap((list) =>
    fractionWarnings(fieldsAt(fieldsAt(spec, "resources"), list), `${path}.resources.${list}`),
  );
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

const COPIED = new Set(["/PersistentVolumeClaim", "snapshot.storage.k8s.io/VolumeSnapshot"]);

/** The older name takes claims and snapshots alone; what else it names is forgotten, unless it was stored so. */
export function dropForeignSource(spec: Fields, before: Fields | undefined): void {
  const source = fieldsAt(spec, "dataSource");
  const isKnown =
    source === undefined || COPIED.has(`${textAt(source, "apiGroup")}/${textAt(source, "kind")}`);
  const wasThere = before?.["dataSource"] !== undefined || before?.["dataSourceRef"] !== undefined;
  if (!isKnown && !wasThere && spec["dataSourceRef"] === undefined) delete spec["dataSource"];
}

/** A source is written under both of its names, the newer of which takes any kind. */
export function defaultSources(spec: Fields): void {
  const source = fieldsAt(spec, "dataSource");
  const other = fieldsAt(spec, "dataSourceRef");
  if (source !== undefined && other === undefined) spec["dataSourceRef"] = { ...source };
  if (source === undefined && other !== undefined && textAt(other, "namespace") === "")
    spec["dataSource"] = { ...other };
}
