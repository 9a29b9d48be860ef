/**
 * Reads a command line of a Go program whose flags are not all known here: `--name=value`, `--name value` and `--name`. The last value of
 * a flag counts; one without a value reads as "true".
 */
export function readGoFlags(argv: readonly string[]): ReadonlyMap<string, string> {
  const flags = new Map<string, string>();
  for (let at = 0; at < argv.length; at++) {
    const text = argv[at] ?? "";
    if (!text.startsWith("-")) continue;
    const flag = text.startsWith("--") ? text.slice(2) : text.slice(1);
    const equals = flag.indexOf("=");
    if (equals >= 0) flags.set(flag.slice(0, equals), flag.slice(equals + 1));
    else {
      const next = argv[at + 1];
      const hasValue = next !== undefined && !next.startsWith("-");
      flags.set(flag, hasValue ? next : "true");
      if (hasValue) at += 1;
    }
  }
  return flags;
}
