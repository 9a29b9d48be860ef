import { isObject, sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { duplicate, IMMUTABLE, invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import {
  ensureFields,
  fieldsAt,
  itemsAt,
  numberAt,
  stringMapAt,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { labelSelector, qualifiedName } from "../labels.ts";
import { subdomain } from "../names.ts";
import { driverName } from "../pod/volumes.ts";
import { protect } from "./protection.ts";
import {
  all,
  distinct,
  each,
  fields,
  filled,
  immutable,
  oneOf,
  optional,
  present,
  type Rule,
  whole,
} from "../rules.ts";

/** Kinds of storage and the drivers that provide it. Source: k8s.io/kubernetes, pkg/apis/storage/validation. */

const topology: Rule = (value, path) => {
  const seen = new Set<string>();
  return itemsAt({ value }, "value").flatMap((term, at) => {
    const here = `${path}[${at}].matchLabelExpressions`;
    const expressions = itemsAt(term, "matchLabelExpressions");
    const said = JSON.stringify(
      expressions
        .map((it) => [textAt(it, "key"), [...new Set(stringsAt(it, "values"))].toSorted(byText)] as const)
        .toSorted(([a], [b]) => byText(a, b)),
    );
    // A term without expressions is refused as if it were there twice: nothing else says that it needs some.
    const isRepeated = expressions.length === 0 || seen.has(said);
    seen.add(said);
    return [
      ...each(
        fields({
          values: all(
            filled(),
            distinct((it) => it),
          ),
          key: qualifiedName,
        }),
      )(expressions, here),
      ...distinct((it) => (isObject(it) ? it["key"] : undefined), ".key")(expressions, here),
      ...(isRepeated ? [duplicate(here, "")] : []),
    ];
  });
};

const provisioner: Rule = filled("", (value, path) => qualifiedName(String(value).toLowerCase(), path));

const storageClass: Rule = fields({
  provisioner,
  reclaimPolicy: optional(oneOf("Delete", "Retain")),
  volumeBindingMode: filled("", oneOf("Immediate", "WaitForFirstConsumer")),
  allowedTopologies: topology,
});

export const storageClassStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    object["reclaimPolicy"] ??= "Delete";
    object["volumeBindingMode"] ??= "Immediate";
  },
  validateCreate: (object) => storageClass(object, ""),
  validateUpdate: (object, old) => [
    ...storageClass(object, ""),
    ...immutable(object, old, "", "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
  ],
};

const attributesClass: Rule = all(
  fields({ driverName: provisioner }),
  whole((of, path) => {
    if (Object.keys(stringMapAt(of, "parameters")).length > 0) return [];
    return [required(`${path}parameters`, "must contain at least one key/value pair")];
  }),
);

export const attributesClassStrategy: Partial<Strategy> = {
  generation: "none",
  prepareForCreate: (object) => protect(object, "kubernetes.io/vac-protection"),
  validateCreate: (object) => attributesClass(object, ""),
  validateUpdate: (object, old) => [
    ...attributesClass(object, ""),
    ...["driverName", "parameters"]
      .filter((it) => !sameJson(object[it], old[it]))
      .map((it) => notAllowed(it, `updates to ${it} are forbidden.`)),
  ],
};

const attachment: Rule = fields({
  spec: all(
    fields({ attacher: driverName }),
    fields({
      source: whole((of, path) => {
        const volume = of["persistentVolumeName"];
        if ((volume === undefined) === (of["inlineVolumeSpec"] === undefined)) {
          return [required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")];
        }
        if (volume === undefined) return [];
        if (volume === "") {
          return [required(`${path}.persistentVolumeName`, "must specify non empty persistentVolumeName")];
        }
        return subdomain(volume, `${path}.persistentVolumeName`);
      }),
    }),
    fields({ nodeName: subdomain }),
  ),
});

export const attachmentStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
  generation: "none",
  validateCreate: (object) => attachment(object, ""),
  validateUpdate: (object, old) => [...attachment(object, ""), ...immutable(object, old, "", "spec")],
};

const LIFECYCLES = ["Persistent", "Ephemeral"];
const MIN_TOKEN_SECONDS = 600;

const tokenRequests: Rule = (value, path) => {
  const seen = new Set<string>();
  return itemsAt({ value }, "value").flatMap((it, at) => {
    const audience = textAt(it, "audience");
    const seconds = numberAt(it, "expirationSeconds");
    const here = `${path}[${at}]`;
    const errors = seen.has(audience) ? [duplicate(`${here}.audience`, audience)] : [];
    seen.add(audience);
    if (seconds !== undefined && seconds < MIN_TOKEN_SECONDS) {
      const detail = "may not specify a duration less than 10 minutes";
      errors.push(invalid(`${here}.expirationSeconds`, seconds, detail));
    }
    return errors;
  });
};

const driver: Rule = fields({
  spec: fields({
    volumeLifecycleModes: (value, path) =>
      stringsAt({ value }, "value")
        .filter((it) => !LIFECYCLES.includes(it))
        .map((it) => notSupported(path, it, LIFECYCLES)),
    fsGroupPolicy: present(oneOf("File", "None", "ReadWriteOnceWithFSType")),
    tokenRequests,
  }),
});

export const driverStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
  generation: "none",
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    const flags = [
      "attachRequired",
      "podInfoOnMount",
      "storageCapacity",
      "requiresRepublish",
      "seLinuxMount",
    ];
    for (const flag of flags) spec[flag] ??= flag === "attachRequired";
    spec["fsGroupPolicy"] ??= "ReadWriteOnceWithFSType";
    if (stringsAt(spec, "volumeLifecycleModes").length === 0) spec["volumeLifecycleModes"] = ["Persistent"];
  },
  // It has no generation before its first change.
  prepareForUpdate: ({ metadata, ...object }, old) => {
    if (!sameJson(object["spec"], old["spec"])) metadata.generation = (old.metadata.generation ?? 0) + 1;
  },
  validateCreate: (object) => driver(object, ""),
  validateUpdate: (object, old) => [
    ...driver(object, ""),
    ...immutable(
      fieldsAt(object, "spec"),
      fieldsAt(old, "spec"),
      "spec.",
      "attachRequired",
      "volumeLifecycleModes",
      // Upstream names the field so.
    ).map((it) => (it.field === "spec.attachRequired" ? { ...it, field: "spec.attachedRequired" } : it)),
  ],
  checkName: (name) => driverName(name, "").map((it) => it.message),
};

