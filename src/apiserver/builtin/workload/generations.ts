import { sameJson } from "#base/json.ts";
import type { Strategy } from "../../registry/types.ts";
import { fieldsAt } from "../fields.ts";

const ANNOTATION = "deprecated.daemonset.template.generation";

/** DaemonSets count the changes of their template, for controllers that knew no revisions. */
export const daemonSetGenerations: Partial<Strategy> = {
  prepareForCreate: (object) => {
    object.metadata.annotations = { ...object.metadata.annotations, [ANNOTATION]: "1" };
  },
  prepareForUpdate: (object, old) => {
    const before = old.metadata.annotations?.[ANNOTATION] ?? "1";
    const templateOf = (of: typeof object): unknown => fieldsAt(of, "spec")?.["template"];
    const isSame = sameJson(templateOf(object), templateOf(old));
    const generation = isSame ? before : String(Number(before) + 1);
    object.metadata.annotations = { ...object.metadata.annotations, [ANNOTATION]: generation };
  },
};
