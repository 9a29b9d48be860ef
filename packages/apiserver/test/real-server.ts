import type { ChildProcess } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { start } from "@fairlead/base/exec.ts";
import { ensureClientCertificate, ensureClusterPki } from "@fairlead/base/pki/cluster.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { renderKubeconfig } from "@fairlead/base/pki/kubeconfig.ts";
import type { ApiServer, ApiServerOptions } from "#server.ts";
import { SERVICE_RANGES } from "./corpus/tokens.ts";
import { Target } from "./corpus/target.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";

/** A kube-apiserver and an etcd as envtest starts them: no controllers, RBAC; but with the ServiceAccount admission that clusters have. */
export interface RealServer extends AsyncDisposable {
  readonly port: number;
  /** PEM of the authority that signed the server's certificate and the admin's. */
  readonly ca: string;
  readonly admin: CertificatePair;
  /** Path of a kubeconfig with the admin's credentials. */
  readonly kubeconfig: string;
  readonly dir: string;
  /** Of etcd and the API server. */
  readonly pids: readonly number[];
}

export const NO_ASSETS =
  "KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd: fetch them with setup-envtest, or build them";

/** Directory of the binaries; undefined if not installed. */
export function realAssets(): string | undefined {
  const assets = process.env["KUBEBUILDER_ASSETS"] ?? "";
  const isComplete = ["kube-apiserver", "etcd"].every((it) => existsSync(join(assets, it)));
  return assets !== "" && isComplete ? assets : undefined;
}

/** Whether real servers can have controllers, which those of envtest do not bring. */
export function hasRealControllers(): boolean {
  return existsSync(join(realAssets() ?? "", "kube-controller-manager"));
}

/** Longest that the server may take until it is ready. Unit: milliseconds. */
const START_TIMEOUT = 120_000;
const BETWEEN_TRIES = 250;

/** Of the options of an embedded server, those that a real one has as well. */
export type RealServerOptions = Pick<ApiServerOptions, "serviceRanges"> & {
  /** The users by their tokens. */
  readonly tokens?: ReadonlyMap<string, { readonly name: string; readonly groups?: readonly string[] }>;
  /** Runs what an embedded server does by itself (garbage collector, deletion of namespaces), if the folder has kube-controller-manager. */
  readonly hasControllers?: boolean;
};

/** Set to "real" by `npm run test:real`: what is tested then is the kube-apiserver that KUBEBUILDER_ASSETS names. */
export const IS_REAL = process.env["TEST_API_SERVER"] === "real";

/** A real server in place of an embedded one. */
export async function startRealApiServer(options: RealServerOptions): Promise<ApiServer> {
  return asApiServer(await startRealServer({ hasControllers: true, ...options }));
}

/** Starts both, and resolves when the server is ready. Both end with the handle. */
export async function startRealServer(options: RealServerOptions = {}): Promise<RealServer> {
  const assets = realAssets();
  if (assets === undefined) throw new Error(NO_ASSETS);
  await using stack = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "kube-apiserver-"));
  stack.defer(() => rm(dir, { recursive: true, force: true }));
  const pkiDir = join(dir, "pki");
  const pki = await ensureClusterPki(pkiDir);
  const admin = await ensureClientCertificate(pkiDir, pki.ca, {
    file: "admin",
    commonName: "kubernetes-admin",
    organizations: ["system:masters"],
  });
  const [port, clients, peers] = [await freePort(), await freePort(), await freePort()];
  const etcd = run(stack, join(assets, "etcd"), etcdFlags(dir, clients, peers), dir);
  const flags = [...apiserverFlags(pkiDir, port, clients), ...(await flagsOf(options, dir))];
  const apiserver = run(stack, join(assets, "kube-apiserver"), flags, dir);
  const server = `https://127.0.0.1:${port}`;
  const kubeconfig = join(dir, "admin.kubeconfig");
  await writeFile(kubeconfig, renderKubeconfig({ server, ca: pki.ca.cert, ...admin }), { mode: 0o600 });
  await untilReady(kubeconfig, [etcd, apiserver], dir);
  if (options.hasControllers === true && hasRealControllers())
    run(stack, join(assets, "kube-controller-manager"), controllerFlags(kubeconfig, pkiDir), dir);
  const pids = [etcd, apiserver].map((it) => it.pid ?? 0);
  return handle(stack.move(), { port, ca: pki.ca.cert, admin, kubeconfig, dir, pids });
}

