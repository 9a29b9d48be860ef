import type { TableColumn } from "#registry/types.ts";
import { fieldsAt, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { ageColumn, column, nameColumn, NONE, specOf, statusOf } from "./common.ts";

export const flowSchemaColumns: readonly TableColumn[] = [
  nameColumn,
  column("PriorityLevel", (object) => textAt(fieldsAt(specOf(object), "priorityLevelConfiguration"), "name")),
  column("MatchingPrecedence", (object) => numberAt(specOf(object), "matchingPrecedence") ?? 0),
  column(
    "DistinguisherMethod",
    (object) => textAt(fieldsAt(specOf(object), "distinguisherMethod"), "type") || NONE,
  ),
  ageColumn,
  column("MissingPL", (object) => {
    const dangling = itemsAt(statusOf(object), "conditions").find((it) => textAt(it, "type") === "Dangling");
    return dangling === undefined ? "?" : textAt(dangling, "status");
  }),
];

export const priorityLevelColumns: readonly TableColumn[] = [
  nameColumn,
  column("Type", (object) => textAt(specOf(object), "type")),
  column("NominalConcurrencyShares", (object) => {
    const limited = fieldsAt(specOf(object), "limited");
    return limited === undefined ? NONE : (numberAt(limited, "nominalConcurrencyShares") ?? 0);
  }),
  column("Queues", (object) => queueNumber(specOf(object), "queues")),
  column("HandSize", (object) => queueNumber(specOf(object), "handSize")),
  column("QueueLengthLimit", (object) => queueNumber(specOf(object), "queueLengthLimit")),
  ageColumn,
];

function queueNumber(spec: ReturnType<typeof specOf>, field: string): string | number {
  const response = fieldsAt(fieldsAt(spec, "limited"), "limitResponse");
  return numberAt(fieldsAt(response, "queuing"), field) ?? NONE;
}
