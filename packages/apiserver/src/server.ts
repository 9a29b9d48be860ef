import { mkdir, stat } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { join } from "node:path";
import { type Clock, delay, systemClock } from "@fairlead/base/clock.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { createProcessMetrics } from "@fairlead/base/process-metrics.ts";
import { type Rng, systemRng } from "@fairlead/base/rng.ts";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { hostRange } from "@fairlead/base/netaddr/allocator.ts";
import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { type ClusterPki, ensureClientCertificate, ensureClusterPki } from "@fairlead/base/pki/cluster.ts";
import { writeSecretFile } from "@fairlead/base/pki/files.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { renderKubeconfig } from "@fairlead/base/pki/kubeconfig.ts";
import type { ServiceResolver } from "#admission/webhook/resolver.ts";
import type { AuditOptions } from "#audit/log.ts";
import type { AuthenticationOptions } from "#auth/options.ts";
import { bootstrap } from "./bootstrap.ts";
import { composeCore } from "./core.ts";
import type { LoadLimits } from "#http/load.ts";
import { Listener } from "#http/listener.ts";
import { createServerMeters } from "#http/meters.ts";
import type { Minor } from "#schema/releases.ts";
import { lockFolder } from "#storage/lock.ts";
import type { Registry } from "#registry/registry.ts";
import { type Journal, noJournal } from "#storage/journal.ts";
import { openSqliteJournal } from "#storage/sqlite.ts";
import { Store } from "#storage/store.ts";

export interface ApiServerOptions {
  /** Folder of the keys (pki/), the admin's kubeconfig and the journal. */
  readonly dataDir: string;
  /** Default: 0, any free port. */
  readonly port?: number;
  /** Default: 127.0.0.1. */
  readonly bindAddress?: string;
  /** Address under which the cluster reaches the server. Default: the bind address, or 127.0.0.1 where that is all. */
  readonly advertiseAddress?: string;
  /** CIDRs of Service addresses, one per family at most; the first is the default family. */
  readonly serviceRanges?: readonly string[];
  /** Where the Services of webhooks are reached from here. Default: at a ready endpoint, or at their address. */
  readonly resolveService?: ServiceResolver;
  /** Further names and addresses in the server's certificate. */
  readonly externalSans?: readonly string[];
  /** The server's certificate, with its chain, where it is not to make one. PEM. */
  readonly servingCertificate?: CertificatePair;
  /** PEM of further authorities of client certificates. */
  readonly clientCa?: string;
  /** Admission plugins that are off, by the names that the real server has for them. */
  readonly disabledAdmissionPlugins?: readonly string[];
  /** Authentication methods in addition to client certificates and ServiceAccount tokens. */
  readonly authentication?: AuthenticationOptions;
  /** How much is served at once, and for how long. */
  readonly limits?: LoadLimits;
  /** Where to write the audit log, line by line. Default: no audit log. */
  readonly audit?: AuditOptions;
  /** PEM of the authority of kubelets' serving certificates. Default: these are not checked. */
  readonly kubeletCa?: string;
  /** How long the server serves on, not ready any more, before it stops. Unit: milliseconds. Default: 0. */
  readonly shutdownDelayMs?: number;
  /** "none" forgets everything when the server stops. Default: "sqlite". */
  readonly journal?: "sqlite" | "none";
  /** Whether to start with a journal that has lost writes, without its unreadable objects. Default: false. */
  readonly acceptDamagedJournal?: boolean;
  /** The release of Kubernetes whose fields are served. Default: the newest, 1.36. */
  readonly release?: Minor;
  readonly clock?: Clock;
  readonly rng?: Rng;
  readonly log?: Logger;
}

export interface ApiServer extends AsyncDisposable {
  /** For example https://127.0.0.1:6443. */
  readonly url: string;
  readonly port: number;
  /** PEM of the authority that signed the server's certificate. */
  readonly ca: string;
  /** Client certificate of a member of system:masters. */
  readonly admin: CertificatePair;
  /** Path of a kubeconfig with the admin's credentials. */
  readonly kubeconfig: string;
  readonly registry: Registry;
  /** Is no longer ready, refuses what is new, ends watches and streams, answers what is under way, and stops. */
  close(): Promise<void>;
}

/** The range that kubeadm uses, and an IPv6 range. */
const DEFAULT_RANGES = ["10.96.0.0/16", "fd00:10:96::/112"];
const WILDCARDS = new Set(["0.0.0.0", "::"]);

