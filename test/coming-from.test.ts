import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = readFileSync(join(root, "docs/reference/fleet-networking.md"), "utf8");
const LINK = /\[([^\]]+)\]\(\.\.\/\.\.\/([^)]+\.test\.ts)\)/g;

/** Lines of tables, by what their first column begins with. */
const rows = page
  .split("\n")
  .map((line) => /^\| ([A-C]?\d+)\b/.exec(line))
  .flatMap((found) => (found === null ? [] : [{ id: found[1] ?? "", line: found.input }]));

/** "A1" to "A14". */
function ids(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, at) => `${letter}${at + 1}`);
}

describe("the page on coming from fleet-networking", () => {
  it("has every line once, each with a test", () => {
    expect(rows.map((it) => it.id)).toEqual([...ids("", 9), ...ids("A", 14), ...ids("B", 8), ...ids("C", 9)]);
    expect(rows.filter(({ line }) => [...line.matchAll(LINK)].length === 0)).toEqual([]);
  });

  it("names existing tests, in the files that it names", () => {
    const missing = [...page.matchAll(LINK)].flatMap(([, title = "", file = ""]) => {
      const text = existsSync(join(root, file)) ? readFileSync(join(root, file), "utf8") : "";
      return text.includes(`"${title.replaceAll("\\", "")}"`) ? [] : [`${file}: ${title}`];
    });
    expect(missing).toEqual([]);
  });
});

/** Subcommands of `cilium` 0.18 to 0.19, and those of `cilium clustermesh`. */
const CILIUM = {
  cilium:
    "status version install upgrade uninstall config context completion connectivity encrypt hubble features bgp multicast sysdump",
  "cilium clustermesh": "enable connect disconnect disable status inspect-policy-default-local-cluster",
};

describe("the page on the commands of Cilium", () => {
  const text = readFileSync(join(root, "docs/reference/cilium-commands.md"), "utf8");
  const lines = text
    .split("\n")
    .filter((it) => it.startsWith("| `"))
    .map((it) => it.split(" | ").map((cell) => cell.replaceAll(/^\| ?| ?\|$/g, "").trim()));

  it("has each command once, and says whether it works, is replaced or refused", () => {
    const commands = lines.map(([command = ""]) => command);
    expect(commands).toHaveLength(new Set(commands).size);
    const states = new Set(lines.map(([, state]) => state));
    expect(states).toEqual(new Set(["works", "replaced", "refused", "none"]));
    const missing = Object.entries(CILIUM).flatMap(([program, words]) =>
      words
        .split(" ")
        .filter((word) => !text.includes(`\`${program} ${word}`) && !text.includes(`, \`${word}\``)),
    );
    expect(missing).toEqual([]);
  });

  it("names what takes the place of each command that is replaced or refused", () => {
    const vague = lines.filter(
      ([, state, here = ""]) =>
        (state === "replaced" || state === "refused") &&
        !/`(?:fairlead|kubectl|nft|conntrack|wg) /.test(here),
    );
    expect(vague).toEqual([]);
  });
});
