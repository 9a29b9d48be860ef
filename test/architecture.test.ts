import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const src = join(root, "src");

/** Areas by row: an area imports from the rows above its own only. */
const ROWS: readonly (readonly string[])[] = [
  ["base"],
  ["netaddr", "dnswire", "pki"],
  ["api", "nft", "iproute", "netns"],
  ["kube", "apiserver"],
  ["controllers/hub", "controllers/member", "dns"],
  ["lab", "cli"],
  ["cmd"],
];

/** Edges that the rows would refuse, each with its reason. */
const ALLOWED_EDGES: ReadonlyMap<string, string> = new Map([
  ["api -> netaddr", "addresses in API objects are checked by the one parser"],
]);

/** Modules that only a few files may use, and which. */
const GUARDED: readonly {
  readonly pattern: RegExp;
  readonly what: string;
  readonly allowed: readonly RegExp[];
}[] = [
  { pattern: /from "node:child_process"/, what: "starts processes", allowed: [/^base\/exec\.ts$/] },
  { pattern: /from "node:sqlite"/, what: "opens SQLite", allowed: [/^apiserver\/storage\//] },
  {
    pattern: /process\.env\b/,
    what: "reads the environment",
    allowed: [/^cmd\//, /^cli\//, /^lab\/images\//, /^base\/exec\.ts$/],
  },
  { pattern: /process\.exit\(/, what: "ends the process", allowed: [/^cmd\//] },
  {
    pattern: /\bDate\.now\(|\bMath\.random\(/,
    what: "reads the clock or chance directly",
    allowed: [/^base\//],
  },
];

interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

function sourceFiles(folder: string): readonly SourceFile[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((it) => it.isFile() && it.name.endsWith(".ts") && !it.name.endsWith(".test.ts"))
    .map((it) => {
      const full = join(it.parentPath, it.name);
      const text = readFileSync(full, "utf8");
      const imports = [...text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
      return { path: relative(src, full), text, imports };
    });
}

function areaOf(path: string): string {
  const parts = path.split("/");
  return parts[0] === "controllers" ? `${parts[0]}/${parts[1]}` : (parts[0] ?? "");
}

function resolveImport(file: SourceFile, specifier: string): string | undefined {
  if (specifier.startsWith("#")) return specifier.slice(1);
  if (specifier.startsWith(".")) return relative(src, join(src, file.path, "..", specifier));
  return undefined;
}

const files = sourceFiles(src);

describe("the architecture", () => {
  it("lets an area import only from the rows above it", () => {
    const wrong: string[] = [];
    for (const file of files) {
      const from = areaOf(file.path);
      const fromRow = ROWS.findIndex((row) => row.includes(from));
      if (fromRow < 0) wrong.push(`${file.path}: area ${from} stands in no row`);
      for (const specifier of file.imports) {
        const target = resolveImport(file, specifier);
        if (target === undefined) continue;
        const to = areaOf(target);
        const toRow = ROWS.findIndex((row) => row.includes(to));
        const isBelow = toRow >= 0 && toRow < fromRow;
        if (to !== from && !isBelow && !ALLOWED_EDGES.has(`${from} -> ${to}`))
          wrong.push(`${file.path} imports ${specifier}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("keeps the drivers apart from each other and from the API", () => {
    const drivers = new Set(["nft", "iproute"]);
    const wrong = files
      .filter((file) => drivers.has(areaOf(file.path)))
      .flatMap((file) =>
        file.imports
          .map((it) => resolveImport(file, it))
          .filter(
            (it) =>
              it !== undefined &&
              areaOf(it) !== areaOf(file.path) &&
              [...drivers, "api"].includes(areaOf(it)),
          )
          .map((it) => `${file.path} imports ${it}`),
      );
    expect(wrong).toEqual([]);
  });

  it("imports across areas by #area/file.ts and inside one by a relative path", () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .filter((specifier) => {
          const target = resolveImport(file, specifier);
          if (target === undefined) return false;
          if (!target.endsWith(".ts") && !target.endsWith(".json")) return true;
          const sameArea = areaOf(target).split("/")[0] === areaOf(file.path).split("/")[0];
          return specifier.startsWith(".") && !sameArea;
        })
        .map((specifier) => `${file.path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  it.each(GUARDED)("only a few files may hold what $what", ({ pattern, allowed }) => {
    const wrong = files
      .filter((file) => pattern.test(file.text) && !allowed.some((it) => it.test(file.path)))
      .map((it) => it.path);
    expect(wrong).toEqual([]);
  });

  it("has no barrels and no default exports in src", () => {
    const wrong = files
      .filter((file) => /(^|\/)index\.ts$/.test(file.path) || /^export default /m.test(file.text))
      .map((it) => it.path);
    expect(wrong).toEqual([]);
  });

  it("documents every error code", () => {
    const codes = [
      ...readFileSync(join(src, "base/errors.ts"), "utf8").matchAll(/^ {2}\| "([A-Z_]+)"/gm),
    ].map((it) => it[1] ?? "");
    const page = readFileSync(join(root, "docs/reference/errors.md"), "utf8");
    const documented = [...page.matchAll(/^\| `([A-Z_]+)` /gm)].map((it) => it[1] ?? "");
    expect(documented.toSorted()).toEqual(codes.toSorted());
  });
});
