import { FleetError } from "@fairlead/base/errors.ts";
import type { PeerChange, WireguardChange } from "./diff.ts";
import { keyBytes } from "./keys.ts";
import type { ActualDevice, ActualPeer } from "./state.ts";

/** Text of WireGuard's cross-platform configuration protocol. Source: wireguard.com/xplatform. */

export const GET_REQUEST = "get=1\n\n";

/** Set briefly for prefixes that are released. It has no known private key: it is the SHA-256 of a text. */
export const RELEASED_TO = "7GhDfAulujF9ylullCzfQYhQvhTx6YMs+kXKOTF+AhE=";

export function setRequest(change: WireguardChange): string {
  const { privateKey, listenPort, fwmark, peers, releasedIPs, removedPeers } = change;
  const lines = [
    "set=1",
    ...setting("private_key", privateKey === undefined ? undefined : hex(privateKey)),
    ...setting("listen_port", listenPort),
    ...setting("fwmark", fwmark),
    ...peers.flatMap((it) => peerLines(it)),
    ...(releasedIPs.length === 0
      ? []
      : [`public_key=${hex(RELEASED_TO)}`, ...releasedIPs.map((it) => `allowed_ip=${it}`), "remove=true"]),
    ...removedPeers.flatMap((it) => [`public_key=${hex(it)}`, "remove=true"]),
  ];
  return `${lines.join("\n")}\n\n`;
}

function peerLines(peer: PeerChange): readonly string[] {
  const { presharedKey: key } = peer;
  return [
    `public_key=${hex(peer.publicKey)}`,
    ...(peer.isNew ? [] : ["update_only=true"]),
    ...setting("preshared_key", key === "" ? "0".repeat(64) : key === undefined ? undefined : hex(key)),
    ...setting("endpoint", peer.endpoint),
    ...setting("persistent_keepalive_interval", peer.persistentKeepaliveSeconds),
    ...peer.addedIPs.map((it) => `allowed_ip=${it}`),
  ];
}

function setting(key: string, value: string | number | undefined): readonly string[] {
  return value === undefined ? [] : [`${key}=${value}`];
}

function hex(key: string): string {
  return keyBytes(key, "the key").toString("hex");
}

/** @throws {FleetError} `WIREGUARD_FAILED` when the answer has an error number, or none. */
export function checkAnswer(name: string, answer: string): void {
  const errno = /(?:^|\n)errno=(-?\d{1,9})\n\n$/.exec(answer)?.[1];
  if (errno === "0") return;
  const found = errno === undefined ? "an incomplete answer" : `error number ${errno}`;
  throw new FleetError(
    "WIREGUARD_FAILED",
    `cannot configure the WireGuard device ${name}: wireguard-go sent ${found}`,
    {
      retriable: errno === undefined,
    },
  );
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The answer to `get=1`. */
export function parseAnswer(answer: string): Omit<ActualDevice, "name" | "mtu" | "isUp"> {
  const device: Mutable<Omit<ActualDevice, "name" | "mtu" | "isUp" | "peers">> = { listenPort: 0, fwmark: 0 };
  const peers: Mutable<ActualPeer & { allowedIPs: string[] }>[] = [];
  for (const line of answer.split("\n")) {
    const equals = line.indexOf("=");
    const [key, value] = [line.slice(0, equals), line.slice(equals + 1)];
    const peer = peers.at(-1);
    if (key === "private_key") device.privateKey = base64(value);
    else if (key === "listen_port") device.listenPort = Number(value);
    else if (key === "fwmark") device.fwmark = Number(value);
    else if (key === "public_key") {
      peers.push({
        publicKey: base64(value),
        allowedIPs: [],
        persistentKeepaliveSeconds: 0,
        rxBytes: 0,
        txBytes: 0,
      });
    } else if (peer !== undefined) readPeer(peer, key, value);
  }
  return { ...device, peers };
}

function readPeer(peer: Mutable<ActualPeer & { allowedIPs: string[] }>, key: string, value: string): void {
  const handshake = (added: number): void => {
    if (added > 0) peer.latestHandshakeMs = (peer.latestHandshakeMs ?? 0) + added;
  };
  if (key === "preshared_key" && !/^0+$/.test(value)) peer.presharedKey = base64(value);
  else if (key === "endpoint") peer.endpoint = value;
  else if (key === "last_handshake_time_sec") handshake(Number(value) * 1000);
  else if (key === "last_handshake_time_nsec") handshake(Math.trunc(Number(value) / 1e6));
  else if (key === "tx_bytes") peer.txBytes = Number(value);
  else if (key === "rx_bytes") peer.rxBytes = Number(value);
  else if (key === "persistent_keepalive_interval") peer.persistentKeepaliveSeconds = Number(value);
  else if (key === "allowed_ip") peer.allowedIPs.push(value);
}

function base64(hexKey: string): string {
  return Buffer.from(hexKey, "hex").toString("base64");
}
