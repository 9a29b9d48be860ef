import type { TableColumn } from "#registry/types.ts";
import descriptions from "./descriptions.json" with { type: "json" };

const BY_RESOURCE: Readonly<Record<string, Readonly<Record<string, string>>>> = descriptions;

/** The columns of a resource with what upstream says of them; "*" holds what it says of columns that many kinds have. */
export function described(
  columns: readonly TableColumn[],
  group: string,
  plural: string,
): readonly TableColumn[] {
  const own = BY_RESOURCE[group === "" ? plural : `${group}/${plural}`];
  return columns.map((it) => {
    const description = own?.[it.name] ?? BY_RESOURCE["*"]?.[it.name];
    return description === undefined ? it : { ...it, description };
  });
}
