import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rootCertificates } from "node:tls";
import { exec } from "@fairlead/base/exec.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { debianParts, nodeParts, noticesOf, type Part, partIn } from "./parts.ts";
import type { Content } from "./sbom.ts";
import type { TarEntry } from "./tar.ts";

/** What is in the image: a dynamically linked Node with what it links to, the bundle, and what a C library looks for. */

const root = fileURLToPath(new URL("../..", import.meta.url));

export const LICENSE = "Apache-2.0";

/** Not root, and not a user of the node. */
export const USER = 65_532;

export const file = (path: string, data: string | Uint8Array, mode = 0o644): TarEntry => ({
  type: "file",
  path,
  mode,
  data: typeof data === "string" ? Buffer.from(data) : data,
});

/** C library, its loader and the C++ library, from the machine that builds: Debian's, for the Node that is built on it. */
export async function libraries(node: string): Promise<readonly Content[]> {
  const parts = await debianParts(await linkedBy(node));
  const contents = new Map<string, Content>();
  for (const [path, part] of parts) {
    const { files = noticeOf(part) } = contents.get(part.name) ?? {};
    const library = file(path.slice(1), readFileSync(path), 0o755);
    contents.set(part.name, { part, within: [], files: [...files, library] });
  }
  return [...contents.values()].toSorted((a, b) => (a.part.name < b.part.name ? -1 : 1));
}

export function noticeOf({ name, notice }: Part): readonly TarEntry[] {
  return notice === undefined ? [] : [file(`usr/share/doc/${name}/copyright`, notice)];
}

/** What a C library looks for. */
function systemFiles(): readonly TarEntry[] {
  return [
    file(
      "etc/passwd",
      `root:x:0:0:root:/:/sbin/nologin\nfairlead:x:${USER}:${USER}:fairlead:/:/sbin/nologin\n`,
    ),
    file("etc/group", `root:x:0:\nfairlead:x:${USER}:\n`),
    file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    { type: "directory", path: "tmp", mode: 0o1777 },
    { type: "directory", path: "run", mode: 0o755 },
    { type: "link", path: "var/run", mode: 0o777, target: "../run" },
  ];
}

/** Mozilla's authorities, as this Node has them built in. */
export function authorities(): Content {
  const part: Part = {
    name: "mozilla-ca-certificates",
    version: `of-node-${process.versions.node}`,
    license: "MPL-2.0",
    purl: undefined,
    notice: undefined,
  };
  const text = `${rootCertificates.toSorted().join("\n")}\n`;
  return { part, within: [], files: [file("etc/ssl/certs/ca-certificates.crt", text)] };
}

export async function nodeContent(program: string): Promise<Content> {
  const { node, within } = await nodeParts(program);
  const license = join(dirname(program), "..", "LICENSE");
  return {
    part: node,
    within,
    files: [
      file("usr/local/bin/node", readFileSync(program), 0o755),
      file("usr/share/doc/node/LICENSE", readFileSync(license)),
    ],
  };
}

/** What the bundle loads koffi from: its own files, and the native library for this machine's C library. */
export function koffiContent(): Content {
  const native = `@koromix/koffi-linux-${process.arch}`;
  const parts = [
    { name: "koffi", files: ["package.json", "index.js", "src/koffi/index.js", "src/koffi/src/static.js"] },
    { name: native, files: ["package.json", "index.js", `linux_${process.arch}/koffi.node`] },
  ];
  const from = join(root, "node_modules");
  const part = partIn(join(from, "koffi"));
  return {
    part,
    within: [partIn(join(from, native))],
    files: [
      ...noticeOf(part),
      ...parts.flatMap(({ name, files }) =>
        files.map((it) =>
          file(`opt/fairlead/node_modules/${name}/${it}`, readFileSync(join(from, name, it))),
        ),
      ),
    ],
  };
}

/** The program, without the maps of its sources. */
export function programContent(bundle: string, packages: readonly Part[]): Content {
  const modules = readdirSync(bundle)
    .filter((it) => it.endsWith(".mjs"))
    .toSorted();
  const part: Part = {
    name: "fairlead",
    version: VERSION,
    license: LICENSE,
    purl: undefined,
    notice: undefined,
  };
  return {
    part,
    within: packages,
    files: [
      ...systemFiles(),
      ...modules.map((it) => file(`opt/fairlead/${it}`, readFileSync(join(bundle, it)))),
      // As bin/fairlead does it, with the one argument that a first line can have.
      file(
        "usr/local/bin/fairlead",
        '#!/usr/local/bin/node --min-semi-space-size=4\nimport "/opt/fairlead/fairlead.mjs";\n',
        0o755,
      ),
      file("usr/share/doc/fairlead/LICENSE", readFileSync(join(root, "LICENSE"))),
      file("usr/share/doc/fairlead/NOTICES", noticesOf(packages)),
    ],
  };
}

/** The Node that is pinned for this machine's architecture. */
export function pinnedNode(): string {
  const of = createRequire(import.meta.url).resolve(`node-linux-${process.arch}/package.json`);
  return join(dirname(of), "bin", "node");
}

/** Paths of the shared libraries that a program is linked with, and of what loads them. */
async function linkedBy(program: string): Promise<readonly string[]> {
  const { stdout } = await exec("ldd", [program]);
  const paths = [...stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((it) => it[1] ?? "");
  if (paths.length === 0) throw new Error(`ldd names no library of ${program}: ${stdout}`);
  return paths.toSorted();
}

/** Adds the parent directories of all entries, each once. A library is stored under the name by which it is loaded. */
export function withFolders(entries: readonly TarEntry[]): readonly TarEntry[] {
  const seen = new Set(entries.map((it) => it.path));
  const all: TarEntry[] = [];
  for (const entry of entries) {
    const parts = entry.path.split("/").slice(0, -1);
    for (const [at] of parts.entries()) {
      const path = parts.slice(0, at + 1).join("/");
      if (!seen.has(path)) all.push({ type: "directory", path, mode: 0o755 });
      seen.add(path);
    }
    all.push(entry);
  }
  return all;
}
