import type { FleetServicePort } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** Whether the slices of a Service have what its requests need. Pure. */

interface ServedEndpoint {
  readonly conditions?: { readonly ready?: boolean | undefined } | undefined;
}

export interface ServedSlice {
  readonly addressType: string;
  readonly endpoints: readonly ServedEndpoint[];
  readonly ports?:
    | readonly { readonly name?: string | undefined; readonly protocol?: string | undefined }[]
    | undefined;
}

export interface Served {
  /** Those that are ready, if at least one port of the Service can be reached. */
  readonly usable: number;
  /** Why there are none, or why a port has none. */
  readonly problems: readonly { readonly reason: ServedReason; readonly message: string }[];
}

export type ServedReason = "NoEndpoints" | "NoReadyEndpoints" | "NoSuchPort";

/** @param of - `hasSelector` is undefined where it is not known, and so is `cause`: why there are no ready endpoints. */
export function findServed(
  of: {
    readonly ports: readonly FleetServicePort[];
    readonly hasSelector?: boolean | undefined;
    readonly cause?: string | undefined;
  },
  slices: readonly ServedSlice[],
): Served {
  if (countBy(slices, () => true) === 0)
    return none("NoEndpoints", `no endpoints: ${of.cause ?? whyNoEndpoints(of.hasSelector)}`);
  const ready = countBy(slices, isReady);
  if (ready === 0)
    return none(
      "NoReadyEndpoints",
      `no endpoint is ready: ${of.cause ?? "the pods fail their readiness probes, or start or end"}`,
    );
  const without = of.ports.filter((port) => !slices.some((it) => hasPort(it, port)));
  const problems = without.map((it) => ({
    reason: "NoSuchPort" as const,
    message: `no endpoint has port ${showPort(it)}: ${whyNoPort(it)}`,
  }));
  const isServed = of.ports.length === 0 || without.length < of.ports.length;
  return { usable: isServed ? ready : 0, problems };
}

function none(reason: ServedReason, message: string): Served {
  return { usable: 0, problems: [{ reason, message }] };
}

function whyNoEndpoints(hasSelector: boolean | undefined): string {
  return hasSelector === false
    ? "the Service has no selector, and no EndpointSlice of it has endpoints"
    : "no pod matches the selector of the Service, or it has 0 replicas";
}

function isReady({ conditions }: ServedEndpoint): boolean {
  return conditions?.ready !== false;
}

/** The larger of both families: a dual-stack pod is in a slice of each. */
function countBy(slices: readonly ServedSlice[], counts: typeof isReady): number {
  const families = Map.groupBy(slices, (it) => it.addressType);
  const sums = [...families.values()].map((own) =>
    own.reduce((sum, it) => sum + it.endpoints.filter(counts).length, 0),
  );
  return Math.max(0, ...sums);
}

function hasPort(
  { endpoints, ports = [] }: ServedSlice,
  { name = "", protocol = "TCP" }: FleetServicePort,
): boolean {
  return (
    endpoints.some(isReady) &&
    ports.some((it) => (it.name ?? "") === name && (it.protocol ?? "TCP") === protocol)
  );
}

function showPort({ name, protocol = "TCP", port }: FleetServicePort): string {
  return name === undefined || name === "" ? `${protocol}/${port}` : `${name} (${protocol}/${port})`;
}

function whyNoPort({ targetPort }: FleetServicePort): string {
  return typeof targetPort === "string"
    ? `its targetPort ${targetPort} is not the name of a port of the pods`
    : "its targetPort is not a port of the pods";
}

/** Text that differs where a change of a slice may change what `findServed` says. */
export function servedKey(slice: ServedSlice | undefined): string {
  if (slice === undefined) return "";
  const ports = (slice.ports ?? []).map((it) => [it.name ?? "", it.protocol ?? "TCP"]);
  return JSON.stringify([slice.endpoints.length > 0, slice.endpoints.some(isReady), ports]);
}
