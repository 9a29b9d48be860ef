import { randomBytes } from "node:crypto";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { defined } from "@fairlead/base/defined.ts";
import { issueAuthority } from "@fairlead/base/pki/issue.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import type { ProgramContext } from "@fairlead/base/program/program.ts";
import { publicKeyOf } from "@fairlead/os/wireguard/keys.ts";
import { type ForwardMode, kernelFamilies } from "@fairlead/fleet/relay/choose-forwarder.ts";
import { followFile } from "@fairlead/fleet/relay/file-gateways.ts";
import { createHubRelay } from "@fairlead/fleet/relay/hub-gateways.ts";
import { createKernelForwarder } from "@fairlead/fleet/relay/kernel-forwarder.ts";
import { relayKey } from "@fairlead/fleet/relay/private-key.ts";
import { startRelay } from "@fairlead/fleet/relay/relay.ts";
import { routedFrom } from "@fairlead/fleet/relay/sockets.ts";
import { createUserspaceForwarder } from "@fairlead/fleet/relay/userspace-forwarder.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { createManagerParts } from "#shared/manager.ts";

export interface RelayRun {
  readonly kubeconfig?: string | undefined;
  readonly gateways?: string | undefined;
  readonly name: string;
  readonly address: readonly string[];
  readonly listen: readonly string[];
  readonly basePort: number;
  readonly key: string;
  readonly forward: ForwardMode;
  /** Unit: bytes per second. */
  readonly legLimit: number | undefined;
  readonly tlsPort: number | undefined;
  readonly metrics?: string | undefined;
}

const ANY: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);

/** Runs a relay until the program is stopped. */
export async function runRelay({ signal, log, ready }: ProgramContext, run: RelayRun): Promise<void> {
  const { deps, metrics, health } = createManagerParts(log, {});
  const { basePort, listen, legLimit } = run;
  const privateKey = await relayKey(run.key);
  await using stack = new AsyncDisposableStack();
  if (run.metrics !== undefined)
    stack.use(await serveMetrics({ metrics, address: run.metrics, checks: health }));
  const nft = createNft();
  const families = await kernelFamilies({ mode: run.forward, nft, basePort, log }, signal);
  // Gateways do not look at the certificate: their registration proves both ends (`boundKey`).
  const tls =
    run.tlsPort === undefined
      ? undefined
      : { port: run.tlsPort, ...(await issueAuthority({ commonName: "fairlead-relay" })) };
  log.info("starting", { basePort, listen, publicKey: publicKeyOf(privateKey), kernel: families ?? [] });
  const relay = stack.use(
    await startRelay(
      {
        privateKey,
        secret: randomBytes(32),
        basePort,
        listen,
        tls,
        forwarder(table, send) {
          const userspace = createUserspaceForwarder({ table, send, legLimit, clock: deps.clock });
          if (families === undefined) return userspace;
          const localAddress = async ({ via, source }: { via: string; source: { address: string } }) =>
            ANY.has(via) ? routedFrom(source.address) : via;
          return createKernelForwarder({
            nft,
            basePort,
            legLimit,
            families,
            tlsPort: run.tlsPort,
            userspace,
            localAddress,
            listen,
          });
        },
      },
      deps,
      signal,
    ),
  );
  const setGateways = relay.setGateways.bind(relay);
  if (run.gateways !== undefined) {
    await followFile(run.gateways, setGateways, deps, signal);
    ready();
  } else {
    const config = await clusterConfig(run.kubeconfig, deps);
    const client = stack.use(connect(config, { ...deps, userAgent: "fairlead-relay" }));
    const spec = {
      addresses: [...run.address],
      basePort,
      publicKey: publicKeyOf(privateKey),
      ...defined({ tlsPort: run.tlsPort }),
    };
    const hub = stack.use(createHubRelay({ client, name: run.name, spec, setGateways }, deps));
    // The hub may be away, or have no Fairlead yet. What the kernel forwards is forwarded all the same.
    ready();
    await hub.start(signal);
  }
  await untilAborted(signal);
}
