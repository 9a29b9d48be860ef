import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { IncomingMessage } from "node:http";
import { type AddressInfo, isIPv6, type Socket } from "node:net";
import { join } from "node:path";
import { type Clock, systemClock } from "#base/clock.ts";
import { type Logger, silentLogger } from "#base/log.ts";
import { type Rng, systemRng } from "#base/rng.ts";
import { type ClusterPki, ensureClientCertificate, ensureClusterPki } from "#pki/cluster.ts";
import { writeSecretFile } from "#pki/files.ts";
import type { CertificatePair } from "#pki/keys.ts";
import { renderKubeconfig } from "#pki/kubeconfig.ts";
import { Authenticator } from "./auth/authenticate.ts";
import { RbacAuthorizer } from "./auth/rbac.ts";
import { ServiceAccountTokens } from "./auth/tokens.ts";
import { builtins } from "./builtins.ts";
import { CrdLifecycle } from "./crd/lifecycle.ts";
import { isStream, RequestHandler } from "./http/handler.ts";
import { parsePath } from "./http/path.ts";
import { ResourceHandler } from "./http/resources.ts";
import { revisionAwaiter } from "./http/revisions.ts";
import { KubeletTunnel } from "./http/tunnel.ts";
import { VERSION } from "./http/version.ts";
import { Catalog } from "./registry/catalog.ts";
import { Registry } from "./registry/registry.ts";
import { noJournal } from "./storage/journal.ts";
import { openSqliteJournal } from "./storage/sqlite.ts";
import { Store } from "./storage/store.ts";
import { WatchHub } from "./watch/hub.ts";

export interface ApiServerOptions {
  /** Folder of the keys, the admin's kubeconfig and the journal. */
  readonly dataDir: string;
  /** Default: 0, any free port. */
  readonly port?: number;
  /** Default: 127.0.0.1. */
  readonly bindAddress?: string;
  /** Address under which clients in the cluster reach the server. Default: the bind address. */
  readonly advertiseAddress?: string;
  /** CIDRs of Service addresses, one per family at most; the first is the default family. */
  readonly serviceRanges?: readonly string[];
  /** Further names and addresses in the server's certificate. */
  readonly externalSans?: readonly string[];
  /** "none" forgets everything when the server stops. Default: "sqlite". */
  readonly journal?: "sqlite" | "none";
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
  /** Ends watches cleanly, commits what was accepted, and stops. */
  close(): Promise<void>;
}

/** The range that kubeadm takes, and an IPv6 one beside it. */
const DEFAULT_RANGES = ["10.96.0.0/16", "fd00:10:96::/112"];
/** How long requests that are being answered may go on once the server stops. Unit: milliseconds. */
const DRAIN_MS = 2000;

/** Starts an API server in this process. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { dataDir, clock = systemClock, rng = systemRng, log = silentLogger } = options;
  const bindAddress = options.bindAddress ?? "127.0.0.1";
  const advertiseAddress = options.advertiseAddress ?? bindAddress;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const pkiDir = join(dataDir, "pki");
  const pki = await ensureClusterPki(pkiDir, {
    serverSans: [advertiseAddress, ...(options.externalSans ?? [])],
    clock,
  });
  const admin = await ensureClientCertificate(pkiDir, pki.ca, {
    file: "admin",
    commonName: "kubernetes-admin",
    organizations: ["system:masters"],
    clock,
  });
  const journal = options.journal === "none" ? noJournal : openSqliteJournal(join(dataDir, "journal.db"));
  const store = new Store({ journal, clock });
  const core = composeCore({ store, pki, clock, rng, log });
  const server = serve(pki, core.handler);
  await listen(server, options.port ?? 0, bindAddress);
  const { port } = server.address() as AddressInfo;
  const url = `https://${hostOf(advertiseAddress)}:${port}`;
  const kubeconfig = join(dataDir, "admin.kubeconfig");
  await writeSecretFile(kubeconfig, renderKubeconfig({ server: url, ca: pki.ca.cert, ...admin }));
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= stop(server, core, store);
    return closing;
  };
  return {
    url,
    port,
    ca: pki.ca.cert,
    admin,
    kubeconfig,
    registry: core.registry,
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Core {
  readonly registry: Registry;
  readonly hub: WatchHub;
  readonly tunnel: KubeletTunnel;
  readonly handler: RequestHandler;
}

function composeCore(parts: { store: Store; pki: ClusterPki; clock: Clock; rng: Rng; log: Logger }): Core {
  const { store, pki, clock, rng, log } = parts;
  const authorizer = new RbacAuthorizer();
  const serviceAccountTokens = new ServiceAccountTokens({ privateKey: pki.serviceAccount.privateKey });
  const authenticator = new Authenticator({ authorizer, serviceAccountTokens });
  const { resources, reviews } = builtins();
  const catalog = new Catalog(resources, reviews);
  const registry = new Registry({ store, catalog, rng, newUid: randomUUID });
  const hub = new WatchHub(store);
  const tunnel = new KubeletTunnel(registry, pki.kubeletClient);
  const awaitRevision = revisionAwaiter(store, clock);
  registry.addFollowUp(
    new CrdLifecycle({ store, catalog, deleter: registry.deleter, endWatches: (table) => hub.endAll(table) }),
  );
  registry.replay();
  const handler = new RequestHandler({
    registry,
    tunnel,
    authenticator,
    authorizer,
    clock,
    log,
    version: VERSION,
    health: { checks: () => new Map([["ping", true]]) },
    resources: new ResourceHandler({ registry, store, hub, clock, rng, awaitRevision, tunnel }),
  });
  return { registry, hub, tunnel, handler };
}

function serve(pki: ClusterPki, handler: RequestHandler): Server {
  const server = createServer({
    cert: pki.apiserver.cert,
    key: pki.apiserver.key,
    ca: pki.ca.cert,
    // Whoever sends no certificate may still have a token; who sends a wrong one counts as having sent none.
    requestCert: true,
    rejectUnauthorized: false,
    minVersion: "TLSv1.2",
    // Watches last as long as they like; idle connections are the client's to close.
    keepAliveTimeout: 0,
    requestTimeout: 60_000,
    headersTimeout: 20_000,
    noDelay: true,
    shouldUpgradeCallback: isStreamRequest,
  });
  server.on("request", (request, response) => void handler.handle(request, response));
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    void handler.handleUpgrade(request, socket, head);
  });
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  server.on("clientError", (_error, socket) => socket.destroy());
  return server;
}

/** Any other request with an `Upgrade` header is answered as if it had none. */
function isStreamRequest(request: IncomingMessage): boolean {
  const target = parsePath((request.url ?? "/").split("?", 1)[0] ?? "/");
  return target.kind === "resource" && isStream(target.subresource);
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host, backlog: 1024 }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

async function stop(server: Server, core: Core, store: Store): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  core.hub.endAll();
  core.tunnel.close();
  server.closeIdleConnections();
  const force = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearTimeout(force);
  store.close();
}

function hostOf(address: string): string {
  return isIPv6(address) ? `[${address}]` : address;
}
