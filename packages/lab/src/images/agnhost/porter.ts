/** What `agnhost porter` serves: one port for each variable SERVE_[TCP_|UDP_]PORT_number; SCTP is the script's. Pure. */

export interface PorterPort {
  readonly protocol: "http" | "udp";
  readonly port: number;
  /** The answer to everything. */
  readonly text: string;
}

const VARIABLE = /^SERVE_(?<protocol>TCP_|UDP_|)PORT_(?<port>\d{1,5})$/;
const PROTOCOLS = { "": "http", TCP_: "http", UDP_: "udp" } as const;

export function porterPorts(env: Readonly<Record<string, string | undefined>>): readonly PorterPort[] {
  return Object.entries(env).flatMap(([name, text = ""]) => {
    const { protocol = "", port = "" } = VARIABLE.exec(name)?.groups ?? {};
    if (port === "" || !isProtocol(protocol)) return [];
    return [{ protocol: PROTOCOLS[protocol], port: Number(port), text }];
  });
}

function isProtocol(text: string): text is keyof typeof PROTOCOLS {
  return Object.hasOwn(PROTOCOLS, text);
}
