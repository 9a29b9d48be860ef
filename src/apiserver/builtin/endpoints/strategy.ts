import { sameJson } from "#base/json.ts";
import { familyOf, tryParseAddress } from "#netaddr/address.ts";
import { isEndpointAddress } from "#netaddr/special.ts";
import { checkDnsLabel, checkQualifiedName, checkSubdomain } from "../../registry/names.ts";
import type { ApiObject, Strategy } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import {
  duplicate,
  IMMUTABLE,
  invalid,
  required,
  tooMany,
  unlessInRange,
  unlessOneOf,
} from "../field-errors.ts";
import { type Fields, fieldsAt, itemsAt, setDefault, stringAt, stringsAt, textAt } from "../fields.ts";

/** EndpointSlices and Endpoints. Source: k8s.io/kubernetes, pkg/apis/discovery/validation and core/validation. */

const MAX_ENDPOINTS = 1000;
const MAX_ADDRESSES = 100;
/** Room for custom implementations; the ports of a Service are fewer. */
const MAX_PORTS = 20_000;
const MAX_ZONE_HINTS = 8;
const ADDRESS_TYPES = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS = ["SCTP", "TCP", "UDP"];

export const endpointSliceStrategy: Partial<Strategy> = {
  generation: "spec-and-labels",
  applyDefaults: (object) => {
    for (const port of itemsAt(object, "ports")) {
      port["name"] ??= "";
      setDefault(port, "protocol", "TCP");
    }
  },
  validateCreate: (object) => validateSlice(object, NO_ADDRESSES),
  validateUpdate: (object, old) => {
    const errors = validateSlice(object, addressesOf(old));
    const type = object["addressType"];
    if (type !== old["addressType"]) errors.push(invalid("addressType", type, IMMUTABLE));
    return errors;
  },
};

const NO_ADDRESSES: ReadonlySet<string> = new Set();

/** Addresses that were checked when the slice was last written: most of them stay from one update to the next. */
function addressesOf(object: ApiObject): ReadonlySet<string> {
  return new Set(itemsAt(object, "endpoints").flatMap((it) => stringsAt(it, "addresses")));
}

function validateSlice(object: ApiObject, known: ReadonlySet<string>): FieldError[] {
  const type = textAt(object, "addressType");
  const endpoints = itemsAt(object, "endpoints");
  const ports = itemsAt(object, "ports");
  const errors = type === "" ? [required("addressType")] : unlessOneOf("addressType", type, ADDRESS_TYPES);
  if (endpoints.length > MAX_ENDPOINTS) errors.push(tooMany("endpoints", endpoints.length, MAX_ENDPOINTS));
  if (ports.length > MAX_PORTS) errors.push(tooMany("ports", ports.length, MAX_PORTS));
  return [
    ...errors,
    ...endpoints.flatMap((it, index) => validateEndpoint(it, `endpoints[${index}]`, { type, known })),
    ...validateSlicePorts(ports),
  ];
}

function validateEndpoint(
  endpoint: Fields,
  path: string,
  { type, known }: { readonly type: string; readonly known: ReadonlySet<string> },
): FieldError[] {
  const addresses = stringsAt(endpoint, "addresses");
  const errors: FieldError[] = [];
  if (addresses.length === 0) errors.push(required(`${path}.addresses`, "must contain at least 1 address"));
  if (addresses.length > MAX_ADDRESSES) {
    errors.push(tooMany(`${path}.addresses`, addresses.length, MAX_ADDRESSES));
  }
  for (const [index, it] of addresses.entries()) {
    if (!known.has(it)) errors.push(...validateAddress(it, `${path}.addresses[${index}]`, type));
  }
  const checks = [
    ["hostname", checkDnsLabel] as const,
    ["nodeName", checkSubdomain] as const,
    ["zone", checkQualifiedName] as const,
  ];
  for (const [field, check] of checks) {
    const value = stringAt(endpoint, field);
    const problem = value === undefined ? undefined : check(value);
    if (problem !== undefined) errors.push(invalid(`${path}.${field}`, value, problem));
  }
  return [...errors, ...validateHints(endpoint, path)];
}

function validateHints(endpoint: Fields, path: string): FieldError[] {
  const zones = itemsAt(fieldsAt(endpoint, "hints"), "forZones");
  const at = `${path}.hints.forZones`;
  const seen = new Set<string>();
  const errors = zones.length > MAX_ZONE_HINTS ? [tooMany(at, zones.length, MAX_ZONE_HINTS)] : [];
  for (const [index, it] of zones.entries()) {
    const name = textAt(it, "name");
    if (seen.has(name)) errors.push(duplicate(`${at}[${index}].name`, name));
    seen.add(name);
  }
  return errors;
}

