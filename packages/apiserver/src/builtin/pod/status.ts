import { familyOf, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { address } from "../addresses.ts";
import { invalid } from "#values/field-errors.ts";
import { fieldsAt, itemsAt, textAt } from "@fairlead/base/fields.ts";
import { immutable } from "../rules.ts";

/** Validates status updates of pods. Source: k8s.io/kubernetes, pkg/apis/core/validation, `ValidatePodStatusUpdate`. */
export function validatePodStatus(pod: ApiObject, old: ApiObject): FieldError[] {
  const [status, before] = [fieldsAt(pod, "status"), fieldsAt(old, "status")];
  return [
    ...immutable(status, before, "status.", "qosClass"),
    ...["podIPs", "hostIPs"].flatMap((list) => {
      const path = `status.${list}`;
      const known = new Set(itemsAt(before, list).map((it) => textAt(it, "ip")));
      const ips = itemsAt(status, list).map((it) => textAt(it, "ip"));
      const families = ips
        .map((it) => tryParseAddress(it))
        .flatMap((it) => (it === undefined ? [] : [familyOf(it)]));
      return [
        ...ips.flatMap((it, at) => (known.has(it) ? [] : address(it, `${path}[${at}]`))),
        ...(new Set(families).size === families.length
          ? []
          : [invalid(path, status?.[list], "may specify no more than one IP for each IP family")]),
      ];
    }),
  ];
}
