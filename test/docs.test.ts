import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { describe, expect, it } from "vitest";
import { HUB_CRDS, MEMBER_CRDS, POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";
import { COMMANDS, loadCommand } from "@fairlead/fairlead/commands.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { findFlowchartProblem } from "./support/flowchart.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");

function filesBelow(folder: string, ending: RegExp): readonly string[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((it) => it.isFile() && ending.test(it.name))
    .map((it) => relative(root, join(it.parentPath, it.name)));
}

const guides = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...filesBelow("docs", /\.md$/),
];
const pages = [...guides, ...filesBelow("packages", /\.md$/)];

/** Lines of the shell blocks of a page, without comments; a line that ends with a backslash is joined with the next one. */
function shellLines(text: string): readonly string[] {
  return [...text.matchAll(/^```(?:sh)?\n(.*?)^```/gms)]
    .flatMap((block) => (block[1] ?? "").replaceAll(/\\\n\s*/g, "").split("\n"))
    .map((line) => line.replace(/\s+#.*$/, "").trim());
}

/** The words after `fairlead` on the lines that begin with it, alone or in `$(…)`, up to a pipe. */
function fairleadCalls(text: string): readonly (readonly string[])[] {
  return shellLines(text)
    .flatMap((line) => [...line.matchAll(/(?:^|\$\()(?:\.\/bin\/)?fairlead ([^)|]*)/g)])
    .map((match) => (match[1] ?? "").trim().split(/\s+/));
}

/** What is wrong with a call, told by the command's own definition, without running it. */
async function problemOf([name = "", ...rest]: readonly string[]): Promise<string | undefined> {
  const entry = COMMANDS.get(name);
  if (entry === undefined) return `no command ${name}`;
  const top = await loadCommand(name, entry);
  const sub = top.commands.find((it) => it.name() === rest[0]);
  // A command may run by itself and also have subcommands.
  const runs = rest[0]?.startsWith("--") === true && top.options.length > 0;
  if (top.commands.length > 0 && sub === undefined && !runs) return `no command ${name} ${rest[0] ?? ""}`;
  return sub === undefined ? misuse(top, rest) : misuse(sub, rest.slice(1));
}

/** The first word of a call that is neither a command nor a flag; sentences leave out arguments of flags and commands. */
async function unknownIn([name = "", ...rest]: readonly string[]): Promise<string | undefined> {
  const entry = COMMANDS.get(name);
  if (entry === undefined) return name;
  const top = await loadCommand(name, entry);
  const sub = top.commands.find((it) => it.name() === rest[0]);
  const flags = new Set((sub ?? top).options.flatMap((it) => [it.short, it.long]));
  return rest.find((it) => it.startsWith("-") && !flags.has(it));
}

function misuse(
  command: Pick<CommandUnknownOpts, "parseOptions" | "registeredArguments">,
  argv: readonly string[],
): string | undefined {
  const { operands, unknown } = command.parseOptions([...argv]);
  const takes = command.registeredArguments;
  const hasRest = takes.some((it) => it.variadic || it.name() === "arguments");
  if (hasRest) return undefined;
  if (unknown.length > 0) return `no flag ${unknown[0] ?? ""}`;
  if (operands.length > takes.length) return `too many arguments`;
  if (operands.length < takes.filter((it) => it.required).length) return `too few arguments`;
  return undefined;
}

/** The anchors of a page's headings, as GitHub makes them; no page has two headings with one text. */
function anchorsOf(text: string): ReadonlySet<string> {
  const headings = [...text.replaceAll(/^```.*?^```/gms, "").matchAll(/^#+ (.+)$/gm)];
  return new Set(
    headings.map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe("the documents", () => {
  it("link to files that exist", () => {
    const broken = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1] ?? "")
        .filter((target) => !/^[a-z]+:/.test(target) && !existsSync(join(root, dirname(page), target)))
        .map((target) => `${page}: ${target}`),
    );
    expect(broken).toEqual([]);
  });

  it("link to headings that exist", () => {
    const broken = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)#\s]*\.md)?#([^)]+)\)/g)]
        .filter(([, target, anchor = ""]) => {
          const path = target === undefined ? page : join(dirname(page), target);
          return !target?.includes(":") && existsSync(join(root, path)) && !anchorsOf(read(path)).has(anchor);
        })
        .map(([link]) => `${page}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  it("have pictures that Mermaid draws", () => {
    const pictures = pages.flatMap((page) =>
      [...read(page).matchAll(/^```mermaid\n(.*?)^```/gms)].map((match) => ({ page, text: match[1] ?? "" })),
    );
    expect(pictures.length).toBeGreaterThan(5);
    const wrong = pictures.flatMap(({ page, text }) => {
      const problem = findFlowchartProblem(text);
      return problem === undefined ? [] : [`${page}: ${problem}`];
    });
    expect(wrong).toEqual([]);
  });

  it.each([
    ["a -. .- b", false],
    ["a -.- b", true],
    ["a -. x .-> b -- y z --> c --- d[some text<br>two]", true],
    ["a -- --> b", false],
    ["end --> b", false],
    ["import --> b", true],
    ["a[x(y)] --> b", false],
    ["a[] --> b", false],
    ["a -->", false],
    ["a --> b c", false],
    ["subgraph a[b, 10.0.0.0/16]\na\nend", true],
    ["subgraph a", false],
    ["end", false],
  ])("have no picture with a line that Mermaid does not draw: %j is drawn: %s", (line, isDrawn) => {
    expect(findFlowchartProblem(`flowchart LR\n${line}\n`) === undefined).toBe(isDrawn);
  });

  it("type only commands and flags that exist", async () => {
    const calls = guides.flatMap((page) => fairleadCalls(read(page)).map((call) => ({ page, call })));
    expect(calls.length).toBeGreaterThan(20);
    const wrong: string[] = [];
    for (const { page, call } of calls) {
      const problem = await problemOf(call);
      if (problem !== undefined) wrong.push(`${page}: fairlead ${call.join(" ")}: ${problem}`);
    }
    expect(wrong).toEqual([]);
  });

  it("mention in their sentences only commands and flags that exist", async () => {
    const calls = guides.flatMap((page) => {
      const text = read(page).replaceAll(/```.*?```/gs, "");
      return [...text.matchAll(/`fairlead ([a-z][^`]*)`/g)].map((match) => ({
        page,
        call: (match[1] ?? "").split(/\s+/),
      }));
    });
    expect(calls.length).toBeGreaterThan(20);
    const wrong: string[] = [];
    for (const { page, call } of calls) {
      const unknown = await unknownIn(call);
      if (unknown !== undefined) wrong.push(`${page}: fairlead ${call.join(" ")}: no ${unknown}`);
    }
    expect(wrong).toEqual([]);
    expect(await unknownIn(["dns", "setup", "--nonsense"])).toBe("--nonsense");
    expect(await unknownIn(["nonsense"])).toBe("nonsense");
  });

  it("name resources in commands of kubectl so that it finds no other group's", () => {
    const groups = new Map<string, Set<string>>();
    for (const { spec } of [...HUB_CRDS, ...MEMBER_CRDS, ...POLICY_CRDS])
      for (const name of [spec.names.plural, spec.names.singular ?? "", ...(spec.names.shortNames ?? [])])
        groups.set(name, (groups.get(name) ?? new Set()).add(spec.group));
    const isShared = (word: string): boolean => (groups.get(word)?.size ?? 0) > 1;
    expect(isShared("svcexport")).toBe(true);
    const found = guides.flatMap((page) =>
      [...read(page).matchAll(/\bkubectl ([^`|\n]*)/g)]
        .filter(([, words = ""]) => words.split(/[\s,/]+/).some(isShared))
        .map(([command]) => `${page}: ${command}`),
    );
    expect(found).toEqual([]);
  });

  it.each([
    ["an unknown command", "nonsense"],
    ["an unknown command of the lab", "lab nonsense"],
    ["an unknown flag", "status --nonsense"],
    ["an argument too many", "lab status extra"],
    ["an argument too few", "lab kill"],
  ])("would be refused for %s", async (_, call) => {
    expect(await problemOf(call.split(" "))).toBeDefined();
  });

  it("type only npm scripts that exist", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const typed = guides.flatMap((page) => [...read(page).matchAll(/npm run ([a-z0-9:]+)/g)]);
    expect(typed.map((it) => it[1] ?? "").filter((it) => scripts[it] === undefined)).toEqual([]);
  });

  it("and the CLI have the version of package.json, as every package has", () => {
    const packages = readdirSync(join(root, "packages")).map((it) => `packages/${it}/package.json`);
    for (const path of ["package.json", ...packages])
      expect({ path, ...(JSON.parse(read(path)) as object) }).toMatchObject({ path, version: VERSION });
  });

  it("state each decision in one page", () => {
    const long = filesBelow("docs/adr", /\.md$/).filter((it) => read(it).trimEnd().split("\n").length > 60);
    expect(long).toEqual([]);
  });

  it("give every decision a title of one form: # N. Title", () => {
    const titles = readdirSync(join(root, "docs/adr")).map((it) => [
      it,
      read(`docs/adr/${it}`).split("\n", 1)[0],
    ]);
    const other = titles.filter(
      ([file = "", title = ""]) =>
        !title.startsWith(`# ${Number(file.slice(0, 4))}. `) || /[.:]$/.test(title),
    );
    expect(other).toEqual([]);
  });

  it("are all listed in docs/README.md, but for decisions", () => {
    const index = read("docs/README.md");
    const pagesBelow = filesBelow("docs", /\.md$/).filter((it) => !/^docs\/(?:adr\/|README)/.test(it));
    expect(pagesBelow.filter((it) => !index.includes(`](${relative("docs", it)})`))).toEqual([]);
  });

  it("have a reading order of ten lines at most", () => {
    const order = /## Reading order\n\n(.*?)\n\n/s.exec(read("README.md"))?.[1] ?? "";
    expect(order.split("\n").length).toBeGreaterThan(3);
    expect(order.split("\n").length).toBeLessThanOrEqual(10);
  });

  it("number decisions without a gap", () => {
    const numbers = readdirSync(join(root, "docs/adr")).map((it) => Number(it.slice(0, 4)));
    expect(numbers.toSorted((a, b) => a - b)).toEqual(numbers.map((_, at) => at + 1));
  });

  it("name in the troubleshooting page only conditions, reasons, events, codes and alerts that exist", () => {
    const sources = [
      ...filesBelow("packages", /(?<!\.test)\.ts$/).filter((it) => it.includes("/src/")),
      ...filesBelow("charts", /alerts\.yaml$/),
    ].map(read);
    const isThere = (word: string): boolean => sources.some((it) => it.includes(word));
    const symptoms = read("docs/guide/troubleshooting.md")
      .split("\n")
      .filter((line) => /^\| (?!symptom|---)/.test(line));
    const words = symptoms
      .flatMap((line) => [...line.matchAll(/`([^`\s]+)`/g)].map((it) => it[1] ?? ""))
      .filter((it) => /^(?:[A-Z][A-Za-z]+|[A-Z]+(?:_[A-Z]+)+|fairlead\.dev\/[A-Za-z-]+)$/.test(it));
    expect(words.length).toBeGreaterThan(50);
    expect(words.filter((it) => !isThere(it))).toEqual([]);
  });

  it("quote in the troubleshooting page only messages that programs log", () => {
    const sources = filesBelow("packages", /(?<!\.test)\.ts$/)
      .filter((it) => it.includes("/src/"))
      .map(read);
    const table = /## Log lines\n(.*?)\n## /s.exec(read("docs/guide/troubleshooting.md"))?.[1] ?? "";
    const messages = [...table.matchAll(/^\| ([^|]+)/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`([^`]+)`/g)].map((it) => it[1] ?? ""),
    );
    expect(messages.length).toBeGreaterThan(5);
    expect(messages.filter((it) => !sources.some((text) => new RegExp(`["\`]${it}`).test(text)))).toEqual([]);
  });

  it("draw pictures that fit 80 columns", () => {
    const wide = [...read("README.md").matchAll(/^```\n(.*?)^```/gms)]
      .flatMap((block) => (block[1] ?? "").split("\n"))
      .filter((line) => /[─│►◄]/.test(line) && line.length > 80);
    expect(wide).toEqual([]);
  });

  it("describe every package in a README", () => {
    const folders = readdirSync(join(root, "packages")).map((it) => `packages/${it}`);
    expect(folders.filter((it) => !existsSync(join(root, it, "README.md")))).toEqual([]);
  });
});

describe("the text of the project", () => {
  const texts = [
    "README.md",
    "CHANGELOG.md",
    "package.json",
    ".ci/run",
    "bin/fairlead",
    ...["packages", "test", "scripts", "docs", "bench", "examples"]
      .flatMap((it) => filesBelow(it, /\.(ts|mjs|md|json|yaml|sh)$/))
      .filter((it) => !it.includes("node_modules/") && it !== "test/docs.test.ts"),
  ];

  it.each([
    ["a path of a developer's machine", /(?<![\w}])\/(?:work\/(?:main|shared|\.)|home\/[a-z]|Users\/)/],
    ["a mirror of a package registry", /artifactory|verdaccio|nexus\.|\bjfrog\b/i],
    ["the tools it was written with", /\b(claude|anthropic|copilot|chatgpt|openai)\b/i],
  ])("names nowhere %s", (_, pattern) => {
    expect(texts.filter((path) => pattern.test(read(path)))).toEqual([]);
  });

  it("locks packages of the public registry only", () => {
    for (const lock of ["package-lock.json", "scripts/tools/package-lock.json"]) {
      const hosts = [...read(lock).matchAll(/"resolved": "https?:\/\/([^/"]+)/g)].map((it) => it[1]);
      expect(hosts.filter((it) => it !== "registry.npmjs.org")).toEqual([]);
    }
  });
});