function validateAddress(text: string, path: string, type: string): FieldError[] {
  if (type === "FQDN") {
    const problem = checkSubdomain(text);
    return problem === undefined ? [] : [invalid(path, text, problem)];
  }
  if (type !== "IPv4" && type !== "IPv6") return [];
  const address = tryParseAddress(text);
  if (address === undefined || familyOf(address) !== type) {
    return [invalid(path, text, `must be an ${type} address`)];
  }
  return validateNotSpecial(text, path);
}

/** Traffic must not be led to where only the sender itself, or its link, can be reached (CVE-2021-25740). */
function validateNotSpecial(text: string, path: string): FieldError[] {
  const address = tryParseAddress(text);
  if (address === undefined || isEndpointAddress(address)) return [];
  const detail =
    "may not be unspecified, in the loopback range (127.0.0.0/8, ::1/128), in the link-local range " +
    "(169.254.0.0/16, fe80::/10) or in a multicast range";
  return [invalid(path, text, detail)];
}

function validateSlicePorts(ports: readonly Fields[]): FieldError[] {
  const names = new Set<string>();
  return ports.flatMap((port, index) => {
    const path = `ports[${index}]`;
    const name = textAt(port, "name");
    const errors = validatePort(port, path);
    const problem = name === "" ? undefined : checkDnsLabel(name);
    if (problem !== undefined) errors.push(invalid(`${path}.name`, name, problem));
    if (names.has(name)) errors.push(duplicate(`${path}.name`, name));
    names.add(name);
    return errors;
  });
}

function validatePort(port: Fields, path: string): FieldError[] {
  const appProtocol = stringAt(port, "appProtocol");
  const problem = appProtocol === undefined ? undefined : checkQualifiedName(appProtocol);
  return [
    ...unlessInRange(`${path}.port`, port["port"] ?? undefined, 1, 65_535),
    ...unlessOneOf(`${path}.protocol`, port["protocol"], PROTOCOLS),
    ...(problem === undefined ? [] : [invalid(`${path}.appProtocol`, appProtocol, problem)]),
  ];
}

export const endpointsStrategy: Partial<Strategy> = {
  generation: "none",
  allowCreateOnUpdate: true,
  applyDefaults: (object) => {
    for (const subset of itemsAt(object, "subsets")) {
      for (const port of itemsAt(subset, "ports")) setDefault(port, "protocol", "TCP");
    }
  },
  validateCreate: validateEndpoints,
  validateUpdate: (object, old) =>
    sameJson(object["subsets"], old["subsets"]) ? [] : validateEndpoints(object),
};

function validateEndpoints(object: ApiObject): FieldError[] {
  return itemsAt(object, "subsets").flatMap((subset, index) => {
    const path = `subsets[${index}]`;
    const addresses = [
      ...itemsAt(subset, "addresses").map((it, at) => [it, `${path}.addresses[${at}]`] as const),
      ...itemsAt(subset, "notReadyAddresses").map(
        (it, at) => [it, `${path}.notReadyAddresses[${at}]`] as const,
      ),
    ];
    const ports = itemsAt(subset, "ports");
    return [
      ...(addresses.length === 0 ? [required(path, "must specify `addresses` or `notReadyAddresses`")] : []),
      ...addresses.flatMap(([it, at]) => validateEndpointAddress(textAt(it, "ip"), `${at}.ip`)),
      ...ports.flatMap((it, at) => validateEndpointPort(it, `${path}.ports[${at}]`, ports.length > 1)),
    ];
  });
}

function validateEndpointAddress(text: string, path: string): FieldError[] {
  if (tryParseAddress(text) !== undefined) return validateNotSpecial(text, path);
  return [invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")];
}

function validateEndpointPort(port: Fields, path: string, needsName: boolean): FieldError[] {
  const name = textAt(port, "name");
  const errors = validatePort(port, path);
  const problem = name === "" ? undefined : checkDnsLabel(name);
  if (problem !== undefined) errors.push(invalid(`${path}.name`, name, problem));
  if (name === "" && needsName) errors.push(required(`${path}.name`));
  if (port["port"] === undefined) errors.push(required(`${path}.port`));
  return errors;
}
