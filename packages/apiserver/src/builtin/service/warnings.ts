import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { ApiObject } from "#values/object.ts";
import { isHeadless, specOf } from "./shape.ts";

/** Warnings for fields without effect. Source: k8s.io/kubernetes, pkg/api/service, `GetWarningsForService`. */
export function serviceWarnings(object: ApiObject & Service): readonly string[] {
  const spec = specOf(object);
  const hasExternalIps = (spec.externalIPs ?? []).length > 0;
  const isExternalName = spec.type === "ExternalName";
  const headless = isHeadless(spec);
  const cases: readonly (readonly [boolean, string])[] = [
    [headless && (spec.loadBalancerIP ?? "") !== "", "spec.loadBalancerIP is ignored for headless services"],
    [headless && hasExternalIps, "spec.externalIPs is ignored for headless services"],
    [headless && spec.sessionAffinity !== "None", "spec.SessionAffinity is ignored for headless services"],
    [
      hasExternalIps && !headless && !isExternalName,
      "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    ],
    [isExternalName && hasExternalIps, 'spec.externalIPs is ignored when spec.type is "ExternalName"'],
    [
      !isExternalName && (spec.externalName ?? "") !== "",
      'spec.externalName is ignored when spec.type is not "ExternalName"',
    ],
    [
      spec.trafficDistribution === "PreferClose",
      'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ],
  ];
  return [
    ...formWarnings(spec.clusterIPs, "spec.clusterIPs"),
    ...cases.filter(([holds]) => holds).map(([, text]) => text),
    ...formWarnings(spec.externalIPs, "spec.externalIPs"),
  ];
}

/** IPv6 addresses have one form in which they are written (RFC 5952). */
function formWarnings(addresses: readonly string[] = [], path: string): readonly string[] {
  return addresses.flatMap((text, at) => {
    const address = text.includes(":") ? tryParseAddress(text) : undefined;
    const form = address === undefined ? text : formatAddress(address);
    if (form === text) return [];
    return [
      `${path}[${at}]: IPv6 address ${JSON.stringify(text)} should be in RFC 5952 canonical format (${JSON.stringify(form)})`,
    ];
  });
}
