import type { Fields } from "@fairlead/base/fields.ts";
import type { PortMatch, Rule } from "../model.ts";
import { isPresent, open, type Part, partAt, partsAt, readAll, type Refuse, shown } from "./part.ts";
import { allPorts, isPort, isPortName, refusePort, TRANSPORTS } from "./ports.ts";

/** `protocols` of a ClusterNetworkPolicy. */

export function clusterPorts(
  fields: Fields,
  path: string,
  isDenying: boolean,
  refuse: Refuse,
): Rule["ports"] | undefined {
  const parts = partsAt(fields, path, "protocols");
  if (parts === undefined) return "any";
  if (parts.length === 0) return refuse(`${path}.protocols`, "At least one protocol is needed.");
  return readAll(parts, isDenying, (it) => protocolOf(it, refuse))?.flat();
}

function protocolOf(part: Part, refuse: Refuse): readonly PortMatch[] | undefined {
  const names = ["destinationNamedPort", ...TRANSPORTS.map((it) => it.toLowerCase())];
  const fields = open(part, names, refuse);
  if (fields === undefined) return undefined;
  const [name, ...others] = names.filter((it) => isPresent(fields[it]));
  if (name === undefined || others.length > 0)
    return refuse(part.path, `Exactly one of ${names.join(", ")} is needed.`);
  const value = fields[name];
  if (name === "destinationNamedPort")
    return isPortName(value)
      ? TRANSPORTS.map((protocol) => ({ kind: "named", protocol, name: value }))
      : refusePort(`${part.path}.${name}`, value, refuse);
  const ports = rangeOf({ path: `${part.path}.${name}`, value }, refuse);
  return (
    ports &&
    TRANSPORTS.filter((it) => it.toLowerCase() === name).map((protocol) => ({
      ...allPorts(protocol),
      ...ports,
    }))
  );
}

interface Range {
  readonly first?: number;
  readonly last?: number;
}

/** Empty: all ports. */
function rangeOf(part: Part, refuse: Refuse): Range | undefined {
  const fields = open(part, ["destinationPort"], refuse);
  const port = fields && partAt(fields, part.path, "destinationPort");
  if (port === undefined) return fields && {};
  const choice = open(port, ["number", "range"], refuse);
  if (choice === undefined) return undefined;
  const [range, number] = ["range", "number"].map((it) => partAt(choice, port.path, it));
  if ((range === undefined) === (number === undefined))
    return refuse(port.path, "Exactly one of number and range is needed.");
  return (range && endsOf(range, refuse)) ?? (number && oneOf(number, refuse));
}

function oneOf({ path, value }: Part, refuse: Refuse): Range | undefined {
  return isPort(value) ? { first: value, last: value } : refusePort(path, value, refuse);
}

function endsOf(part: Part, refuse: Refuse): Range | undefined {
  const fields = open(part, ["start", "end"], refuse);
  if (fields === undefined) return undefined;
  const { start, end } = fields;
  if (isPort(start) && isPort(end) && start <= end) return { first: start, last: end };
  return refuse(part.path, `${shown(start)} to ${shown(end)} is not a range of ports from 1 to 65535.`);
}
