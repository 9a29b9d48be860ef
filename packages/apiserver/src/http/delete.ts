import { isObject } from "@fairlead/base/json.ts";
import type { DeleteOptions } from "#registry/removal.ts";
import { goTypeName } from "#patch/go-text.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { badRequest } from "#status.ts";
import { mediaType, parseBody } from "./body.ts";
import type { Exchange } from "./exchange.ts";
import { checkDryRun, notSupported, refuseOptions } from "./options.ts";
import { isTrue } from "./path.ts";

/** The options of a DELETE, and whether they contain the deprecated `orphanDependents`. */
export interface ParsedDelete extends DeleteOptions {
  readonly orphanDependents: boolean | undefined;
  /** As the client gave them, for admission. */
  readonly sent: Readonly<Record<string, unknown>>;
}

const POLICIES = ["Background", "Foreground", "Orphan"] as const;

/** The options in the body or, without a body, in the query. */
export function readDeleteOptions({ request, query, body }: Exchange): ParsedDelete {
  const fromBody = body.length === 0 ? {} : parseBody(body, mediaType(request.headers["content-type"])).value;
  const kind = fromBody["kind"] ?? "";
  if (kind !== "" && kind !== "DeleteOptions")
    throw badRequest(`the body of a DELETE is DeleteOptions, not ${JSON.stringify(kind)}`);
  return parseDeleteOptions(body.length === 0 ? fromQuery(query) : fromBody, query);
}

function fromQuery(query: URLSearchParams): Record<string, unknown> {
  const grace = query.get("gracePeriodSeconds") ?? "";
  if (!/^(?:[+-]?\d+)?$/.test(grace)) {
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(grace)}: invalid syntax`);
  }
  return {
    ...(grace === "" ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(query.has("propagationPolicy") ? { propagationPolicy: query.get("propagationPolicy") } : {}),
    ...(query.has("orphanDependents") ? { orphanDependents: isTrue(query.get("orphanDependents")) } : {}),
  };
}

function parseDeleteOptions(value: Record<string, unknown>, query: URLSearchParams): ParsedDelete {
  const inBody = Array.isArray(value["dryRun"]) ? (value["dryRun"] as readonly unknown[]) : [];
  const dryRun = checkDryRun("DELETE", [...inBody, ...query.getAll("dryRun")]);
  const orphan = value["orphanDependents"] ?? undefined;
  const orphanDependents = typeof orphan === "boolean" ? orphan : undefined;
  const policy = parsePolicy(value["propagationPolicy"] ?? undefined);
  if (policy !== undefined && orphanDependents !== undefined) {
    throw refusePolicy(policy, "orphanDependents and deletionPropagation cannot be both set");
  }
  return {
    gracePeriodSeconds: parseGrace(value["gracePeriodSeconds"] ?? undefined),
    propagationPolicy: policy ?? legacyPolicy(orphanDependents),
    preconditions: parsePreconditions(value["preconditions"] ?? undefined),
    dryRun,
    orphanDependents,
    sent: optionsAsSent(value, dryRun),
  };
}

const OPTION_FIELDS = [
  "gracePeriodSeconds",
  "preconditions",
  "orphanDependents",
  "propagationPolicy",
  "dryRun",
  "ignoreStoreReadErrorWithClusterBreakingPotential",
];

function optionsAsSent(value: Record<string, unknown>, dryRun: boolean): Record<string, unknown> {
  const given = OPTION_FIELDS.filter((it) => value[it] !== undefined && value[it] !== null);
  return {
    kind: "DeleteOptions",
    apiVersion: "meta.k8s.io/v1",
    ...Object.fromEntries(given.map((it) => [it, value[it]])),
    ...(dryRun ? { dryRun: ["All"] } : {}),
  };
}

function parseGrace(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  // What is over before it begins is the shortest period that can be seen.
  if (typeof value === "number" && Number.isInteger(value)) return value < 0 ? 1 : value;
  throw badRequest(
    `json: cannot unmarshal ${goTypeName(value)} into Go struct field DeleteOptions.gracePeriodSeconds of type int64`,
  );
}

function legacyPolicy(orphanDependents: boolean | undefined): DeleteOptions["propagationPolicy"] {
  if (orphanDependents === undefined) return undefined;
  return orphanDependents ? "Orphan" : "Background";
}

function parsePolicy(value: unknown): DeleteOptions["propagationPolicy"] {
  if (value === undefined || value === "") return undefined;
  const policy = POLICIES.find((it) => it === value);
  if (policy !== undefined) return policy;
  const supported = ["Foreground", "Background", "Orphan", "nil"];
  throw refuseOptions("DELETE", notSupported("propagationPolicy", value, supported));
}

function refusePolicy(value: unknown, why: string): Error {
  const message = `Invalid value: ${JSON.stringify(value)}: ${why}`;
  return refuseOptions("DELETE", { type: "FieldValueInvalid", field: "propagationPolicy", message });
}

function parsePreconditions(value: unknown): DeleteOptions["preconditions"] {
  if (value === undefined) return undefined;
  if (!isObject(value)) throw badRequest("preconditions must be an object");
  const { uid, resourceVersion } = value;
  return {
    ...(typeof uid === "string" && uid !== "" ? { uid } : {}),
    ...(typeof resourceVersion === "string" && resourceVersion !== "" ? { resourceVersion } : {}),
  };
}

/** Kinds whose deletion answers with the object. */
const ANSWERED_WHOLE: ReadonlySet<string> = new Set([
  "/persistentvolumeclaims",
  "/persistentvolumes",
  "/pods",
  "/podtemplates",
  "/resourcequotas",
  "/serviceaccounts",
  "/services",
  "storage.k8s.io/csidrivers",
  "storage.k8s.io/csinodes",
  "storage.k8s.io/storageclasses",
  "storage.k8s.io/volumeattachments",
  "storage.k8s.io/volumeattributesclasses",
]);

/** Whether the deletion of what is gone answers with its last state, and not with a Status. */
export function answersWhole({ group, plural }: ResourceDefinition): boolean {
  return ANSWERED_WHOLE.has(`${group}/${plural}`);
}
