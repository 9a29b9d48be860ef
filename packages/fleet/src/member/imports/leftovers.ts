import type { Service, ServicePort, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { AZURE_INTERNAL_ANNOTATION } from "#api/networking.fleet.azure.com/names.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import type { Session } from "../session.ts";

/** Fields of Services that the agent writes which it does not set: server-side apply removes only fields of its own manager. */

interface Leftovers {
  /** The fields, for people. */
  readonly fields: readonly string[];
  readonly patch: object;
}

/** Kubernetes' timeout of session affinity. Unit: seconds. */
const DEFAULT_AFFINITY_S = 10_800;

/** Fields that decide where requests go. What clouds and users set of a load balancer stays. */
const STEERING: readonly {
  readonly field: keyof ServiceSpec;
  /** Whether it is as a server sets it. */
  readonly isDefault?: (spec: ServiceSpec) => boolean;
}[] = [
  { field: "selector", isDefault: ({ selector = {} }) => Object.keys(selector).length === 0 },
  { field: "externalIPs", isDefault: ({ externalIPs = [] }) => externalIPs.length === 0 },
  // It is required until applying has changed the type.
  {
    field: "externalName",
    isDefault: ({ type, externalName = "" }) => type === "ExternalName" || externalName === "",
  },
  { field: "publishNotReadyAddresses", isDefault: (it) => it.publishNotReadyAddresses !== true },
  { field: "internalTrafficPolicy", isDefault: (it) => it.internalTrafficPolicy === "Cluster" },
  { field: "trafficDistribution" },
  {
    field: "sessionAffinityConfig",
    isDefault: ({ sessionAffinity, sessionAffinityConfig }) =>
      sessionAffinity !== "ClientIP" ||
      (sessionAffinityConfig?.clientIP?.timeoutSeconds ?? DEFAULT_AFFINITY_S) === DEFAULT_AFFINITY_S,
  },
];

/** Returns a patch that removes them, and the fields that it removes; undefined for a Service without any. Pure. */
export function planLeftovers(service: Service, wanted: Applied<Service>): Leftovers | undefined {
  const ofSpec = planSpec(service.spec ?? {}, wanted.spec ?? {});
  if (!hasInternal(service) || hasInternal(wanted))
    return ofSpec === undefined ? undefined : { fields: ofSpec.fields, patch: { spec: ofSpec.spec } };
  const metadata = { annotations: { [AZURE_INTERNAL_ANNOTATION]: null } };
  const fields = [...(ofSpec?.fields ?? []), `annotation ${AZURE_INTERNAL_ANNOTATION}`];
  return { fields, patch: { metadata, ...(ofSpec === undefined ? {} : { spec: ofSpec.spec }) } };
}

function planSpec(
  spec: ServiceSpec,
  wanted: WantedSpec,
): { readonly fields: readonly string[]; readonly spec: object } | undefined {
  const steering = steeringOf(spec, wanted);
  const ports = planPorts(spec.ports ?? [], (wanted.ports ?? []) as readonly ServicePort[]);
  if (steering.length === 0 && ports === undefined) return undefined;
  const removed = Object.fromEntries(steering.map((it) => [it, null]));
  return {
    fields: [...steering.map((it) => `spec.${it}`), ...(ports?.fields ?? [])],
    spec: ports === undefined ? removed : { ...removed, ports: ports.list },
  };
}

type WantedSpec = NonNullable<Applied<Service>["spec"]>;

function steeringOf(spec: ServiceSpec, wanted: WantedSpec): (keyof ServiceSpec)[] {
  return STEERING.filter(
    ({ field, isDefault }) =>
      spec[field] !== undefined && wanted[field] === undefined && isDefault?.(spec) !== true,
  ).map((it) => it.field);
}

function hasInternal({ metadata }: Pick<Applied<Service>, "metadata">): boolean {
  return metadata.annotations?.[AZURE_INTERNAL_ANNOTATION] !== undefined;
}

/** Undefined if each port is wanted as it is, or as applying makes it. */
function planPorts(
  ports: readonly ServicePort[],
  wanted: readonly ServicePort[],
): { readonly list: readonly ServicePort[]; readonly fields: readonly string[] } | undefined {
  const fields = ports.flatMap((port) => {
    const found = wanted.find((it) => isSame(it, port));
    const shown = `spec.ports ${port.port}/${port.protocol ?? "TCP"}`;
    return found === undefined ? [shown] : foreignFields(port, found).map((it) => `${shown} ${it}`);
  });
  if (fields.length === 0) return undefined;
  // All that are wanted: a Service cannot be without ports, nor have two of one name.
  const list = wanted.map((it) => ({ ...defined({ nodePort: nodePortOf(ports, it) }), ...it }));
  return { list, fields };
}

function foreignFields(port: ServicePort, wanted: ServicePort): string[] {
  const extra = (["name", "appProtocol"] as const).filter(
    (it) => port[it] !== undefined && port[it] !== "" && wanted[it] === undefined,
  );
  const hasTarget =
    wanted.targetPort === undefined && port.targetPort !== undefined && port.targetPort !== port.port;
  return [...extra, ...(hasTarget ? ["targetPort"] : [])];
}

function nodePortOf(ports: readonly ServicePort[], wanted: ServicePort): number | undefined {
  return ports.find((it) => isSame(it, wanted))?.nodePort;
}

function isSame(a: ServicePort, b: ServicePort): boolean {
  return a.port === b.port && (a.protocol ?? "TCP") === (b.protocol ?? "TCP");
}

/** Removes what is not set by the agent of a Service that it writes, before it applies: two ports of one name are refused. */
export async function dropLeftovers(
  { local, events }: Session,
  service: Service | undefined,
  wanted: Applied<Service>,
  signal: AbortSignal,
): Promise<Service | undefined> {
  const leftovers = service === undefined ? undefined : planLeftovers(service, wanted);
  if (service === undefined || leftovers === undefined) return service;
  const options = { fieldManager: MEMBER_MANAGER, signal };
  const after = await local.mergePatch(SERVICES, keyOf(service), leftovers.patch, options);
  const { fields } = leftovers;
  events.record(SERVICES, service, {
    type: "Warning",
    reason: "ChangeReverted",
    message: `another client set ${fields.join(", ")} of this Service, which ${MEMBER_MANAGER} writes: removed`,
  });
  return after;
}
