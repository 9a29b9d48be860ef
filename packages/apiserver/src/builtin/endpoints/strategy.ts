import { sameJson } from "@fairlead/base/json.ts";
import { familyOf, formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { isEndpointAddress } from "@fairlead/base/netaddr/special.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { labelValueProblems } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { address, ADDRESS_FORM } from "../addresses.ts";
import { duplicate, IMMUTABLE, invalid, required, tooMany, unlessOneOf } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, setDefault, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { qualifiedName } from "../labels.ts";
import { dnsLabel, subdomain } from "../names.ts";
import { between, fields, oneOf, optional, present, type Rule, text as textOf } from "../rules.ts";

/** EndpointSlices and Endpoints. Source: k8s.io/kubernetes, pkg/apis/discovery/validation and core/validation. */

const MAX_ENDPOINTS = 1000;
const MAX_ADDRESSES = 100;
/** Room for custom implementations; the ports of a Service are fewer. */
const MAX_PORTS = 20_000;
const MAX_ZONE_HINTS = 8;
const ADDRESS_TYPES = ["FQDN", "IPv4", "IPv6"];
const labelValue: Rule = textOf(labelValueProblems);

export const endpointSliceStrategy: Partial<Strategy> = {
  generation: "spec-and-labels",
  applyDefaults: (object) => {
    for (const port of itemsAt(object, "ports")) {
      port["name"] ??= "";
      port["protocol"] ??= "TCP";
    }
    // A field from before the group was stable; the topology that remains has fields of its own.
    for (const endpoint of itemsAt(object, "endpoints")) delete endpoint["deprecatedTopology"];
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
  return [
    ...errors,
    ...fields({ nodeName: present(subdomain) })(endpoint, path),
    ...validateHints(endpoint, path),
    ...fields({ hostname: present(dnsLabel) })(endpoint, path),
  ];
}

const MAX_NODE_HINTS = 8;

function validateHints(endpoint: Fields, path: string): FieldError[] {
  const hints = fieldsAt(endpoint, "hints");
  return [
    ...validateHintNames(hints, `${path}.hints`, {
      list: "forZones",
      limit: MAX_ZONE_HINTS,
      rule: labelValue,
    }),
    ...validateHintNames(hints, `${path}.hints`, {
      list: "forNodes",
      limit: MAX_NODE_HINTS,
      rule: subdomain,
    }),
  ];
}

function validateHintNames(
  hints: Fields | undefined,
  path: string,
  { list, limit, rule }: { readonly list: string; readonly limit: number; readonly rule: Rule },
): FieldError[] {
  const items = itemsAt(hints, list);
  const at = `${path}.${list}`;
  const seen = new Set<string>();
  if (items.length > limit) return [tooMany(at, items.length, limit)];
  return items.flatMap((it, index) => {
    const name = textAt(it, "name");
    const here = `${at}[${index}].name`;
    const isSeen = seen.has(name);
    seen.add(name);
    return isSeen ? [duplicate(here, name)] : [...rule(name, here)];
  });
}

function validateAddress(text: string, path: string, type: string): FieldError[] {
  if (type === "FQDN") {
    return [...subdomain(text, path)];
  }
  if (type !== "IPv4" && type !== "IPv6") return [];
  const parsed = tryParseAddress(text);
  if (parsed === undefined) return [invalid(path, text, ADDRESS_FORM)];
  if (familyOf(parsed) !== type) return [invalid(path, text, `must be an ${type} address`)];
  const canonical = formatAddress(parsed);
  if (type === "IPv6" && canonical !== text) {
    return [invalid(path, text, `must be in canonical form (${JSON.stringify(canonical)})`)];
  }
  return validateNotSpecial(text, path);
}

/** Traffic must not be led to where only the sender itself, or its link, can be reached (CVE-2021-25740). */
function validateNotSpecial(text: string, path: string): FieldError[] {
  const parsed = tryParseAddress(text);
  if (parsed === undefined || isEndpointAddress(parsed)) return [];
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
    const isSeen = names.has(name);
    names.add(name);
    return [
      ...(name === "" ? [] : dnsLabel(name, `${path}.name`)),
      ...(isSeen ? [duplicate(`${path}.name`, name)] : []),
      ...validateProtocol(port, path),
    ];
  });
}

/** Unlike elsewhere, an empty protocol is validated like any other value. */
const protocol: Rule = oneOf("SCTP", "TCP", "UDP");

function validateProtocol(port: Fields, path: string): readonly FieldError[] {
  return fields({ protocol, appProtocol: present(qualifiedName) })(port, path);
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
      ...addresses.flatMap(([it, at]) => validateEndpointAddress(it, at)),
      ...ports.flatMap((it, at) => validateEndpointPort(it, `${path}.ports[${at}]`, ports.length > 1)),
    ];
  });
}

function validateEndpointAddress(endpoint: Fields, path: string): FieldError[] {
  const text = textAt(endpoint, "ip");
  const isAddress = tryParseAddress(text) !== undefined;
  return [
    ...address(text, `${path}.ip`),
    ...fields({ hostname: optional(dnsLabel), nodeName: present(subdomain) })(endpoint, path),
    ...(isAddress
      ? validateNotSpecial(text, `${path}.ip`)
      : [invalid(`${path}.ip`, text, "must be a valid IP address")]),
  ];
}

function validateEndpointPort(port: Fields, path: string, needsName: boolean): FieldError[] {
  const name = textAt(port, "name");
  return [
    ...(name === "" ? [] : dnsLabel(name, `${path}.name`)),
    ...(name === "" && needsName ? [required(`${path}.name`)] : []),
    ...fields({ port: between(1, 65_535) })(port, path),
    ...validateProtocol(port, path),
  ];
}
