import { readdirSync, readFileSync } from "node:fs";
import { join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const packagesFolder = join(root, "packages");

/** Packages by row: a package depends on the rows above its own only. */
const ROWS: readonly (readonly string[])[] = [
  ["base"],
  ["os", "kube"],
  ["dns", "apiserver"],
  ["fleet", "lab"],
  ["fairlead"],
];

/** Folders of a folder by row: files import from the rows above their own only. Files of the folder itself compose the rest. */
const FOLDER_ROWS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "kube/src": [
    ["api", "yaml"],
    ["config"],
    ["client", "objects"],
    ["informer"],
    ["controller", "definitions", "election", "events", "quota"],
  ],
  "apiserver/src": [
    ["values"],
    ["schema", "storage"],
    ["cel", "patch"],
    ["registry"],
    ["builtin"],
    ["auth"],
    ["admission"],
    ["audit", "catalog", "crd", "watch"],
    ["openapi"],
    ["http"],
    ["program"],
    ["envtest"],
  ],
  "fleet/src": [
    ["api"],
    ["domain"],
    ["placement", "policy"],
    ["updates"],
    ["authz", "dataplane", "dns"],
    ["hub", "member", "cli", "relay"],
  ],
  "fleet/src/hub": [
    ["identity", "membership", "mesh", "services", "traffic-manager"],
    ["endpoints", "identities", "placement", "webhook", "updates"],
  ],
  "fleet/src/member": [
    ["exports", "probes"],
    ["imports"],
    ["endpoints"],
    ["membership"],
    ["work"],
    ["agent", "identities", "mesh", "node-agents", "startup-taint", "traffic-routes", "upgrades"],
  ],
  "lab/src": [["controllers", "dns", "images", "link", "wire"], ["node"]],
};

