import { FleetError } from "@fairlead/base/errors.ts";
import { type Corefile, type CorefileBlock, parseCorefile, portOf, zoneOf } from "./corefile.ts";

/** The block that is ours in a Corefile: added, replaced, and taken away to the byte. Pure. */

export interface Stanza {
  readonly zone: string;
  /** Who answers for the zone. */
  readonly addresses: readonly string[];
}

const BEGIN = '# fairlead begin: written by "fairlead dns setup", which takes it away with --undo';
const END = "# fairlead end";

/**
 * The block between its marks, without a newline at the end.
 *
 * @param like The block whose port and addresses it listens on too.
 */
export function renderStanza({ zone, addresses }: Stanza, like: CorefileBlock | undefined): string {
  const port = portOf(like?.keys[0] ?? ".");
  const binds = (like?.directives ?? []).filter((it) => it.name === "bind");
  const lines = [
    "errors",
    // Only so long as the answers allow, which is seconds.
    "cache 30",
    ...binds.map((it) => ["bind", ...it.args].join(" ")),
    `forward . ${addresses.join(" ")}`,
  ];
  return [BEGIN, `${zone}:${port} {`, ...lines.map((it) => `    ${it}`), "}", END].join("\n");
}

/**
 * A Corefile with the stanza, in place of the one that it may have.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` for a file that is not understood, or has the zone by other means.
 */
export function withStanza(text: string, stanza: Stanza): string {
  const rest = withoutStanza(text);
  const parsed = parseCorefile(rest);
  const other = parsed.blocks.find((it) => it.keys.some((key) => zoneOf(key) === stanza.zone));
  if (other !== undefined)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `line ${other.line} of the Corefile has ${stanza.zone} already, and was not written by this command: take it away first`,
    );
  const rendered = renderStanza(stanza, serverOfPods(parsed));
  // What stood there without a last newline gets it before the block, so that it can be restored.
  return rest.endsWith("\n") || rest === "" ? `${rest}${rendered}\n` : `${rest}\n${rendered}`;
}

/** A Corefile as it was before `withStanza`. */
export function withoutStanza(text: string): string {
  const begin = text.indexOf(BEGIN);
  if (begin < 0) return text;
  const end = text.indexOf(END, begin);
  if (end < 0)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `the Corefile has "${BEGIN}" without its end: mend it by hand`,
    );
  const after = text.slice(end + END.length);
  if (after.startsWith("\n")) return text.slice(0, begin) + after.slice(1);
  return text.slice(0, begin).replace(/\n$/, "") + after;
}

/** The block that pods ask: the root's, else the one of the cluster's own names. */
function serverOfPods({ blocks }: Corefile): CorefileBlock | undefined {
  return (
    blocks.find((it) => it.keys.some((key) => zoneOf(key) === ".")) ??
    blocks.find((it) => it.directives.some((directive) => directive.name === "kubernetes"))
  );
}
