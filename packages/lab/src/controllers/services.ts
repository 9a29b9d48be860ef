import type { IPFamily, Service } from "@fairlead/kube/api/core/v1/types.ts";

/** The families of a Service, the first being the one of `clusterIP`. A server fills `ipFamilies` in wherever it can. */
export function familiesOf(service: Service): readonly IPFamily[] {
  const { ipFamilies = [], clusterIP } = service.spec ?? {};
  if (ipFamilies.length > 0) return ipFamilies;
  return [clusterIP?.includes(":") === true ? "IPv6" : "IPv4"];
}
