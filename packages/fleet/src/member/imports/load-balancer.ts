import { defined } from "@fairlead/base/defined.ts";
import type { Service, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { LOAD_BALANCER_ANNOTATIONS } from "#api/fairlead.dev/multi-cluster-service.ts";
import {
  AZURE_INTERNAL_ANNOTATION,
  FLEET_SYSTEM_NAMESPACE,
  INTERNAL_LOAD_BALANCER_ANNOTATION,
  MULTI_CLUSTER_SERVICE_NAME_LABEL,
  MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL,
} from "#api/networking.fleet.azure.com/names.ts";
import type {
  FleetServiceImportStatus,
  MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";

/** The LoadBalancer Service of a MultiClusterService: the ports of the import, and what annotations ask for. Pure. */

export interface LoadBalancerRequest {
  readonly object: MultiClusterService;
  readonly status: FleetServiceImportStatus;
  /** Of the Service. */
  readonly name: string;
  readonly derived: Service | undefined;
  /** True if the hub is legacy: it distributes only IPv4 exports. */
  readonly isLegacyHub: boolean;
  /** Beginnings of the annotations that are passed on. */
  readonly passOn: readonly string[];
}

export interface LoadBalancerPlan {
  /** Undefined where it would be made without an option that cannot be read: it might be open to more than it should. */
  readonly service: Applied<Service> | undefined;
  /** Annotations that cannot be read, in words. The values before them stay. */
  readonly problems: readonly string[];
}

export function planLoadBalancer(request: LoadBalancerRequest): LoadBalancerPlan {
  const { object, status, derived } = request;
  const said = object.metadata.annotations ?? {};
  const read = OPTIONS.map((it) => readOption(it, said[it.key], derived?.spec));
  const problems = read.flatMap((it) => it.problem ?? []);
  if (problems.length > 0 && derived === undefined) return { service: undefined, problems };
  const options = read.reduce<Partial<ServiceSpec>>((all, it) => ({ ...all, ...it.spec }), {});
  return {
    service: serviceOf(request, { ...affinityOf(status, options.sessionAffinity), ...options }),
    problems,
  };
}

function serviceOf(request: LoadBalancerRequest, options: Partial<ServiceSpec>): Applied<Service> {
  const { object, status, name, passOn } = request;
  const annotations = annotationsOf(object.metadata.annotations ?? {}, passOn);
  return {
    metadata: {
      name,
      namespace: FLEET_SYSTEM_NAMESPACE,
      labels: {
        [MULTI_CLUSTER_SERVICE_NAME_LABEL]: object.metadata.name,
        [MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL]: object.metadata.namespace ?? "",
      },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      type: "LoadBalancer",
      ...familiesOf(request),
      ports: (status.ports ?? []).map((port) => ({
        ...(port.name === undefined ? {} : { name: port.name }),
        protocol: port.protocol ?? "TCP",
        ...(port.appProtocol === undefined ? {} : { appProtocol: port.appProtocol }),
        port: port.port,
        // Shows readers of the Service the ports of the endpoints; proxies use the slices.
        ...(port.targetPort === undefined ? {} : { targetPort: port.targetPort }),
      })),
      ...options,
    },
  };
}

/**
 * The families that the exports serve: an address of another family would have no endpoints. A family that the Service
 * already has stays, because clients may know its address.
 */
function familiesOf({ status, derived, isLegacyHub }: LoadBalancerRequest): Partial<ServiceSpec> {
  const served = status.ipFamilies ?? (isLegacyHub ? ["IPv4" as const] : undefined);
  const given = derived?.spec?.ipFamilies ?? [];
  const [only, ...others] = new Set([...given, ...(served ?? [])]);
  // Older versions of Fairlead's hub do not report the families.
  const isSingle = served !== undefined && only !== undefined && others.length === 0;
  return isSingle
    ? { ipFamilyPolicy: "SingleStack", ipFamilies: [only] }
    : { ipFamilyPolicy: "PreferDualStack" };
}

/** The affinity that the exports agree on, and its timeout, unless an annotation sets another one. */
function affinityOf(
  status: FleetServiceImportStatus,
  override: ServiceSpec["sessionAffinity"],
): Partial<ServiceSpec> {
  if (status.sessionAffinity !== "ClientIP" || override === "None") return {};
  const { sessionAffinityConfig } = status;
  return {
    sessionAffinity: "ClientIP",
    ...defined({ sessionAffinityConfig }),
  };
}

function annotationsOf(
  said: Readonly<Record<string, string>>,
  passOn: readonly string[],
): Record<string, string> {
  const passed = Object.entries(said).filter(([key]) => passOn.some((prefix) => key.startsWith(prefix)));
  const isInternal = isGoTrue(said[INTERNAL_LOAD_BALANCER_ANNOTATION]);
  return { ...Object.fromEntries(passed), ...(isInternal ? { [AZURE_INTERNAL_ANNOTATION]: "true" } : {}) };
}

/** Parses text as Go's `strconv.ParseBool`. */
function isGoTrue(text: string | undefined): boolean {
  return text !== undefined && ["1", "t", "T", "true", "TRUE", "True"].includes(text);
}

interface Option {
  readonly key: string;
  readonly allowed: string;
  readonly field: keyof ServiceSpec;
  /** The value; undefined for text that cannot be used. */
  readonly read: (text: string) => unknown;
}

function readOption(
  { key, allowed, field, read }: Option,
  text: string | undefined,
  before: ServiceSpec | undefined,
): { readonly spec: Partial<ServiceSpec>; readonly problem?: string } {
  if (text === undefined) return { spec: {} };
  const value = read(text.trim());
  if (value !== undefined) return { spec: { [field]: value } };
  const kept = before?.[field];
  return {
    spec: kept === undefined ? {} : { [field]: kept },
    problem: `annotation ${key} is ${JSON.stringify(text.slice(0, 100))}; it must be ${allowed}`,
  };
}

function oneOf(...values: readonly string[]): (text: string) => string | undefined {
  return (text) => values.find((it) => it === text);
}

const NAMES = LOAD_BALANCER_ANNOTATIONS;
const POLICY = { allowed: "Cluster or Local", read: oneOf("Cluster", "Local") };

const OPTIONS: readonly Option[] = [
  {
    key: NAMES.class,
    field: "loadBalancerClass",
    allowed: "the name of a class",
    read: (text) => (text === "" ? undefined : text),
  },
  {
    key: NAMES.ip,
    field: "loadBalancerIP",
    allowed: "an address",
    read: (text) => (tryParseAddress(text) === undefined ? undefined : text),
  },
  {
    key: NAMES.sourceRanges,
    field: "loadBalancerSourceRanges",
    allowed: "a comma-separated list of CIDRs",
    read: readRanges,
  },
  { key: NAMES.externalTrafficPolicy, field: "externalTrafficPolicy", ...POLICY },
  { key: NAMES.internalTrafficPolicy, field: "internalTrafficPolicy", ...POLICY },
  {
    key: NAMES.healthCheckNodePort,
    field: "healthCheckNodePort",
    allowed: "a port, 1 to 65535",
    read: readPort,
  },
  {
    key: NAMES.allocateNodePorts,
    field: "allocateLoadBalancerNodePorts",
    allowed: "true or false",
    read: (text) => ({ true: true, false: false })[text],
  },
  {
    key: NAMES.sessionAffinity,
    field: "sessionAffinity",
    allowed: "None or ClientIP",
    read: oneOf("None", "ClientIP"),
  },
];

function readPort(text: string): number | undefined {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port < 1 || port > 65_535 ? undefined : port;
}

function readRanges(text: string): readonly string[] | undefined {
  const ranges = text.split(",").map((it) => it.trim());
  const isFine = ranges.every((it) => tryParsePrefix(it, { hostBits: "clear" }) !== undefined);
  return isFine ? ranges : undefined;
}
