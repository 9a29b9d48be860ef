import { defined } from "@fairlead/base/defined.ts";
import { parseWhole, PORTS } from "@fairlead/base/program/flags.ts";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "@commander-js/extra-typings";
import { startApiServer } from "#server.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { authenticationOf } from "#program/access.ts";
import { certificateOf, parseAddress, parsePlugins, readFlagFile, splitList } from "#program/parse.ts";
import { levelOf } from "@fairlead/base/program/go-command.ts";
import { runProgram } from "@fairlead/base/program/program.ts";
import type { EtcdHealth } from "./etcd.ts";
import { readGoFlags } from "./go-flags.ts";

/** Flags of the real server that make no difference here: what they ask for holds in any case, or has no counterpart. */
const IGNORED: ReadonlySet<string> = new Set([
  "allow-privileged",
  "authorization-mode",
  "etcd-servers",
  "service-account-key-file",
  "service-account-signing-key-file",
  "insecure-port",
  "insecure-bind-address",
  "v",
]);

const KNOWN: ReadonlySet<string> = new Set([
  "advertise-address",
  "anonymous-auth",
  "bind-address",
  "cert-dir",
  "client-ca-file",
  "disable-admission-plugins",
  "enable-bootstrap-token-auth",
  "api-audiences",
  "secure-port",
  "service-account-issuer",
  "service-cluster-ip-range",
  "tls-cert-file",
  "tls-private-key-file",
  "token-auth-file",
]);

/** How long etcd may take to say where the journal is. Unit: milliseconds. */
const ETCD_TIMEOUT = 5000;

/** `kube-apiserver`, as envtest starts it: the API server of this program, by the flags of the real one. */
export function command(): Pick<Command, "parseAsync"> {
  return new Command("kube-apiserver")
    .description("serve the Kubernetes API with the flags of kube-apiserver, for envtest")
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText(
      "after",
      "\nFlags: those of kube-apiserver; docs/envtest.md lists those that have an effect.",
    )
    .action(async (_options, self) => {
      const flags = readGoFlags(self.args);
      const logLevel = levelOf(Number(flags.get("v") ?? "0") || 0);
      await runProgram("kube-apiserver", { logLevel }, async ({ signal, log }) => {
        reportIgnored(flags, log);
        await using folder = await dataFolder(flags.get("etcd-servers"));
        await using server = await startApiServer({ ...optionsOf(flags), dataDir: folder.path, log });
        log.info("serving", { url: server.url });
        await untilAborted(signal);
      });
    });
}

function optionsOf(
  flags: ReadonlyMap<string, string>,
): Omit<Parameters<typeof startApiServer>[0], "dataDir"> {
  const read = <T>(name: string, parse: (text: string) => T): T | undefined => {
    const text = flags.get(name);
    return text === undefined ? undefined : parse(text);
  };
  const certDir = flags.get("cert-dir");
  const inDir = (file: string): string | undefined => {
    const path = certDir === undefined ? undefined : join(certDir, file);
    return path !== undefined && existsSync(path) ? path : undefined;
  };
  const certFile = flags.get("tls-cert-file") ?? inDir("apiserver.crt");
  const keyFile = flags.get("tls-private-key-file") ?? inDir("apiserver.key");
  const certificate = certificateOf(certFile, keyFile);
  const clientCa = readFlagFile("--client-ca-file", flags.get("client-ca-file"));
  const address = read("advertise-address", parseAddress);
  const ranges = read("service-cluster-ip-range", splitList);
  const plugins = read("disable-admission-plugins", parsePlugins);
  return {
    port: read("secure-port", (text) => parseWhole("--secure-port", text, PORTS)) ?? 6443,
    // The real one listens everywhere by default; this one is for tests on one machine.
    bindAddress: read("bind-address", parseAddress) ?? "127.0.0.1",
    authentication: authenticationOf({
      tokenAuthFile: flags.get("token-auth-file"),
      enableBootstrapTokenAuth: flags.get("enable-bootstrap-token-auth") === "true",
      anonymousAuth: flags.get("anonymous-auth") ?? "true",
      serviceAccountIssuer: flags.get("service-account-issuer"),
      apiAudiences: read("api-audiences", splitList),
      oidcRequiredClaim: [],
    }),
    ...defined({
      servingCertificate: certificate,
      clientCa,
      advertiseAddress: address,
      serviceRanges: ranges,
      disabledAdmissionPlugins: plugins,
    }),
  };
}

function reportIgnored(flags: ReadonlyMap<string, string>, log: Logger): void {
  const ignored = [...flags.keys()].filter((it) => !KNOWN.has(it) && !IGNORED.has(it));
  if (ignored.length > 0) log.warn("ignoring flags that have no effect", { flags: ignored });
}

/** The folder that the `etcd` of this program holds; else one that goes with the server. */
async function dataFolder(
  etcdServers: string | undefined,
): Promise<AsyncDisposable & { readonly path: string }> {
  const [etcd = ""] = etcdServers?.split(",") ?? [];
  const held = etcd === "" ? undefined : await folderOfEtcd(etcd);
  if (held !== undefined) return { path: held, [Symbol.asyncDispose]: () => Promise.resolve() };
  const path = mkdtempSync(join(tmpdir(), "fairlead-kube-apiserver-"));
  return {
    path,
    [Symbol.asyncDispose]: () => Promise.resolve(rmSync(path, { recursive: true, force: true })),
  };
}

/** Undefined where a real etcd answers, or nothing does: this server does not need it. */
async function folderOfEtcd(url: string): Promise<string | undefined> {
  try {
    const answer = await fetch(new URL("/health", url), { signal: AbortSignal.timeout(ETCD_TIMEOUT) });
    const { fairleadDataDir } = (await answer.json()) as Partial<EtcdHealth>;
    return typeof fairleadDataDir === "string" ? fairleadDataDir : undefined;
  } catch {
    return undefined;
  }
}
