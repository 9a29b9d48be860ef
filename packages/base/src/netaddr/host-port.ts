/** A host and port as they are written in flags: `host:port`, `[IPv6 address]:port`, or `:port`. */
export interface HostPort {
  /** Without brackets; empty for `:port`. */
  readonly host: string;
  readonly port: number;
  readonly isBracketed: boolean;
}

/** Undefined if the text has another form or the port is above 65535. The host is not checked. */
export function splitHostPort(text: string): HostPort | undefined {
  const groups = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:]*)):(?<port>\d{1,5})$/.exec(text)?.groups;
  const port = Number(groups?.["port"]);
  if (groups === undefined || port > 65_535) return undefined;
  return { host: groups["v6"] ?? groups["host"] ?? "", port, isBracketed: groups["v6"] !== undefined };
}
