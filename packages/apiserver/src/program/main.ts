import { defined } from "@fairlead/base/defined.ts";
import { Command, Option } from "@commander-js/extra-typings";
import { MINORS } from "#schema/releases.ts";
import { startApiServer } from "#server.ts";
import { CLOCK_OFFSET_FLAG, skewedClock } from "@fairlead/base/program/clock-offset.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { collect, parseWhole, PORTS } from "@fairlead/base/program/flags.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { auditTo, authenticationOf } from "./access.ts";
import {
  makeFolder,
  parseAddress,
  certificateOf,
  parsePlugins,
  parseSeconds,
  readFlagFile,
  splitList,
} from "./parse.ts";

const whole =
  (flag: string, range?: { readonly min: number; readonly max: number }) =>
  (text: string): number =>
    parseWhole(flag, text, range);

/** `fairlead apiserver`: the embedded Kubernetes API server as a program of its own. */
export function command(): Command {
  const program = new Command("apiserver")
    .description("serve the Kubernetes API from this machine")
    .requiredOption("--data <folder>", "keys, the admin's kubeconfig (admin.kubeconfig) and the journal")
    .option("--port <number>", "TCP port; 0: any free port", whole("--port", PORTS), 6443)
    .option("--bind-address <address>", "address to listen on", parseAddress, "127.0.0.1")
    .option(
      "--advertise-address <address>",
      "address under which the cluster reaches the server",
      parseAddress,
    )
    .option(
      "--service-cluster-ip-range <cidrs>",
      "ranges of Service addresses: IPv4, IPv6 or both",
      splitList,
    )
    .option("--tls-cert-file <file>", "serving certificate with its chain; default: issued by the server")
    .option("--tls-private-key-file <file>", "key of the serving certificate")
    .option("--client-ca-file <file>", "further authorities of client certificates")
    .option(
      "--disable-admission-plugins <list>",
      "admission plugins to disable, such as ServiceAccount",
      parsePlugins,
    )
    .option("--external-san <name>", "further name or address in the certificate; repeatable", collect, [])
    .option("--token-auth-file <file>", 'bearer tokens: CSV of token, user, uid and "group,group"')
    .option(
      "--enable-bootstrap-token-auth",
      "accept bootstrap tokens: Secrets bootstrap-token-<id> in kube-system",
      false,
    )
    .addOption(
      new Option("--anonymous-auth <true|false>", "accept requests without credentials as system:anonymous")
        .choices(["true", "false"])
        .default("true"),
    )
    .option("--service-account-issuer <url>", "issuer of ServiceAccount tokens")
    .option("--service-account-jwks-uri <url>", "published URL of the keys of ServiceAccount tokens")
    .option("--api-audiences <list>", "audiences of tokens for this server", splitList)
    .option("--oidc-issuer-url <url>", "OpenID Connect issuer whose identity tokens are accepted")
    .option("--oidc-client-id <id>", "audience that these tokens must have")
    .option("--oidc-username-claim <claim>", "claim with the user's name; default: sub")
    .option(
      "--oidc-username-prefix <prefix>",
      'prefix of user names; default: the issuer and "#"; "-": no prefix',
    )
    .option("--oidc-groups-claim <claim>", "claim with the groups")
    .option("--oidc-groups-prefix <prefix>", "prefix of group names")
    .option("--oidc-required-claim <key=value>", "claim that tokens must have; repeatable", collect, [])
    .option("--oidc-signing-algs <list>", "accepted signature algorithms; default: RS256", splitList)
    .option("--oidc-ca-file <file>", "authority of the issuer's certificate; default: those of the system")
    .option("--audit-log-path <file>", "file of the audit log, at level Metadata; -: standard output")
    .option("--audit-policy-file <file>", "audit policy; default: log every request at level Metadata")
    .option(
      "--audit-log-maxsize <megabytes>",
      "size at which the audit log is rotated",
      whole("--audit-log-maxsize"),
      100,
    )
    .option(
      "--audit-log-maxbackup <number>",
      "number of rotated files to keep",
      whole("--audit-log-maxbackup"),
      10,
    )
    .option(
      "--max-requests-inflight <number>",
      "limit of concurrent read requests",
      whole("--max-requests-inflight"),
      400,
    )
    .option(
      "--max-mutating-requests-inflight <number>",
      "limit of concurrent write requests",
      whole("--max-mutating-requests-inflight"),
      200,
    )
    .option("--max-watches <number>", "limit of concurrent watches", whole("--max-watches"), 20_000)
    .option(
      "--max-watches-per-user <number>",
      "limit of concurrent watches per user",
      whole("--max-watches-per-user"),
      5000,
    )
    .addOption(
      new Option("--request-timeout <seconds>", "time limit of a request")
        .argParser(parseSeconds)
        .default(60_000, "60"),
    )
    .option(
      "--shutdown-delay-duration <seconds>",
      "time to keep serving after readiness turns false",
      parseSeconds,
      0,
    )
    .option(
      "--kubelet-certificate-authority <file>",
      "authority of kubelets' certificates; default: not checked",
    )
    .addOption(
      new Option("--journal <kind>", "storage of changes; none: memory only")
        .choices(["sqlite", "none"])
        .default("sqlite"),
    )
    .option(
      "--accept-damaged-journal",
      "start with a journal that has lost writes, without its unreadable objects",
      false,
    )
    .addOption(
      new Option("--kubernetes-version <version>", "release of Kubernetes whose kinds and fields are served")
        .choices(MINORS)
        .default(MINORS[0]),
    )
    .addOption(new Option(CLOCK_OFFSET_FLAG).hideHelp())
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG);
  return program.action((flags) =>
    runProgram("apiserver", flags, async ({ signal, log, ready }) => {
      makeFolder(flags.data);
      using audit = auditTo(flags, log);
      const servingCertificate = certificateOf(flags.tlsCertFile, flags.tlsPrivateKeyFile);
      const clientCa = readFlagFile("--client-ca-file", flags.clientCaFile);
      const kubeletCa = readFlagFile("--kubelet-certificate-authority", flags.kubeletCertificateAuthority);
      await using server = await startApiServer({
        dataDir: flags.data,
        port: flags.port,
        bindAddress: flags.bindAddress,
        journal: flags.journal === "none" ? "none" : "sqlite",
        acceptDamagedJournal: flags.acceptDamagedJournal,
        release: flags.kubernetesVersion,
        externalSans: flags.externalSan,
        authentication: authenticationOf(flags),
        limits: {
          maxRequestsInflight: flags.maxRequestsInflight,
          maxMutatingRequestsInflight: flags.maxMutatingRequestsInflight,
          maxWatches: flags.maxWatches,
          maxWatchesPerUser: flags.maxWatchesPerUser,
          requestTimeoutMs: flags.requestTimeout,
        },
        shutdownDelayMs: flags.shutdownDelayDuration,
        clock: skewedClock(flags.clockOffset),
        log,
        ...(audit === undefined ? {} : { audit: audit.options }),
        ...defined({ kubeletCa, servingCertificate, clientCa }),
        ...(flags.disableAdmissionPlugins === undefined
          ? {}
          : { disabledAdmissionPlugins: flags.disableAdmissionPlugins }),
        ...(flags.advertiseAddress === undefined ? {} : { advertiseAddress: flags.advertiseAddress }),
        ...(flags.serviceClusterIpRange === undefined ? {} : { serviceRanges: flags.serviceClusterIpRange }),
      });
      log.info("serving", { url: server.url });
      ready();
      await untilAborted(signal);
    }),
  );
}
