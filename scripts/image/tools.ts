import { createHash } from "node:crypto";
import { existsSync, mkdtempDisposableSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { root } from "../steps.ts";
import { file as fileOf, noticeOf } from "./content.ts";
import { debianPurl, type Part } from "./parts.ts";
import type { Content } from "./sbom.ts";

/** The programs that `fairlead node` and `fairlead relay` start, and their libraries: out of Debian packages, of which nothing is installed. */

/** Programs by package, and the packages of the libraries that they are linked with. */
export const TOOLS = JSON.parse(readFileSync(join(root, "scripts/image/tools.json"), "utf8")) as {
  readonly programs: Readonly<Record<string, readonly string[]>>;
  readonly libraries: readonly string[];
};

/** Where `scripts/debian-packages.mjs` puts the packages. */
const PACKAGES = join(root, "node_modules", ".tools", "image");
const BIN = ["usr/bin", "bin", "usr/sbin", "sbin"];

/**
 * What the image takes from the packages: the programs in `usr/bin`, and the libraries that they load.
 *
 * @param provided - Names of the libraries that the image has already.
 */
export async function toolContents(
  architecture: string,
  provided: ReadonlySet<string>,
): Promise<readonly Content[]> {
  using scratch = mkdtempDisposableSync(join(tmpdir(), "fairlead-tools-"));
  const packages = await unpack(scratch.path, architecture);
  const programs = packages.flatMap((from) =>
    (TOOLS.programs[from.part.name] ?? []).map((it) => ({ from, path: programIn(from, it) })),
  );
  const libraries = await librariesOf(
    programs.map((it) => it.path),
    packages,
    provided,
  );
  const files = [
    ...programs.map(({ from, path }) => ({ from, path, to: `usr/bin/${basename(path)}` })),
    ...libraries.map(({ from, path }) => ({
      from,
      path,
      to: `usr/lib/${path.split("/").slice(-2).join("/")}`,
    })),
  ];
  return packages.map((from) => ({
    part: from.part,
    within: [],
    files: [
      ...noticeOf(from.part),
      ...files.filter((it) => it.from === from).map(({ path, to }) => fileOf(to, readFileSync(path), 0o755)),
    ],
  }));
}

interface Unpacked {
  readonly part: Part;
  /** Where it was unpacked. */
  readonly folder: string;
}

/** All packages by name, each in a folder of its own. */
async function unpack(scratch: string, architecture: string): Promise<readonly Unpacked[]> {
  const files = existsSync(PACKAGES) ? readdirSync(PACKAGES).filter((it) => it.endsWith(".deb")) : [];
  const names = [...Object.keys(TOOLS.programs), ...TOOLS.libraries].toSorted();
  return Promise.all(
    names.map(async (name) => {
      const found = files.filter((it) => it.startsWith(`${name}_`));
      const [file] = found;
      if (file === undefined || found.length > 1)
        throw new Error(
          `${PACKAGES} has ${found.length} packages ${name}, and needs one; run: node scripts/debian-packages.mjs`,
        );
      const archive = join(PACKAGES, file);
      const { stdout } = await exec("dpkg-deb", ["--field", archive, "Version", "Architecture"]);
      const version = /^Version: (.+)$/m.exec(stdout)?.[1] ?? "";
      const of = /^Architecture: (.+)$/m.exec(stdout)?.[1] ?? "";
      if (of !== architecture)
        throw new Error(`${archive} is for ${of}, and the image is for ${architecture}`);
      const folder = join(scratch, name);
      await exec("dpkg-deb", ["--extract", archive, folder]);
      const text = join(folder, "usr/share/doc", name, "copyright");
      const part: Part = {
        name,
        version,
        license: undefined,
        purl: debianPurl(name, version, of),
        notice: existsSync(text) ? readFileSync(text, "utf8") : undefined,
        sha256: createHash("sha256").update(readFileSync(archive)).digest("hex"),
      };
      return { part, folder };
    }),
  );
}

function programIn({ part, folder }: Unpacked, name: string): string {
  const found = BIN.map((it) => join(folder, it, name)).find((it) => existsSync(it));
  if (found === undefined) throw new Error(`the package ${part.name} has no program ${name}`);
  return found;
}

/** The libraries of the packages that programs load, each once, by the loader's own word. */
async function librariesOf(
  programs: readonly string[],
  packages: readonly Unpacked[],
  provided: ReadonlySet<string>,
): Promise<readonly { readonly from: Unpacked; readonly path: string }[]> {
  const folders = packages.flatMap(({ folder }) =>
    ["usr/lib", "lib"].flatMap((lib) =>
      existsSync(join(folder, lib))
        ? readdirSync(join(folder, lib))
            .filter((it) => it.endsWith("-linux-gnu"))
            .map((it) => join(folder, lib, it))
        : [],
    ),
  );
  const { stdout } = await exec("ldd", programs, { addEnv: { LD_LIBRARY_PATH: folders.join(":") } });
  const found = new Map<string, { readonly from: Unpacked; readonly path: string }>();
  for (const [, name = "", path] of stdout.matchAll(/^\t(\S+)(?: => (\/\S+|not found).*| \(0x.*)$/gm)) {
    const from = packages.find(({ folder }) => path?.startsWith(`${folder}/`));
    if (from !== undefined && path !== undefined) found.set(name, { from, path });
    else if (name !== "linux-vdso.so.1" && !provided.has(basename(name)))
      throw new Error(
        `no package of scripts/image/tools.json has the library ${name}; add the package that has it`,
      );
  }
  return [...found.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1));
}
