import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type {
  MonitorConfig,
  TrafficManagerProfile,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { byText } from "@fairlead/base/text.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Outcome } from "./provider.ts";

/** The name of a profile, who has it, and how its endpoints are checked. Pure. */

/** As other controllers of this API name it. "a-b/c" and "a/b-c" share one: see `nameProblem`. */
export function labelOf({ metadata }: TrafficManagerProfile): string {
  return `${metadata.namespace ?? ""}-${metadata.name}`;
}

const MAX_LABEL = 63;

/** Explains why a profile cannot have its name: another profile has it, or it is invalid. */
export function nameProblem(
  profile: TrafficManagerProfile,
  sameLabel: readonly TrafficManagerProfile[],
): NewCondition | undefined {
  const label = labelOf(profile);
  if (label.length > MAX_LABEL || !/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(label)) {
    const message = `${label} is not a DNS label: namespace and name may have ${MAX_LABEL - 1} characters together, and no dots`;
    return { type: "Programmed", status: "False", reason: "Invalid", message };
  }
  const [owner] = sameLabel.toSorted(byAge);
  if (owner === undefined || keyOf(owner) === keyOf(profile)) return undefined;
  return taken(`${label} belongs to the older TrafficManagerProfile ${keyOf(owner)}`);
}

/** One that is going keeps its name until it is gone. */
function byAge(a: TrafficManagerProfile, b: TrafficManagerProfile): number {
  const at = (it: TrafficManagerProfile): string => it.metadata.creationTimestamp ?? "";
  return Number(isDeleting(b)) - Number(isDeleting(a)) || byText(at(a), at(b)) || byText(keyOf(a), keyOf(b));
}

function taken(message: string): NewCondition {
  return { type: "Programmed", status: "False", reason: "DNSNameNotAvailable", message };
}

/** The condition of a profile that reports what its provider did. */
export function programmed(outcome: Outcome, dnsName: string): NewCondition {
  switch (outcome.kind) {
    case "programmed": {
      const message = `${dnsName} leads to the endpoints of the profile's backends`;
      return { type: "Programmed", status: "True", reason: "Programmed", message };
    }
    case "taken":
      return taken(outcome.message);
    case "refused":
      return { type: "Programmed", status: "False", reason: "Invalid", message: outcome.message };
    default:
      return outcome satisfies never;
  }
}

export type Monitor = Required<MonitorConfig>;

/** With the defaults of the API, those that depend on others included. */
export function monitorOf({ spec }: TrafficManagerProfile): Monitor {
  const { monitorConfig: given = {} } = spec;
  const intervalInSeconds = given.intervalInSeconds ?? 30;
  return {
    intervalInSeconds,
    path: given.path ?? "/",
    port: given.port ?? 80,
    protocol: given.protocol ?? "HTTP",
    customHeaders: given.customHeaders ?? [],
    timeoutInSeconds: given.timeoutInSeconds ?? (intervalInSeconds === 10 ? 9 : 10),
    toleratedNumberOfFailures: given.toleratedNumberOfFailures ?? 3,
  };
}
