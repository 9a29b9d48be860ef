import { createSecretKey, randomBytes } from "node:crypto";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createLogger } from "@fairlead/base/log.ts";
import { connectRelay } from "@fairlead/fleet/dataplane/control/connect-relay.ts";
import { TcpTunnel, type TunnelFlow } from "@fairlead/fleet/dataplane/control/tcp-tunnel.ts";

/**
 * A gateway's tunnels over TLS alone. Prints the local port of each flow, and then a line when all are registered.
 *
 * Usage: tunnel-program.ts HOST PORT KEY FLOW... (the key in Base64, flows in JSON)
 */
const [host = "", port, key = "", ...flows] = process.argv.slice(2);
const tunnel = new TcpTunnel(
  {
    connect: (signal) => connectRelay(host, Number(port), signal),
    nonce: () => randomBytes(16),
  },
  systemDeps(createLogger("tunnel", "error")),
);
const parsed = flows.map((it) => ({
  ...(JSON.parse(it) as Omit<TunnelFlow, "key">),
  key: createSecretKey(Buffer.from(key, "base64")),
}));
const ports = await Promise.all(parsed.map((it) => tunnel.open(it)));
print({ ports });
while (!parsed.every((it) => tunnel.isRegistered(it.to, it.epoch)))
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  });
print({ registered: true });
setInterval(() => {}, 1 << 30);

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
