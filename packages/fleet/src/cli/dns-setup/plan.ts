import type { ConfigMap, Service } from "@fairlead/kube/api/core/v1/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { parseCorefile } from "./corefile.ts";
import { remedyFor, renderStanza, type Stanza, withoutStanza, withStanza } from "./stanza.ts";

/** Detects the DNS of a cluster and plans the changes. Pure. */

/** The objects that were found in kube-system. */
export interface DnsObjects {
  /** CoreDNS's own. */
  readonly coredns: ConfigMap | undefined;
  /** The additional files of CoreDNS, if the distribution provides for them. */
  readonly custom: ConfigMap | undefined;
  /** Of kube-dns. */
  readonly kubeDns: ConfigMap | undefined;
  /** Of the cache on each node. */
  readonly nodeLocal: ConfigMap | undefined;
  /** The Service that pods ask. */
  readonly service: Service | undefined;
}

export type Flavour = "coredns" | "coredns-custom" | "kube-dns";

/** One value of one ConfigMap, as it is and as it has to be; undefined: no such value. */
export interface Edit {
  readonly configMap: string;
  readonly key: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

export interface DnsPlan {
  readonly flavour: Flavour;
  /** None if the configuration is removed. */
  readonly zones: readonly string[];
  readonly edits: readonly Edit[];
  /** Whether the servers reload the change by themselves; otherwise they must be restarted. */
  readonly reloads: boolean;
  /** Remarks for the user. */
  readonly hints: readonly string[];
}

export const CUSTOM_CONFIG_MAP = "coredns-custom";
/** k3s and AKS import custom files with this suffix. */
const CUSTOM_KEY = "fairlead.server";

/**
 * @param stanza Undefined removes everything that this command wrote.
 * @throws {FleetError} `PRECONDITION_FAILED` when there is no DNS that is understood.
 */
export function planDns(objects: DnsObjects, stanza: Stanza | undefined): DnsPlan {
  const main = objects.coredns?.data?.["Corefile"];
  if (main === undefined) return planKubeDns(objects, stanza);
  const parsed = parseCorefile(withoutStanza(main));
  const isCustom = parsed.imports.some((it) => /\bcustom\/\*\.server$/.test(it));
  const own = isCustom ? customEdit(objects.custom, stanza) : corefileEdit("coredns", main, stanza);
  const edits = [own, ...nodeLocalEdits(objects, stanza)].filter((it) => it.before !== it.after);
  const reloads = parsed.blocks.some((block) => block.directives.some((it) => it.name === "reload"));
  const flavour = isCustom ? "coredns-custom" : "coredns";
  return { flavour, zones: stanza?.zones ?? [], edits, reloads, hints: hintsOf(objects) };
}

function corefileEdit(configMap: string, before: string, stanza: Stanza | undefined): Edit {
  const after = stanza === undefined ? withoutStanza(before) : withStanza(before, stanza);
  // Ours as well as theirs has to be understood by the servers.
  parseCorefile(after);
  return { configMap, key: "Corefile", before, after };
}

function customEdit(custom: ConfigMap | undefined, stanza: Stanza | undefined): Edit {
  const others = Object.entries(custom?.data ?? {}).filter(([key]) => key !== CUSTOM_KEY);
  for (const [key, text] of others) {
    if (stanza !== undefined && key.endsWith(".server")) withStanza(text, stanza);
  }
  return {
    configMap: CUSTOM_CONFIG_MAP,
    key: CUSTOM_KEY,
    before: custom?.data?.[CUSTOM_KEY],
    after: stanza === undefined ? undefined : `${renderStanza(stanza, undefined)}\n`,
  };
}

/** NodeLocal DNSCache forwards names outside the cluster domain past the cluster's DNS, so it needs the zone too. */
function nodeLocalEdits({ nodeLocal }: DnsObjects, stanza: Stanza | undefined): readonly Edit[] {
  const text = nodeLocal?.data?.["Corefile"];
  return text === undefined ? [] : [corefileEdit("node-local-dns", text, stanza)];
}

function planKubeDns({ kubeDns, service }: DnsObjects, stanza: Stanza | undefined): DnsPlan {
  if (kubeDns === undefined)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `kube-system has no ConfigMap "coredns" with a Corefile, nor one "kube-dns"${service === undefined ? ", nor a Service kube-dns" : ""}: ` +
        "add the zone to the cluster's DNS by hand",
    );
  const before = kubeDns.data?.["stubDomains"];
  const domains = parseDomains(before);
  const wanted = stubDomains(kubeDns, domains, stanza);
  const after = Object.keys(wanted).length === 0 ? undefined : JSON.stringify(wanted);
  const same = JSON.stringify(domains) === JSON.stringify(wanted);
  const edits = same ? [] : [{ configMap: "kube-dns", key: "stubDomains", before, after }];
  return { flavour: "kube-dns", zones: stanza?.zones ?? [], edits, reloads: true, hints: [] };
}

/** The domains of others, and those of the stanza. */
function stubDomains(kubeDns: ConfigMap, domains: Domains, stanza: Stanza | undefined): Domains {
  const others = Object.entries(domains).filter(([zone]) => !isOurs(kubeDns, zone));
  if (stanza === undefined) return Object.fromEntries(others);
  const foreign = stanza.zones.find((zone) => others.some(([other]) => other === zone));
  if (foreign === undefined)
    return Object.fromEntries([...others, ...stanza.zones.map((zone) => [zone, stanza.addresses] as const)]);
  throw new FleetError(
    "PRECONDITION_FAILED",
    `ConfigMap kube-dns already has ${foreign}, which is not managed by this command; ${remedyFor(foreign, stanza)}`,
  );
}

/** Annotation of a ConfigMap: the zones that are ours in it, apart by a comma. JSON has no room for a mark. */
export const ZONE_ANNOTATION = "fairlead.dev/dns-zone";

function isOurs(configMap: ConfigMap, zone: string): boolean {
  return configMap.metadata.annotations?.[ZONE_ANNOTATION]?.split(",").includes(zone) === true;
}

/** Servers by zone. */
type Domains = Readonly<Record<string, readonly string[]>>;

function parseDomains(text: string | undefined): Domains {
  if (text === undefined || text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value as Record<string, string[]>;
  } catch {
    // Said below.
  }
  throw new FleetError(
    "PRECONDITION_FAILED",
    "cannot edit stubDomains of ConfigMap kube-dns: not a JSON object; nothing was changed",
  );
}

function hintsOf({ coredns, service }: DnsObjects): readonly string[] {
  const labels = { ...coredns?.metadata.labels, ...service?.metadata.labels };
  return labels["eks.amazonaws.com/component"] === undefined
    ? []
    : [
        "CoreDNS is an add-on of EKS: an update of the add-on that overwrites conflicts removes the zone. Add the same " +
          "Corefile to the configuration of the add-on, or run this command again after each update",
      ];
}
