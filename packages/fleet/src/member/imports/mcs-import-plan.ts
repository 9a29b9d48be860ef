import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { derivedServiceName } from "#api/fairlead.dev/cluster-names.ts";
import { derivedPortName } from "#domain/slice.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import type { Condition, ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_DERIVED_SERVICE_ANNOTATION,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";

/** A multi-cluster ServiceImport and the Service that carries its VIP. Pure. */

/** Returns true for an object of a member's agent: by its label, or, if that was removed, by the fields the agent owns. */
export function isOurs({ metadata }: { readonly metadata: ObjectMeta }): boolean {
  return (
    metadata.labels?.[MANAGED_BY_LABEL] === MANAGED_BY ||
    metadata.managedFields?.some((it) => it.manager === MEMBER_MANAGER && !it.subresource) === true
  );
}

/** Where clients reach a service. */
export type Vip = Required<Pick<NonNullable<ServiceImport["spec"]>, "ips" | "ipFamilies">>;

/**
 * @param known - Undefined while it is not known, and for Headless.
 * @param current - The import as it is: while its address is not known, it stays. That of a Service is asked for again.
 */
export function planMcsImport(
  spec: ImportedService["spec"],
  known: Vip | undefined,
  current?: ServiceImport,
): Applied<ServiceImport> {
  const { namespace, name } = spec.service;
  const isVirtual = spec.type === "ClusterSetIP";
  const vip = known ?? vipOfImport(current);
  const families = isVirtual ? vip.ipFamilies : (spec.ipFamilies ?? []);
  return {
    metadata: {
      namespace,
      name,
      labels: { ...spec.labels, [MANAGED_BY_LABEL]: MANAGED_BY },
      ...annotationsOf(spec, isVirtual),
    },
    spec: {
      type: spec.type,
      ports: spec.ports,
      ...(isVirtual && vip.ips.length > 0 ? { ips: vip.ips } : {}),
      ...(families.length > 0 ? { ipFamilies: families } : {}),
      ...(spec.sessionAffinity === undefined ? {} : { sessionAffinity: spec.sessionAffinity }),
      ...trafficOf(spec),
    },
  };
}

function annotationsOf(
  spec: ImportedService["spec"],
  isVirtual: boolean,
): { annotations?: Record<string, string> } {
  const { namespace, name } = spec.service;
  const annotations = {
    ...spec.annotations,
    ...(isVirtual ? { [MCS_DERIVED_SERVICE_ANNOTATION]: derivedServiceName(namespace, name) } : {}),
  };
  return Object.keys(annotations).length === 0 ? {} : { annotations };
}

function trafficOf({
  sessionAffinityConfig,
  ...spec
}: ImportedService["spec"]): Pick<
  ImportedService["spec"],
  "sessionAffinityConfig" | "internalTrafficPolicy" | "trafficDistribution"
> {
  return {
    ...defined({ sessionAffinityConfig }),
    ...(spec.internalTrafficPolicy === undefined
      ? {}
      : { internalTrafficPolicy: spec.internalTrafficPolicy }),
    ...(spec.trafficDistribution === undefined ? {} : { trafficDistribution: spec.trafficDistribution }),
  };
}

export function vipOfImport(object: ServiceImport | undefined): Vip {
  const { ips = [], ipFamilies = [] } = object?.spec ?? {};
  return { ips, ipFamilies };
}

/** That of the Service with the VIP. */
export function vipOf(derived: Service | undefined): Vip {
  const ips = (derived?.spec?.clusterIPs ?? []).filter((it) => it !== "" && it !== "None");
  return { ips, ipFamilies: (derived?.spec?.ipFamilies ?? []).slice(0, ips.length) };
}

/**
 * That of a parallel network: of the families that all exporters serve. A family that the import has stays. Undefined: the hub
 * has not given it addresses.
 */
