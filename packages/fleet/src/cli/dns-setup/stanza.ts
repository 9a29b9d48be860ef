import { FleetError } from "@fairlead/base/errors.ts";
import { type Corefile, type CorefileBlock, parseCorefile, portOf, zoneOf } from "./corefile.ts";

/** Adds, replaces and removes the block that this command manages in a Corefile; the rest stays byte for byte. Pure. */

export interface Stanza {
  /** The first is that of KEP-1645. */
  readonly zones: readonly [string, ...string[]];
  /** The DNS servers of the zones. */
  readonly addresses: readonly string[];
}

/** Identifies the block. The rest of the line may differ between versions. */
const MARK = "# fairlead begin";
const BEGIN = `${MARK}: managed by "fairlead dns setup"; remove with "fairlead dns setup --undo"`;
const END = "# fairlead end";

/**
 * The block between its marks, without a newline at the end.
 *
 * @param like The block whose port and addresses it listens on too.
 */
export function renderStanza({ zones, addresses }: Stanza, like: CorefileBlock | undefined): string {
  const port = portOf(like?.keys[0] ?? ".");
  const binds = (like?.directives ?? []).filter((it) => it.name === "bind");
  const lines = [
    "errors",
    // Only so long as the answers allow, which is seconds.
    "cache 30",
    ...binds.map((it) => ["bind", ...it.args].join(" ")),
    `forward . ${addresses.join(" ")}`,
  ];
  return [
    BEGIN,
    `${zones.map((it) => `${it}:${port}`).join(" ")} {`,
    ...lines.map((it) => `    ${it}`),
    "}",
    END,
  ].join("\n");
}

/**
 * A Corefile with the stanza, which replaces an existing one.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` for a file that is not understood, or has the zone by other means.
 */
export function withStanza(text: string, stanza: Stanza): string {
  const rest = withoutStanza(text);
  const parsed = parseCorefile(rest);
  for (const zone of stanza.zones) {
    const other = parsed.blocks.find((it) => it.keys.some((key) => zoneOf(key) === zone));
    if (other !== undefined)
      throw new FleetError(
        "PRECONDITION_FAILED",
        `line ${other.line} of the Corefile already has ${zone}, which is not managed by this command; ${remedyFor(zone, stanza)}`,
      );
  }
  const rendered = renderStanza(stanza, serverOfPods(parsed));
  // A file without a final newline gets one before the block, so that it can be restored.
  return rest.endsWith("\n") || rest === "" ? `${rest}${rendered}\n` : `${rest}\n${rendered}`;
}

/** Returns how to resolve the conflict with an unmanaged block of a zone. */
export function remedyFor(zone: string, { zones }: Stanza): string {
  return zone === zones[0] ? "remove it first" : "remove it first, or leave the zone out by a flag";
}

/** A Corefile as it was before `withStanza`. */
export function withoutStanza(text: string): string {
  const begin = text.indexOf(MARK);
  if (begin < 0) return text;
  const end = text.indexOf(END, begin);
  if (end < 0)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `cannot edit the Corefile: "${MARK}" has no matching "${END}"; repair it by hand`,
    );
  const after = text.slice(end + END.length);
  if (after.startsWith("\n")) return text.slice(0, begin) + after.slice(1);
  return text.slice(0, begin).replace(/\n$/, "") + after;
}

/** The block that answers pods: that of the root zone, else that of the cluster domain. */
function serverOfPods({ blocks }: Corefile): CorefileBlock | undefined {
  return (
    blocks.find((it) => it.keys.some((key) => zoneOf(key) === ".")) ??
    blocks.find((it) => it.directives.some((directive) => directive.name === "kubernetes"))
  );
}
