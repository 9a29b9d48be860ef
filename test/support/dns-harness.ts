import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import type { Message } from "@fairlead/dns/wire/types.ts";
import { RCODE } from "@fairlead/dns/wire/types.ts";
import { parseSocketAddress } from "@fairlead/dns/listen-address.ts";
import { createDnsMeters } from "@fairlead/dns/meters.ts";
import { createResolver, type Forward } from "@fairlead/dns/resolver.ts";
import { createResponder } from "@fairlead/dns/responder.ts";
import { type DnsServer, startDnsServer } from "@fairlead/dns/server.ts";
import type { RecordTree } from "@fairlead/dns/tree.ts";

/** What is asked, and the one right answer as text of a zone file. */
export interface DnsCase {
  /** "name type". */
  readonly ask: string;
  readonly rcode: keyof typeof RCODE;
  /** Lines "name ttl IN type data", in any order. Default: none. */
  readonly answer?: readonly string[];
  /** Default: the SOA record of the zone, when there is no answer. */
  readonly authority?: readonly string[];
}

export interface Said {
  readonly rcode: string;
  readonly answer: readonly string[];
  readonly authority: readonly string[];
}

/** Opens a server over `tree` on both loopback addresses. */
export function serve(
  tree: RecordTree,
  options: {
    readonly isReady?: () => boolean;
    readonly forwards?: readonly Forward[];
    readonly tcpIdleMs?: number;
    readonly maxTcpConnections?: number;
  } = {},
): Promise<DnsServer> {
  const { isReady = () => true, forwards = [], ...rest } = options;
  const meters = createDnsMeters(noMetrics);
  const resolve = createResolver({ tree, rng: seededRng(1), isReady, forwards });
  const respond = createResponder({ resolve, isRecursive: true, meters, log: silentLogger });
  const listen = ["127.0.0.1:0", "[::1]:0"].map(parseSocketAddress);
  return startDnsServer({ listen, respond, clock: systemClock, log: silentLogger, ...rest });
}

/** Whether a program is on this machine. */
export async function isInstalled(program: string): Promise<boolean> {
  return exec(program, ["-v"], { allowFailure: true, timeoutMs: 10_000 }).then(
    () => true,
    () => false,
  );
}

/** Asks all questions with one run of dig or kdig. */
export async function askWith(
  program: "dig" | "kdig",
  server: { readonly host: string; readonly port: number },
  questions: readonly string[],
  flags: readonly string[] = [],
): Promise<readonly Said[]> {
  const show = ["+noall", "+comments", "+header", "+answer", "+authority", "+tries=1", "+time=5"];
  const shown =
    program === "dig" ? show.filter((it) => it !== "+header") : show.filter((it) => it !== "+tries=1");
  const args = [`@${server.host}`, "-p", String(server.port), ...shown, ...flags];
  const { stdout } = await exec(program, [...args, ...questions.flatMap((it) => it.split(" "))], {
    allowFailure: true,
  });
  return stdout.split("->>HEADER<<-").slice(1).map(parseAnswer);
}

function parseAnswer(text: string): Said {
  return {
    rcode: /status: (?<rcode>[A-Z]+)/.exec(text)?.groups?.["rcode"] ?? "",
    answer: linesOf(text, "ANSWER"),
    authority: linesOf(text, "AUTHORITY"),
  };
}

function linesOf(text: string, section: string): string[] {
  const [, body = ""] = text.split(`;; ${section} SECTION:\n`);
  const [lines = ""] = body.split("\n\n");
  return lines
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith(";"))
    .map((line) => line.replaceAll(/\s+/g, " ").trim())
    .toSorted();
}

/** The same view of a message that we read ourselves. */
export function said(message: Message): Said {
  const rcode = Object.entries(RCODE).find(([, code]) => code === message.rcode)?.[0] ?? "";
  return {
    rcode,
    answer: message.answers.map(formatRecord).toSorted(),
    authority: message.authorities.map(formatRecord).toSorted(),
  };
}

export function expectedOf({ rcode, answer = [], authority = [] }: DnsCase): Said {
  return { rcode, answer: answer.toSorted(), authority: authority.toSorted() };
}

/** The CRD of MCS ServiceImports, with the fields that waiting programs read. */
export const SERVICE_IMPORT_CRD: CustomResourceDefinition = {
  metadata: { name: "serviceimports.multicluster.x-k8s.io" },
  spec: {
    group: "multicluster.x-k8s.io",
    scope: "Namespaced",
    names: {
      kind: "ServiceImport",
      listKind: "ServiceImportList",
      plural: "serviceimports",
      singular: "serviceimport",
    },
    versions: [],
  },
  status: {
    conditions: [
      {
        type: "Established",
        status: "True",
        reason: "InitialNamesAccepted",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
  },
};