/**
 * Starts an API server in this process. What an earlier one acknowledged in the same folder is there again.
 *
 * @throws {FleetError} `OPTION_INVALID` when another server uses the folder, or the address cannot be listened on.
 */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { dataDir, clock = systemClock, rng = systemRng, log = silentLogger } = options;
  const host = options.bindAddress ?? "127.0.0.1";
  const advertiseAddress = options.advertiseAddress ?? (WILDCARDS.has(host) ? "127.0.0.1" : host);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await warnOfOpenFolder(dataDir, log);
  await using stack = new AsyncDisposableStack();
  stack.use(lockFolder(dataDir));
  const metrics = createMetrics();
  stack.use(createProcessMetrics(metrics));
  const meters = createServerMeters(metrics);
  const serviceRanges = options.serviceRanges ?? DEFAULT_RANGES;
  const sans = [advertiseAddress, ...firstAddresses(serviceRanges), ...(options.externalSans ?? [])];
  // TLS goes by the machine's time, whatever clock the server has.
  const { pki, admin } = await ensureKeys(dataDir, sans);
  const { certificate, clientCa, ca } = trustOf(options, pki);
  const store = new Store({ journal: openJournal(options, log), clock });
  stack.defer(() => store.close());
  const core = composeCore({
    store,
    pki,
    serviceRanges,
    resolveService: options.resolveService,
    authentication: options.authentication,
    limits: options.limits,
    audit: options.audit,
    disabledAdmissionPlugins: options.disabledAdmissionPlugins,
    kubeletCa: options.kubeletCa,
    release: options.release,
    clock,
    rng,
    log,
    metrics,
    meters,
  });
  const { handler, registry, allocations } = core;
  const listener = new Listener({
    certificate,
    clientCa,
    handler,
    port: options.port ?? 0,
    host,
    clock,
    log,
    meters,
  });
  // Watches end first: the listener waits for the answers that are under way.
  stack.use(listener);
  stack.use(core);
  // From the last line up: nothing new is taken from the moment on in which watches end.
  stack.defer(() => {
    handler.stop();
    listener.stop();
  });
  const port = await listener.listen();
  await bootstrap(registry, { allocations, advertiseAddress, port, clientCa });
  const url = `https://${isIPv6(advertiseAddress) ? `[${advertiseAddress}]` : advertiseAddress}:${port}`;
  const kubeconfig = join(dataDir, "admin.kubeconfig");
  // By the port, so that the files of several servers on a machine can be read together.
  const [cluster, user] = [`fairlead-${port}`, `fairlead-${port}-admin`];
  await writeSecretFile(
    kubeconfig,
    renderKubeconfig({ server: url, ca, cluster, user, context: cluster, ...admin }),
  );
  core.markReady();
  const running = stack.move();
  let closing: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    core.announceStop();
    await pause(clock, options.shutdownDelayMs ?? 0);
    await running.disposeAsync();
  };
  const close = (): Promise<void> => (closing ??= stop());
  return { url, port, ca, admin, kubeconfig, registry, close, [Symbol.asyncDispose]: close };
}

function openJournal({ dataDir, journal, acceptDamagedJournal }: ApiServerOptions, log: Logger): Journal {
  if (journal === "none") return noJournal;
  const acceptsDamage = acceptDamagedJournal ?? false;
  return openSqliteJournal(join(dataDir, "journal.db"), { acceptsDamage, log });
}

/** The files in it are readable for their owner only, but a user who may write to the folder can replace them. */
async function warnOfOpenFolder(dataDir: string, log: Logger): Promise<void> {
  const { mode } = await stat(dataDir);
  const open = mode & 0o077;
  if (open === 0) return;
  const how = (open & 0o022) === 0 ? "read" : "changed";
  log.warn(`the data folder can be ${how} by other users of this machine; run chmod 700`, {
    folder: dataDir,
  });
}

function pause(clock: Clock, delayMs: number): Promise<void> {
  return delayMs === 0 ? Promise.resolve() : delay(clock, delayMs, new AbortController().signal);
}

/** The addresses of the Service "kubernetes", by which pods reach the server. Invalid ranges are rejected elsewhere. */
function firstAddresses(serviceRanges: readonly string[]): readonly string[] {
  return serviceRanges.flatMap((range) => {
    const prefix = tryParsePrefix(range);
    return prefix === undefined ? [] : [formatAddress(hostRange(prefix).first)];
  });
}

interface Trust {
  readonly certificate: CertificatePair;
  /** PEM of each authority of client certificates. */
  readonly clientCa: readonly string[];
  /** The authority by which clients verify the server. An external certificate is its own authority: Go's clients, including kubectl, trust it. */
  readonly ca: string;
}

function trustOf({ servingCertificate, clientCa }: ApiServerOptions, { apiserver, ca }: ClusterPki): Trust {
  return {
    certificate: servingCertificate ?? apiserver,
    clientCa: clientCa === undefined ? [ca.cert] : [ca.cert, clientCa],
    ca: servingCertificate?.cert ?? ca.cert,
  };
}

async function ensureKeys(
  dataDir: string,
  serverSans: readonly string[],
): Promise<{ pki: ClusterPki; admin: CertificatePair }> {
  const dir = join(dataDir, "pki");
  const pki = await ensureClusterPki(dir, { serverSans });
  const admin = await ensureClientCertificate(dir, pki.ca, {
    file: "admin",
    commonName: "kubernetes-admin",
    organizations: ["system:masters"],
  });
  return { pki, admin };
}
