import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rootCertificates } from "node:tls";
import { exec } from "#base/exec.ts";
import type { TarEntry } from "./tar.ts";

/** What is in the image: a dynamically linked Node with what it links to, the bundle, and what a C library looks for. */

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Not root, and nobody that a node has. */
export const USER = 65_532;

const file = (path: string, data: string | Uint8Array, mode = 0o644): TarEntry => ({
  type: "file",
  path,
  mode,
  data: typeof data === "string" ? Buffer.from(data) : data,
});

/** C library, its loader and the C++ library, from the machine that builds: Debian's, for the Node that is built on it. */
export async function systemFiles(node: string): Promise<readonly TarEntry[]> {
  const libraries = (await linkedBy(node)).map((path) => file(path.slice(1), readFileSync(path), 0o755));
  return withFolders([
    ...libraries,
    file(
      "etc/passwd",
      `root:x:0:0:root:/:/sbin/nologin\nfairlead:x:${USER}:${USER}:fairlead:/:/sbin/nologin\n`,
    ),
    file("etc/group", `root:x:0:\nfairlead:x:${USER}:\n`),
    file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    // Mozilla's, as this Node has them built in.
    file("etc/ssl/certs/ca-certificates.crt", `${rootCertificates.toSorted().join("\n")}\n`),
    { type: "directory", path: "tmp", mode: 0o1777 },
  ]);
}

export function nodeFiles(node: string): readonly TarEntry[] {
  const license = join(dirname(node), "..", "LICENSE");
  return withFolders([
    file("usr/local/bin/node", readFileSync(node), 0o755),
    file("usr/share/doc/node/LICENSE", readFileSync(license)),
  ]);
}

/** The program, without the maps of its sources. */
export function programFiles(bundle: string): readonly TarEntry[] {
  const modules = readdirSync(bundle)
    .filter((it) => it.endsWith(".mjs"))
    .toSorted();
  return withFolders([
    ...modules.map((it) => file(`opt/fairlead/${it}`, readFileSync(join(bundle, it)))),
    file("usr/local/bin/fairlead", '#!/usr/local/bin/node\nimport "/opt/fairlead/fairlead.mjs";\n', 0o755),
    file("usr/share/doc/fairlead/LICENSE", readFileSync(join(root, "LICENSE"))),
  ]);
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

/** With a directory before whatever lies in it, each once. A library is stored under the name it is asked for by. */
function withFolders(entries: readonly TarEntry[]): readonly TarEntry[] {
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