const MAX_NODE_ID = 256;

const driversOfNode: Rule = (value, path) => {
  const names = new Set<string>();
  return itemsAt({ value }, "value").flatMap((it, at) => {
    const here = `${path}[${at}]`;
    const name = textAt(it, "name");
    const id = textAt(it, "nodeID");
    const count = numberAt(fieldsAt(it, "allocatable"), "count");
    const isSeen = names.has(name);
    names.add(name);
    const keys = stringsAt(it, "topologyKeys");
    return [
      ...driverName(name, `${here}.name`),
      ...(id === "" ? [required(`${here}.nodeID`)] : []),
      ...(id.length > MAX_NODE_ID
        ? [invalid(`${here}.nodeID`, id, `must be ${MAX_NODE_ID} characters or less`)]
        : []),
      ...(count !== undefined && count < 0
        ? [invalid(`${here}.allocatable.count`, count, "must be greater than or equal to 0")]
        : []),
      ...(isSeen ? [duplicate(`${here}.name`, name)] : []),
      ...topologyKeys(keys, here),
    ];
  });
};

/** Upstream reports them at the path of their driver. */
function topologyKeys(keys: readonly string[], path: string): FieldError[] {
  const seen = new Set<string>();
  return keys.flatMap((key) => {
    const isSeen = seen.has(key);
    seen.add(key);
    const missing = key === "" ? [required(path)] : [];
    return [...missing, ...(isSeen ? [duplicate(path, key)] : []), ...qualifiedName(key, path)];
  });
}

const csiNode: Rule = fields({ spec: fields({ drivers: driversOfNode }) });

export const csiNodeStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  validateCreate: (object) => csiNode(object, ""),
  validateUpdate: (object, old) => [...csiNode(object, ""), ...changedDrivers(object, old)],
};

/** The driver's own information about a node is immutable. */
function changedDrivers(object: ApiObject, old: ApiObject): FieldError[] {
  const before = new Map(itemsAt(fieldsAt(old, "spec"), "drivers").map((it) => [it["name"], it]));
  return itemsAt(fieldsAt(object, "spec"), "drivers").flatMap((it) => {
    const known = before.get(it["name"]);
    if (known === undefined) return [];
    const isSame = JSON.stringify({ ...it, allocatable: 0 }) === JSON.stringify({ ...known, allocatable: 0 });
    if (isSame) return [];
    // The text that users know has the names of the Go type.
    const { name: Name, nodeID: NodeID, topologyKeys: TopologyKeys = null } = it;
    return [invalid("spec.drivers", { Name, NodeID, TopologyKeys, Allocatable: null }, IMMUTABLE)];
  });
}

const capacity: Rule = fields({
  nodeTopology: labelSelector,
  storageClassName: subdomain,
  capacity: present((value, path) =>
    (parseQuantity(value) ?? 0n) >= 0n ? [] : [invalid(path, value, "must be greater than or equal to 0")],
  ),
});

export const capacityStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  validateCreate: (object) => capacity(object, ""),
  validateUpdate: (object, old) => [
    ...capacity(object, ""),
    ...immutable(object, old, "", "nodeTopology", "storageClassName"),
  ],
};

/** Tokens for a driver belong into its secrets, where they are not logged. */
export function driverWarnings(object: ApiObject, old: ApiObject | undefined): readonly string[] {
  const spec = fieldsAt(object, "spec");
  if (old !== undefined && sameJson(spec?.["tokenRequests"], fieldsAt(old, "spec")?.["tokenRequests"]))
    return [];
  if (itemsAt(spec, "tokenRequests").length === 0 || spec?.["serviceAccountTokenInSecrets"] !== undefined)
    return [];
  return [
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes",
  ];
}
