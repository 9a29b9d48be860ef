import { byText } from "@fairlead/base/text.ts";
import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  fieldsAt,
  type Fields,
  itemsAt,
  numberAt,
  stringMapAt,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import {
  ageColumn,
  column,
  labelsText,
  listText,
  nameColumn,
  NONE,
  selectorText,
  shortList,
  specOf,
  statusOf,
  wide,
} from "./common.ts";

export const serviceColumns: readonly TableColumn[] = [
  nameColumn,
  column("Type", (object) => textAt(specOf(object), "type")),
  column("Cluster-IP", (object) => textAt(specOf(object), "clusterIP") || NONE),
  column("External-IP", externalIpText),
  column("Port(s)", (object) => listText(itemsAt(specOf(object), "ports").map(portText))),
  ageColumn,
  wide("Selector", (object) => labelsText(stringMapAt(specOf(object), "selector"))),
];

function portText(port: Fields): string {
  const nodePort = numberAt(port, "nodePort") ?? 0;
  const node = nodePort > 0 ? `:${nodePort}` : "";
  return `${numberAt(port, "port") ?? 0}${node}/${textAt(port, "protocol")}`;
}

function externalIpText(object: ApiObject): string {
  const spec = specOf(object);
  const externalIps = stringsAt(spec, "externalIPs");
  switch (textAt(spec, "type")) {
    case "LoadBalancer": {
      const addresses = [...loadBalancerAddresses(object), ...externalIps];
      return addresses.length === 0 ? "<pending>" : addresses.join(",");
    }
    case "ExternalName":
      return textAt(spec, "externalName");
    default:
      return listText(externalIps);
  }
}

function loadBalancerAddresses(object: ApiObject): readonly string[] {
  const ingress = itemsAt(fieldsAt(statusOf(object), "loadBalancer"), "ingress");
  const addresses = ingress.map((it) => textAt(it, "ip") || textAt(it, "hostname"));
  return [...new Set(addresses)].filter((it) => it !== "").toSorted(byText);
}

export const endpointsColumns: readonly TableColumn[] = [
  nameColumn,
  column("Endpoints", (object) => {
    const subsets = itemsAt(object, "subsets");
    const texts = subsets.flatMap((subset) => {
      const ports = itemsAt(subset, "ports").map((it) => numberAt(it, "port") ?? 0);
      const addresses = itemsAt(subset, "addresses").map((it) => textAt(it, "ip"));
      if (ports.length === 0) return addresses;
      return ports.flatMap((port) =>
        addresses.map((ip) => (ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`)),
      );
    });
    return subsets.length > 0 && texts.length === 0 ? "" : shortList(texts);
  }),
  ageColumn,
];

export const endpointSliceColumns: readonly TableColumn[] = [
  nameColumn,
  column("AddressType", (object) => textAt(object, "addressType")),
  column("Ports", (object) => {
    const ports = itemsAt(object, "ports");
    if (ports.length === 0) return "<unset>";
    const texts = ports.map((it) => `${numberAt(it, "port") ?? textAt(it, "name")}`);
    return shortList(texts) || "<unset>";
  }),
  column("Endpoints", (object) => {
    const addresses = itemsAt(object, "endpoints").flatMap((it) => stringsAt(it, "addresses"));
    return addresses.length === 0 ? "<unset>" : shortList(addresses);
  }),
  ageColumn,
];

export const ingressColumns: readonly TableColumn[] = [
  nameColumn,
  column("Class", (object) => textAt(specOf(object), "ingressClassName") || NONE),
  column("Hosts", (object) => {
    const rules = itemsAt(specOf(object), "rules").map((it) => textAt(it, "host"));
    const hosts = rules.filter((it) => it !== "");
    if (hosts.length === 0) return "*";
    // Rules without a host count where the list is cut, and do not cut it.
    const [, , third = rules.length] = rules.flatMap((it, at) => (it === "" ? [] : [at]));
    const isCut = rules.length > third + 1;
    return isCut ? `${hosts.slice(0, 3).join(",")} + ${rules.length - 3} more...` : hosts.join(",");
  }),
  column("Address", (object) => loadBalancerAddresses(object).join(",")),
  column("Ports", (object) => (itemsAt(specOf(object), "tls").length > 0 ? "80, 443" : "80")),
  ageColumn,
];

export const ingressClassColumns: readonly TableColumn[] = [
  nameColumn,
  column("Controller", (object) => textAt(specOf(object), "controller")),
  column("Parameters", (object) => {
    const parameters = fieldsAt(specOf(object), "parameters");
    if (parameters === undefined) return NONE;
    const group = textAt(parameters, "apiGroup");
    return `${textAt(parameters, "kind")}${group === "" ? "" : `.${group}`}/${textAt(parameters, "name")}`;
  }),
  ageColumn,
];

export const networkPolicyColumns: readonly TableColumn[] = [
  nameColumn,
  column("Pod-Selector", (object) => selectorText(fieldsAt(specOf(object), "podSelector"))),
  ageColumn,
];

export const ipAddressColumns: readonly TableColumn[] = [
  nameColumn,
  column("ParentRef", (object) => {
    const parent = fieldsAt(specOf(object), "parentRef");
    const parts = [textAt(parent, "resource"), textAt(parent, "namespace"), textAt(parent, "name")];
    const group = textAt(parent, "group");
    return [...(group === "" ? [] : [group]), ...parts].filter((it) => it !== "").join("/");
  }),
];

export const serviceCidrColumns: readonly TableColumn[] = [
  nameColumn,
  column("CIDRs", (object) => stringsAt(specOf(object), "cidrs").join(",")),
  ageColumn,
];