function handle(running: AsyncDisposableStack, of: Omit<RealServer, typeof Symbol.asyncDispose>): RealServer {
  return { ...of, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

function etcdFlags(dir: string, clients: number, peers: number): readonly string[] {
  const [url, peerUrl] = [`http://127.0.0.1:${clients}`, `http://127.0.0.1:${peers}`];
  return [
    `--data-dir=${join(dir, "etcd")}`,
    "--unsafe-no-fsync",
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peerUrl}`,
  ];
}

function apiserverFlags(pkiDir: string, port: number, etcdPort: number): readonly string[] {
  const file = (name: string): string => join(pkiDir, name);
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${port}`,
    `--tls-cert-file=${file("apiserver.crt")}`,
    `--tls-private-key-file=${file("apiserver.key")}`,
    `--client-ca-file=${file("ca.crt")}`,
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${file("sa.pub")}`,
    `--service-account-signing-key-file=${file("sa.key")}`,
    "--authorization-mode=RBAC",
    "--enable-bootstrap-token-auth",
    "--allow-privileged",
  ];
}

async function flagsOf(
  { serviceRanges = SERVICE_RANGES, tokens = new Map() }: RealServerOptions,
  dir: string,
): Promise<readonly string[]> {
  const file = join(dir, "tokens.csv");
  const lines = [...tokens].map(
    ([token, { name, groups = [] }], uid) => `${token},${name},${uid},"${groups.join(",")}"\n`,
  );
  await writeFile(file, lines.join(""), { mode: 0o600 });
  return [
    `--service-cluster-ip-range=${serviceRanges.join(",")}`,
    ...(lines.length === 0 ? [] : [`--token-auth-file=${file}`]),
  ];
}

function controllerFlags(kubeconfig: string, pkiDir: string): readonly string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,validatingadmissionpolicy-status-controller",
    `--root-ca-file=${join(pkiDir, "ca.crt")}`,
    "--leader-elect=false",
    "--secure-port=0",
  ];
}

/** A real server as tests know embedded ones; it has no registry to look into. */
export function asApiServer(real: RealServer): ApiServer {
  return {
    ...real,
    url: `https://127.0.0.1:${real.port}`,
    get registry(): never {
      throw new Error("a real server does not let tests look into it");
    },
    close: async () => real[Symbol.asyncDispose](),
  };
}

function run(
  stack: AsyncDisposableStack,
  program: string,
  flags: readonly string[],
  dir: string,
): ChildProcess {
  const log = openSync(join(dir, "log"), "a");
  const child = start(program, flags, { stdio: ["ignore", log, log], cwd: dir });
  closeSync(log);
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  stack.defer(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return child;
}

async function untilReady(kubeconfig: string, children: readonly ChildProcess[], dir: string): Promise<void> {
  using target = await Target.fromKubeconfig(kubeconfig);
  const deadline = Date.now() + START_TIMEOUT;
  while (!(await isReady(target))) {
    if (Date.now() > deadline || children.some((it) => it.exitCode !== null)) {
      const said = await readFile(join(dir, "log"), "utf8");
      throw new Error(`kube-apiserver does not become ready:\n${said.slice(-2000)}`);
    }
    await delay(BETWEEN_TRIES);
  }
}

async function isReady(target: Target): Promise<boolean> {
  try {
    const answer = await target.open({ method: "GET", path: "/readyz", headers: {} });
    answer.resume();
    return answer.statusCode === 200;
  } catch {
    return false;
  }
}
