import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { type RecordData, type ResourceRecord, TYPE, typeCode } from "#wire/types.ts";

/** A record as a line of a zone file (RFC 1035, section 5.1; RFC 3597), its fields separated by one space. */
export function formatRecord(record: ResourceRecord): string {
  const className = record.class === 1 ? "IN" : `CLASS${record.class}`;
  return `${record.name} ${record.ttl} ${className} ${formatType(typeCode(record.data))} ${formatData(record.data)}`;
}

/** "A", "SRV", or "TYPE65" for a type without a name here. */
function formatType(code: number): string {
  for (const [name, value] of Object.entries(TYPE)) if (value === code) return name;
  return `TYPE${code}`;
}

function formatData(data: RecordData): string {
  switch (data.type) {
    case "A":
    case "AAAA":
      return formatAddress(data.address);
    case "CNAME":
    case "NS":
    case "PTR":
      return data.target;
    case "SRV":
      return `${data.priority} ${data.weight} ${data.port} ${data.target}`;
    case "TXT":
      return data.strings.map(quote).join(" ");
    case "SOA":
      return [data.mname, data.rname, data.serial, data.refresh, data.retry, data.expire, data.minimum].join(
        " ",
      );
    case "unknown":
      return `\\# ${data.bytes.length} ${Buffer.from(data.bytes).toString("hex")}`.trimEnd();
    default:
      return data satisfies never;
  }
}

function quote(text: string): string {
  const escaped = text.replaceAll(/["\\]|[^ -~]/g, (character) => {
    if (character === '"' || character === "\\") return `\\${character}`;
    return `\\${String(character.charCodeAt(0)).padStart(3, "0")}`;
  });
  return `"${escaped}"`;
}
