import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { deviceWord } from "#iproute/words.ts";
import { inNetns } from "#netns/netns.ts";
import type { PeerChange, WireguardChange } from "./diff.ts";
import type { ActualDevice, ActualPeer } from "./state.ts";
import { RELEASED_TO } from "./uapi.ts";

/** Configuration by the program wg(8), as of wireguard-tools 1.0.20210914. */

type Configuration = Omit<ActualDevice, "name" | "mtu" | "isUp">;

export async function readByWg(name: string, netns: string, signal: AbortSignal): Promise<Configuration> {
  const { stdout } = await wg(["show", deviceWord(name), "dump"], { netns, signal });
  return parseDump(stdout);
}

/** Keys go by standard input, because everybody reads command lines. */
export async function changeByWg(
  name: string,
  change: WireguardChange,
  options: { readonly netns: string; readonly signal: AbortSignal },
): Promise<void> {
  for (const { args, input } of setCommands(name, change)) await wg(args, options, input);
}

/** One call for each secret, since standard input holds one, and one for all else. Peers with a new secret are first. */
export function setCommands(
  name: string,
  change: WireguardChange,
): readonly { readonly args: readonly string[]; readonly input?: string }[] {
  const set = ["set", deviceWord(name)];
  const { privateKey, listenPort, fwmark, peers, releasedIPs, removedPeers } = change;
  const secrets = peers
    .filter((it) => it.presharedKey !== undefined)
    .map(({ publicKey, presharedKey = "" }) => {
      const args = [...set, "peer", publicKey, "preshared-key"];
      return presharedKey === ""
        ? { args: [...args, "/dev/null"] }
        : { args: [...args, "/proc/self/fd/0"], input: presharedKey };
    });
  const args = [
    ...(privateKey === undefined ? [] : ["private-key", "/proc/self/fd/0"]),
    ...(listenPort === undefined ? [] : ["listen-port", String(listenPort)]),
    ...(fwmark === undefined ? [] : ["fwmark", String(fwmark)]),
    ...peers.flatMap((it) => peerWords(it)),
    ...(releasedIPs.length === 0
      ? []
      : ["peer", RELEASED_TO, "allowed-ips", releasedIPs.join(","), "peer", RELEASED_TO, "remove"]),
    ...removedPeers.flatMap((it) => ["peer", it, "remove"]),
  ];
  const rest =
    privateKey === undefined ? { args: [...set, ...args] } : { args: [...set, ...args], input: privateKey };
  return args.length === 0 ? secrets : [...secrets, rest];
}

function peerWords(peer: PeerChange): readonly string[] {
  const { publicKey, endpoint, persistentKeepaliveSeconds: seconds, addedIPs, allowedIPs } = peer;
  const words = [
    ...(endpoint === undefined ? [] : ["endpoint", endpoint]),
    ...(seconds === undefined ? [] : ["persistent-keepalive", String(seconds)]),
    // Replaces all prefixes of the peer.
    ...(addedIPs.length === 0 ? [] : ["allowed-ips", allowedIPs.join(",")]),
  ];
  return words.length === 0 && !peer.isNew ? [] : ["peer", publicKey, ...words];
}

/** What `wg show DEVICE dump` prints: fields between tabs, the first line for the device, one for each peer. */
export function parseDump(text: string): Configuration {
  const [device = "", ...peers] = text.trimEnd().split("\n");
  const [privateKey = "", , listenPort, fwmark] = device.split("\t");
  return {
    ...(privateKey === "(none)" ? {} : { privateKey }),
    listenPort: Number(listenPort),
    fwmark: fwmark === "off" ? 0 : Number(fwmark),
    peers: peers.map((it) => parsePeer(it)),
  };
}

function parsePeer(line: string): ActualPeer {
  const [publicKey = "", presharedKey, endpoint, allowedIPs = "", handshake, rx, tx, keepalive] =
    line.split("\t");
  return {
    publicKey,
    ...(presharedKey === undefined || presharedKey === "(none)" ? {} : { presharedKey }),
    ...(endpoint === undefined || endpoint === "(none)" ? {} : { endpoint }),
    allowedIPs: allowedIPs === "(none)" ? [] : allowedIPs.split(","),
    persistentKeepaliveSeconds: keepalive === "off" ? 0 : Number(keepalive),
    ...(handshake === "0" ? {} : { latestHandshakeMs: Number(handshake) * 1000 }),
    rxBytes: Number(rx),
    txBytes: Number(tx),
  };
}

async function wg(
  args: readonly string[],
  options: { readonly netns: string; readonly signal: AbortSignal },
  input?: string,
): Promise<ExecResult> {
  // wg opens it, so it must be a pipe; what this process gives to a child is a socket. Not /dev/stdin: small images lack it.
  const piped = ["-c", 'cat | exec wg "$@"', "wg", ...args];
  const line = input === undefined ? inNetns(options.netns, "wg", args) : inNetns(options.netns, "sh", piped);
  try {
    return await exec(line.command, line.args, {
      signal: options.signal,
      ...(input === undefined ? {} : { input }),
    });
  } catch (cause) {
    if (options.signal.aborted) throw cause;
    const [verb = "", name = ""] = args;
    throw new FleetError("WIREGUARD_FAILED", `cannot ${verb} the WireGuard device ${name}`, {
      cause,
      retriable: true,
    });
  }
}
