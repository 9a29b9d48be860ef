import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { exec } from "@fairlead/base/exec.ts";
import { root } from "../steps.ts";

/** The third-party work in the image: what is bundled, what Node is made of, and what it is linked with. */

export interface Part {
  readonly name: string;
  /** Undefined if unknown. */
  readonly version: string | undefined;
  /** An SPDX expression; undefined if only its text states the license. */
  readonly license: string | undefined;
  /** By what databases of vulnerabilities know it (package URL). */
  readonly purl: string | undefined;
  /** The text that has to go with it. */
  readonly notice: string | undefined;
  /** SHA-256 of the archive that it was taken from, in hexadecimal digits. */
  readonly sha256?: string;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

/** The npm packages of which something got into a bundle, by name and version. */
export function bundledParts({ outputs }: Metafile): readonly Part[] {
  const folders = new Set(
    Object.values(outputs).flatMap(({ inputs }) =>
      Object.entries(inputs).flatMap(([path, { bytesInOutput }]) =>
        bytesInOutput > 0 ? folderOf(path) : [],
      ),
    ),
  );
  const parts = new Map([...folders].map((it) => partIn(it)).map((it) => [`${it.name}@${it.version}`, it]));
  return [...parts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, it]) => it);
}

/** Of the package that a source belongs to; none for our own. */
function folderOf(path: string): readonly string[] {
  const found = /^.*\bnode_modules\/(?:@[^/]+\/)?[^/]+/.exec(path);
  return found === null ? [] : [join(root, found[0])];
}

/** The npm package in a folder. */
export function partIn(folder: string): Part {
  const { name, version, license } = JSON.parse(
    readFileSync(join(folder, "package.json"), "utf8"),
  ) as Manifest;
  const files = readdirSync(folder).filter((it) => /^(licen[cs]e|copying|notice)/i.test(it));
  const texts = files.toSorted().map((it) => readFileSync(join(folder, it), "utf8").trim());
  const notice = texts.length === 0 ? headersIn(folder) : texts;
  return {
    name,
    version,
    license,
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    notice: notice.length === 0 ? undefined : notice.join("\n\n"),
  };
}

/** The comments with a copyright at the beginning of its files, for a package without a file for them. */
function headersIn(folder: string): readonly string[] {
  const headers = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((it) => it.isFile() && it.name.endsWith(".js"))
    .map((it) => readFileSync(join(it.parentPath, it.name), "utf8"))
    .map(
      (text) =>
        /^(?:\/\/.*\n)+/
          .exec(text)?.[0]
          .replaceAll(/^\/\/ ?/gm, "")
          .trim() ?? "",
    );
  return [...new Set(headers)].filter((it) => it.includes("Copyright")).toSorted();
}

/** The texts under which others' code may be handed on. */
export function noticesOf(parts: readonly Part[]): string {
  const texts = parts.map(
    ({ name, version, license, notice }) =>
      `${name} ${version} (${license ?? "see below"})\n\n${notice ?? "Its package has no other text."}\n`,
  );
  return ["This program contains:\n", ...texts].join(`\n${"-".repeat(80)}\n\n`);
}

/** Numbers of interfaces, not versions of parts. */
const NO_PARTS = new Set(["node", "modules", "napi"]);

/** A Node, and the libraries that it is built of. */
export async function nodeParts(
  node: string,
): Promise<{ readonly node: Part; readonly within: readonly Part[] }> {
  const { stdout } = await exec(node, ["-p", "JSON.stringify(process.versions)"], { env: {} });
  const versions = JSON.parse(stdout) as Record<string, string>;
  const part = (name: string, license?: string): Part => ({
    name,
    version: versions[name],
    license,
    purl: `pkg:generic/${name}@${versions[name]}`,
    notice: undefined,
  });
  const within = Object.keys(versions).filter((it) => !NO_PARTS.has(it) && versions[it] !== "");
  return { node: part("node", "MIT"), within: within.toSorted().map((it) => part(it)) };
}

/** The Debian packages that files are of, by path. A file that dpkg does not know is a separate part. */
export async function debianParts(paths: readonly string[]): Promise<ReadonlyMap<string, Part>> {
  const parts = new Map<string, Part>();
  for (const path of paths) parts.set(path, (await debianPart(path)) ?? unknownPart(path));
  return parts;
}

/** By what databases of vulnerabilities know a package of this machine's Debian. */
export function debianPurl(name: string, version: string, architecture: string): string {
  const release = readFileSync("/etc/os-release", "utf8");
  const distro = `${/^ID=(.*)$/m.exec(release)?.[1]}-${/^VERSION_ID="?([^"\n]*)/m.exec(release)?.[1]}`;
  return `pkg:deb/debian/${encodeURIComponent(name)}@${version}?arch=${architecture}&distro=${distro}`;
}

async function debianPart(path: string): Promise<Part | undefined> {
  // Directories of libraries were moved below /usr; which of the names dpkg knows depends on the package.
  const names = [path, realpathSync(path), path.replace(/^\/usr/, ""), `/usr${path}`];
  for (const it of new Set(names)) {
    const owner = await ask("-S", it);
    const name = owner?.split(":")[0];
    if (name === undefined) continue;
    const found = await ask("-W", "-f", "${Version} ${Architecture}\n", owner?.split(": ")[0] ?? name);
    const [version = "", architecture = ""] = found?.trim().split("\n")[0]?.split(" ") ?? [];
    const text = `/usr/share/doc/${name}/copyright`;
    return {
      name,
      version,
      license: undefined,
      purl: debianPurl(name, version, architecture),
      notice: existsSync(text) ? readFileSync(text, "utf8") : undefined,
    };
  }
  return undefined;
}

async function ask(...args: readonly string[]): Promise<string | undefined> {
  try {
    return (await exec("dpkg-query", args)).stdout;
  } catch {
    return undefined;
  }
}

function unknownPart(path: string): Part {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return { name, version: undefined, license: undefined, purl: undefined, notice: undefined };
}
