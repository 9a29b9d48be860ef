import { derivedServiceName } from "#api/fairlead.dev/cluster-names.ts";
import { ADOPTED_ANNOTATION, PORT_NAMES_ANNOTATION } from "#api/fairlead.dev/names.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  MCS_DERIVED_SERVICE_ANNOTATION,
  type ServiceImport,
  type ServiceImportPort,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { derivedPortName } from "#domain/slice.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isOurs, type Vip, vipOfImport } from "./mcs-import-plan.ts";

/** ServiceImports that users make, as in Fleetboard. Pure. */

/** Manager of the fields that the agent fills in there: not the one of its own imports, so that the import stays the user's (`isOurs`). */
export const ADOPTER = "fairlead-member-adopter";

/** Returns true for an import that the agent serves: its own, and a user's that it has adopted. */
export function isServed(imported: ServiceImport): boolean {
  return isOurs(imported) || isAdopted(imported);
}

function isAdopted({ metadata }: ServiceImport): boolean {
  return metadata.annotations?.[ADOPTED_ANNOTATION] !== undefined;
}

/** Returns why a user's import cannot stand for the service; undefined if it can. Names of ports do not matter, as in Fleetboard. */
export function adoptionProblem(
  spec: ImportedService["spec"],
  { spec: wanted }: ServiceImport,
): string | undefined {
  if (wanted === undefined) return "spec is missing";
  if (wanted.type !== spec.type)
    return `spec.type is ${wanted.type}, but the exported service is ${spec.type}`;
  const missing = wanted.ports.find((it) => !spec.ports.some((one) => portOf(one) === portOf(it)));
  return missing === undefined ? undefined : `spec.ports has ${portOf(missing)}, which no cluster exports`;
}

function portOf({ protocol = "TCP", port }: ServiceImportPort): string {
  return `${protocol} port ${port}`;
}

/**
 * The merge patch by which a user's import gets what the agent fills in; undefined if nothing changes. Fields that the user
 * set stay.
 */
export function planAdoption(
  current: ServiceImport,
  { type, ports }: Pick<ImportedService["spec"], "type" | "ports">,
  vip: Vip | undefined,
): object | undefined {
  const { annotations = {}, namespace = "", name } = current.metadata;
  if (type === "Headless")
    return isAdopted(current) ? undefined : annotated({ [ADOPTED_ANNOTATION]: "true" });
  const { ips, ipFamilies } = vip ?? vipOfImport(undefined);
  const wanted = {
    [ADOPTED_ANNOTATION]: "true",
    [MCS_DERIVED_SERVICE_ANNOTATION]: derivedServiceName(namespace, name),
    [PORT_NAMES_ANNOTATION]: portNames(current.spec?.ports ?? [], ports),
  };
  const isAnnotated = Object.entries(wanted).every(([key, value]) => (annotations[key] ?? null) === value);
  const isSame = isAnnotated && sameJson(vipOfImport(current), { ips, ipFamilies });
  return isSame ? undefined : { ...annotated(wanted), spec: { ips, ipFamilies } };
}

/** Nodes find the ports of slices by these names. Null: by those of the user. */
function portNames(own: readonly ServiceImportPort[], exported: readonly ServiceImportPort[]): string | null {
  const names = own.map((it) => {
    const found = exported.find((one) => portOf(one) === portOf(it)) ?? it;
    return derivedPortName(found.name ?? "", exported);
  });
  const same = own.map((it) => derivedPortName(it.name ?? "", own));
  return sameJson(names, same) ? null : JSON.stringify(names);
}

/** The merge patch that removes what `planAdoption` filled in; undefined if the import was not adopted. */
export function planRelease(current: ServiceImport): object | undefined {
  if (!isAdopted(current)) return undefined;
  const annotations = {
    [ADOPTED_ANNOTATION]: null,
    [MCS_DERIVED_SERVICE_ANNOTATION]: null,
    [PORT_NAMES_ANNOTATION]: null,
  };
  return { ...annotated(annotations), spec: { ips: null, ipFamilies: null } };
}

function annotated(annotations: Readonly<Record<string, string | null>>): object {
  return { metadata: { annotations } };
}
