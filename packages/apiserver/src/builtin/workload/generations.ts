import { sameJson } from "@fairlead/base/json.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";

const ANNOTATION = "deprecated.daemonset.template.generation";

/** A new one has had one template. */
export function startGeneration({ metadata }: ApiObject): void {
  metadata.annotations = { [ANNOTATION]: "1", ...metadata.annotations };
}

/** DaemonSets count the changes of their template, for controllers that knew no revisions. */
export const daemonSetGenerations: Partial<Strategy> = {
  prepareForUpdate: (object, old) => {
    const before = old.metadata.annotations?.[ANNOTATION] ?? "1";
    const templateOf = (of: typeof object): unknown => fieldsAt(of, "spec")?.["template"];
    const isSame = sameJson(templateOf(object), templateOf(old));
    const generation = isSame ? before : String(Number(before) + 1);
    object.metadata.annotations = { ...object.metadata.annotations, [ANNOTATION]: generation };
  },
};