export function fleetVip(
  { vips, ipFamilies = [] }: Pick<ImportedService["spec"], "vips" | "ipFamilies">,
  current: ServiceImport | undefined,
): Vip | undefined {
  const before = new Set(current?.spec?.ips);
  const found = (vips ?? []).flatMap((ip) => {
    const family = familyOfText(ip);
    const isServed = ipFamilies.length === 0 || (family !== undefined && ipFamilies.includes(family));
    return family !== undefined && (isServed || before.has(ip)) ? [{ ip, family }] : [];
  });
  return found.length === 0
    ? undefined
    : { ips: found.map((it) => it.ip), ipFamilies: found.map((it) => it.family) };
}

/**
 * The Service whose VIP the cluster's own proxy serves. Dual-stack if the cluster and all exporters are; a family that it
 * has stays, because a VIP has to be stable for the life of the import (KEP-1645). For the same reason a Service that
 * was deleted gets the address in the import again.
 */
export function planDerivedService(
  spec: ImportedService["spec"],
  owner: ServiceImport,
  current: Service | undefined,
): Applied<Service> {
  const { namespace, name } = spec.service;
  return {
    metadata: {
      namespace,
      name: derivedServiceName(namespace, name),
      labels: { [MANAGED_BY_LABEL]: MANAGED_BY },
      ownerReferences: [
        {
          apiVersion: "multicluster.x-k8s.io/v1beta1",
          kind: "ServiceImport",
          name,
          uid: owner.metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      type: "ClusterIP",
      ...addressesOf(spec, owner, current),
      ports: spec.ports.map(({ name: said = "", ...port }) => {
        const known = derivedPortName(said, spec.ports);
        return known === "" ? port : { name: known, ...port };
      }),
      sessionAffinity: spec.sessionAffinity ?? "None",
      ...trafficOf(spec),
    },
  };
}

function addressesOf(
  spec: ImportedService["spec"],
  owner: ServiceImport,
  current: Service | undefined,
): Partial<Service["spec"]> {
  const [only, ...others] = spec.ipFamilies ?? [];
  // Changing its type to ExternalName takes the addresses of a Service, too.
  const lost = vipOf(current).ips.length === 0 ? lostAddresses(owner) : undefined;
  const isDual = (lost?.clusterIPs ?? []).length > 1 || current?.spec?.ipFamilyPolicy === "PreferDualStack";
  const isSingle = only !== undefined && others.length === 0 && !isDual;
  return isSingle
    ? { ipFamilyPolicy: "SingleStack", ipFamilies: [only], ...lost }
    : { ipFamilyPolicy: "PreferDualStack", ...lost };
}

/** The addresses of a Service that has none any more. */
function lostAddresses({ spec }: ServiceImport): Partial<Service["spec"]> | undefined {
  const { ips: clusterIPs = [], ipFamilies = [] } = spec ?? {};
  const [clusterIP] = clusterIPs;
  return clusterIP === undefined ? undefined : { clusterIP, clusterIPs, ipFamilies };
}

/** Why the Service with the VIP cannot be had. */
export interface Refusal {
  /** "Pending": for a reason that KEP-1645 has no word for. */
  readonly reason: "IPFamilyNotSupported" | "Pending";
  readonly message: string;
}

/** What a server's refusal of that Service means. @param fields - The fields that it objects to. */
export function planRefusal(fields: readonly string[], message: string): Refusal {
  const isFamily = fields.some((it) => /^spec\.(ipFamil|clusterIP)/.test(it));
  return { reason: isFamily ? "IPFamilyNotSupported" : "Pending", message: message.slice(0, 1024) };
}

/** The `Ready` condition of an import. */
export function planReady(
  spec: ImportedService["spec"],
  vip: Vip | undefined,
  refusal: Refusal | undefined,
): Omit<Condition, "lastTransitionTime"> {
  if (refusal !== undefined) return { type: "Ready", status: "False", ...refusal };
  if (spec.type === "ClusterSetIP" && (vip?.ips ?? []).length === 0)
    return { type: "Ready", status: "False", reason: "Pending", message: "waiting for a virtual address" };
  return { type: "Ready", status: "True", reason: "Ready", message: "the service can be used" };
}