/** Modules that only a few files may use, and which. Paths are those below `packages`. */
const GUARDED: readonly {
  readonly pattern: RegExp;
  readonly what: string;
  readonly allowed: readonly RegExp[];
}[] = [
  {
    pattern: /from "node:child_process"/,
    what: "starts processes",
    allowed: [/^base\/src\/exec\.ts$/],
  },
  {
    pattern: /import (?!type)[^;]*\b(parse\w*|Composer|LineCounter|Lexer|Parser)\b[^;]*from "yaml"/,
    what: "parses YAML in a time that is not linear in its length",
    allowed: [/^kube\/src\/yaml\/read\.ts$/],
  },
  { pattern: /from "node:sqlite"/, what: "opens SQLite", allowed: [/^apiserver\/src\/storage\//] },
  {
    pattern: /process\.env\b/,
    what: "reads the environment",
    allowed: [
      /^base\/src\/(exec\.ts$|program\/)/,
      /^apiserver\/src\/(program|envtest)\//,
      /^fairlead\//,
      /^fleet\/src\/cli\//,
      /^lab\/src\/images\//,
    ],
  },
  {
    pattern: /process\.exit\(/,
    what: "ends the process",
    allowed: [/^base\/src\/program\//, /^apiserver\/src\/(program|envtest)\//, /^fairlead\//],
  },
  {
    pattern: /\bDate\.now\(|\bMath\.random\(/,
    what: "reads the clock or chance directly",
    allowed: [/^base\//],
  },
  {
    // Text from clusters goes through `escapeControls` of base/src/print.ts. The others print what is theirs, or are programs in pods.
    pattern: /process\.(stdout|stderr)\.write\b|\bconsole\./,
    what: "writes to a terminal",
    allowed: [
      /^base\/src\/print\.ts$/,
      /^fairlead\/src\/(completion|shared\/screen\.ts$|lab\/logs\.ts$)/,
      /^fairlead\/src\/(lab-agnhost|lab-echo|lab-json-mock|lab-nginx|verify-pod)\//,
      /^lab\/src\/images\//,
      /^apiserver\/src\/(program|envtest)\//,
    ],
  },
];

interface SourceFile {
  /** Below `packages`. */
  readonly path: string;
  readonly package: string;
  /** The folder below `src`; "" for files of `src` itself. */
  readonly folder: string;
  readonly text: string;
  readonly imports: readonly string[];
}

const isSource = (name: string): boolean =>
  name.endsWith(".ts") && !/(\.(test|fake)|\bcontract)\.ts$/.test(name);

function sourceFiles(): readonly SourceFile[] {
  return readdirSync(packagesFolder).flatMap((name) => {
    const src = join(packagesFolder, name, "src");
    return readdirSync(src, { withFileTypes: true, recursive: true })
      .filter((it) => it.isFile() && isSource(it.name))
      .map((it) => {
        const full = join(it.parentPath, it.name);
        const text = readFileSync(full, "utf8");
        const imports = [...text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
        const path = relative(packagesFolder, full);
        return { path, package: name, folder: folderOf(relative(src, full)), text, imports };
      });
  });
}

function folderOf(path: string): string {
  return path.includes("/") ? (path.split("/")[0] ?? "") : "";
}

/** The path below the `src` of the importer's own package; undefined for what is imported from elsewhere. */
function ownImport(file: SourceFile, specifier: string): string | undefined {
  if (specifier.startsWith("#")) return specifier.slice(1);
  if (!specifier.startsWith(".")) return undefined;
  const target = normalize(join(file.path, "..", specifier));
  return target.startsWith(`${file.package}/src/`)
    ? target.slice(`${file.package}/src/`.length)
    : `outside: ${specifier}`;
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
}

interface Project {
  readonly references: readonly { readonly path: string }[];
  readonly compilerOptions: { readonly customConditions?: readonly string[] };
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(join(packagesFolder, path), "utf8"));
}

const manifestOf = (name: string): Manifest => readJson(`${name}/package.json`) as Manifest;

function dependenciesOf(name: string): readonly string[] {
  return Object.keys(manifestOf(name).dependencies ?? {});
}

function isAbove(rows: readonly (readonly string[])[], upper: string, lower: string): boolean {
  const [from, to] = [lower, upper].map((name) => rows.findIndex((row) => row.includes(name)));
  return from !== undefined && to !== undefined && to >= 0 && to < from;
}

const files = sourceFiles();
const names = readdirSync(packagesFolder);

describe("the packages", () => {
  it("depend only on packages of the rows above their own", () => {
    expect(names.toSorted()).toEqual(ROWS.flat().toSorted());
    const wrong = names.flatMap((name) =>
      dependenciesOf(name)
        .filter((it) => it.startsWith("@fairlead/"))
        .filter((it) => !isAbove(ROWS, it.slice("@fairlead/".length), name))
        .map((it) => `${name} depends on ${it}`),
    );
    expect(wrong).toEqual([]);
  });

  it("import only packages that they depend on", () => {
    const wrong = files.flatMap((file) => {
      const declared = new Set(dependenciesOf(file.package));
      return file.imports
        .filter((it) => /^[@a-z]/.test(it) && !it.startsWith("node:"))
        .map((it) => /^(?:@[^/]+\/)?[^/]+/.exec(it)?.[0] ?? it)
        .filter((it) => !declared.has(it))
        .map((it) => `${file.path} imports ${it}`);
    });
    expect(wrong).toEqual([]);
  });

  it("are resolved by the compiler only for packages that depend on them", () => {
    const wrong = names.filter((name) => {
      const own = dependenciesOf(name).filter((it) => it.startsWith("@fairlead/"));
      const { references, compilerOptions } = readJson(`${name}/tsconfig.json`) as Project;
      const condition = manifestOf(name).exports["./*"];
      return !isDeepStrictEqual(
        [
          references.map((it) => it.path.replace("../", "@fairlead/")),
          compilerOptions.customConditions ?? [],
          condition,
        ],
        [own, own, { types: { [`@fairlead/${name}`]: "./src/*", default: null }, default: "./src/*" }],
      );
    });
    expect(wrong).toEqual([]);
  });

  it("import their own files by #folder/file.ts across folders and by a relative path inside one", () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .filter((specifier) => {
          const target = ownImport(file, specifier);
          if (target === undefined) return false;
          if (target.startsWith("outside") || !/\.(ts|json)$/.test(target)) return true;
          return specifier.startsWith(".") !== (folderOf(target) === file.folder);
        })
        .map((specifier) => `${file.path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe.each(Object.entries(FOLDER_ROWS))("the folders of packages/%s", (parent, rows) => {
  it("import only folders of the rows above their own", () => {
    const below = (path: string): string =>
      path.startsWith(`${parent}/`) ? folderOf(path.slice(parent.length + 1)) : "";
    const own = files.filter((it) => below(it.path) !== "");
    expect([...new Set(own.map((it) => below(it.path)))].toSorted()).toEqual(rows.flat().toSorted());
    const wrong = own.flatMap((file) =>
      file.imports
        .filter((it) => {
          const target = ownImport(file, it);
          const to = target === undefined ? "" : below(`${file.package}/src/${target}`);
          return to !== "" && to !== below(file.path) && !isAbove(rows, to, below(file.path));
        })
        .map((it) => `${file.path} imports ${it}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe("the source files", () => {
  it.each(GUARDED)("of few places only hold what $what", ({ pattern, allowed }) => {
    const wrong = files
      .filter((file) => pattern.test(file.text) && !allowed.some((it) => it.test(file.path)))
      .map((it) => it.path);
    expect(wrong).toEqual([]);
  });

  it("have no barrels and no default exports", () => {
    const wrong = files
      .filter((file) => /(^|\/)index\.ts$/.test(file.path) || /^export default /m.test(file.text))
      .map((it) => it.path);
    expect(wrong).toEqual([]);
  });
});

describe("paths of the checkout", () => {
  const texts = ["bench", "packages", "scripts", "test"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((it) => /\.(ts|mjs)$/.test(it) && !it.includes("node_modules"))
      .map((it) => ({ path: join(folder, it), text: readFileSync(join(root, folder, it), "utf8") })),
  );
  const filesWith = (pattern: RegExp): readonly string[] =>
    texts.filter((it) => pattern.test(it.text)).map((it) => it.path);

  it("are not taken from URLs, which have spaces and letters in another form", () => {
    expect(filesWith(/import\.meta\.url\)\.pathname/)).toEqual([]);
  });

  it("are not words of commands in pods, which do not see the checkout", () => {
    expect(filesWith(/exec \$\{process\.execPath\}|\$\{process\.execPath\} -e/)).toEqual([]);
  });
});

describe("the error codes", () => {
  it("are all documented", () => {
    const codes = [
      ...readFileSync(join(packagesFolder, "base/src/errors.ts"), "utf8").matchAll(/^ {2}\| "([A-Z_]+)"/gm),
    ].map((it) => it[1] ?? "");
    const page = readFileSync(join(root, "docs/reference/errors.md"), "utf8");
    const documented = [...page.matchAll(/^\| `([A-Z_]+)` /gm)].map((it) => it[1] ?? "");
    expect(documented.toSorted()).toEqual(codes.toSorted());
  });
});
