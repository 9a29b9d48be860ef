import { type Fields, fieldsAt, stringAt, textAt } from "@fairlead/base/fields.ts";
import { type Amount, amountsAt, count, roundUp } from "./amounts.ts";
import type { CountedObject, Evaluator, UsageChange } from "./types.ts";
import { selects } from "./scopes.ts";

const CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class";

export const claimEvaluator: Evaluator = {
  handles: ({ operation, subresource }: UsageChange) =>
    subresource === ""
      ? operation === "CREATE" || operation === "UPDATE"
      : subresource === "status" && operation === "UPDATE",
  isInScope(scope, claim) {
    if (scope.name !== "VolumeAttributesClass") return false;
    const classes = attributeClassesOf(claim);
    return classes.length === 0 ? selects(scope, "") : classes.some((it) => selects(scope, it));
  },
  usage(claim) {
    const storage = storageOf(claim);
    const used: [string, Amount][] = [["persistentvolumeclaims", count(1)]];
    if (storage !== undefined) used.push(["requests.storage", storage]);
    const storageClass =
      claim.metadata.annotations?.[CLASS_ANNOTATION] ?? textAt(fieldsAt(claim, "spec"), "storageClassName");
    const ofClass = used.map(([name, amount]): [string, Amount] => [
      `${storageClass}.storageclass.storage.k8s.io/${name}`,
      amount,
    ]);
    return new Map([
      ["count/persistentvolumeclaims", count(1)],
      ...used,
      ...(storageClass === "" ? [] : ofClass),
    ]);
  },
};

/** The requested capacity, or the allocated one for a request that was larger before (KEP-1790). */
function storageOf(claim: CountedObject): Amount | undefined {
  const asked = amountsAt(fieldsAt(fieldsAt(claim, "spec"), "resources"), "requests").get("storage");
  if (asked === undefined) return undefined;
  const given = amountsAt(fieldsAt(claim, "status"), "allocatedResources").get("storage");
  return roundUp(given !== undefined && given.nanos > asked.nanos ? given : asked);
}

/** The one it has, and those it is on the way to. */
function attributeClassesOf(claim: CountedObject): readonly string[] {
  const status = fieldsAt(claim, "status");
  const named: readonly [Fields | undefined, string][] = [
    [fieldsAt(claim, "spec"), "volumeAttributesClassName"],
    [status, "currentVolumeAttributesClassName"],
    [fieldsAt(status, "modifyVolumeStatus"), "targetVolumeAttributesClassName"],
  ];
  return named.map(([of, key]) => stringAt(of, key) ?? "").filter((it) => it !== "");
}
