import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "@fairlead/base/version.ts";
import { file, LICENSE } from "../image/content.ts";
import { noticesOf, type Part } from "../image/parts.ts";
import { type Archiving, textOf, writeTgz } from "./files.ts";

/**
 * Starts the bundle on the Node of the PATH, with the options of bin/fairlead.
 */
const START = `#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
[ "$(basename "$0")" = kubectl_complete-fairlead ] && set -- kubectl_complete-fairlead "$@"
exec node --min-semi-space-size=4 --max-semi-space-size=32 "$root/lib/start.mjs" "$@"
`;

/** Readable for every Node since 14, so that an old one gives a message and not a syntax error. */
const CHECK = `import { fileURLToPath } from "node:url";
if (Number(process.versions.node.split(".")[0]) < 24) {
  process.stderr.write(\`fairlead: needs Node 24 or newer, and this is \${process.version} (\${process.execPath}).\\n\`);
  process.exit(1);
}
const entry = new URL("fairlead.mjs", import.meta.url);
process.argv[1] = fileURLToPath(entry);
import(entry);
`;

/** The npm package: the bundle of all programs, for the Node that is there. */
export function npmPackage(bundle: string, packages: readonly Part[], archiving: Archiving): Buffer {
  const koffi = JSON.parse(String(textOf("packages/os/package.json"))) as {
    dependencies: Readonly<Record<string, string>>;
  };
  const manifest = {
    name: "fairlead",
    version: VERSION,
    description: "Fleet networking for Kubernetes: many clusters that work as one.",
    license: LICENSE,
    type: "module",
    os: ["linux"],
    engines: { node: ">=24" },
    // "kubectl fairlead" starts the second, and the third to complete its arguments.
    bin: {
      fairlead: "bin/fairlead",
      "kubectl-fairlead": "bin/fairlead",
      "kubectl_complete-fairlead": "bin/fairlead",
    },
    dependencies: { koffi: koffi.dependencies["koffi"] },
  };
  const modules = readdirSync(bundle).filter((it) => it.endsWith(".mjs"));
  const entries = [
    file("package.json", `${JSON.stringify(manifest, undefined, 2)}\n`),
    file("bin/fairlead", START, 0o755),
    file("lib/start.mjs", CHECK),
    ...modules.toSorted().map((it) => file(`lib/${it}`, readFileSync(join(bundle, it)))),
    file("README.md", textOf("README.md")),
    file("LICENSE", textOf("LICENSE")),
    file("NOTICES", noticesOf(packages)),
  ];
  return writeTgz(
    entries.map((it) => ({ ...it, path: `package/${it.path}` })),
    archiving,
  );
}
