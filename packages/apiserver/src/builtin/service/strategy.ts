import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { dnsLabelProblems } from "#values/names.ts";
import { fieldsAt, textAt } from "@fairlead/base/fields.ts";
import { allocateService } from "./allocate.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { defaultService } from "./defaults.ts";
import { validateService, validateServiceStatus, validateServiceUpdate } from "./validate.ts";

export function serviceStrategy(allocations: ServiceAllocations): Partial<Strategy> {
  return {
    applyDefaults: defaultService,
    prepareForCreate: (object) => {
      object["status"] = { loadBalancer: {} };
      allocateService(object, undefined, allocations);
    },
    prepareForUpdate: (object, old, { subresource }) => {
      if (subresource !== "") return;
      allocateService(object, old, allocations);
      // The status of the former load balancer no longer applies.
      if (specText(object, "type") !== "LoadBalancer") object["status"] = { loadBalancer: {} };
    },
    validateCreate: (object) => validateService(object),
    validateUpdate: (object, old, { subresource }) =>
      subresource === "" ? validateServiceUpdate(object, old) : validateServiceStatus(object),
    onStored: (after, before) => allocations.stored(after, before),
    generation: "none",
    allowCreateOnUpdate: true,
    checkName: dnsLabelProblems,
    fieldSelectors: {
      "spec.clusterIP": (object) => specText(object, "clusterIP"),
      "spec.type": (object) => specText(object, "type"),
    },
  };
}

function specText(object: ApiObject, key: string): string {
  return textAt(fieldsAt(object, "spec"), key);
}
