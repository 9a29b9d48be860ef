/** Which packages a change touches: its own, and all that depend on them. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Dependencies within the project, by package. */
export type Dependencies = ReadonlyMap<string, readonly string[]>;

/**
 * Pure.
 *
 * @param files - Changed files, by path from the root.
 * @returns Names of packages; undefined if a file outside of the packages changed, other than documents, which may concern all.
 */
export function touchedPackages(
  files: readonly string[],
  dependencies: Dependencies,
): ReadonlySet<string> | undefined {
  const touched = new Set<string>();
  for (const file of files) {
    const [folder, name = ""] = file.split("/");
    if (folder === "packages" && dependencies.has(name)) touched.add(name);
    else if (!file.endsWith(".md")) return undefined;
  }
  for (let before = -1; before !== touched.size;) {
    before = touched.size;
    for (const [name, own] of dependencies) if (own.some((it) => touched.has(it))) touched.add(name);
  }
  return touched;
}

export function readDependencies(root: string): Dependencies {
  return new Map(
    readdirSync(join(root, "packages")).map((name) => {
      const text = readFileSync(join(root, "packages", name, "package.json"), "utf8");
      const { dependencies = {} } = JSON.parse(text) as { dependencies?: Readonly<Record<string, string>> };
      const own = Object.keys(dependencies).filter((it) => it.startsWith("@fairlead/"));
      return [name, own.map((it) => it.slice("@fairlead/".length))] as const;
    }),
  );
}

/** Files that differ from what is published: from the upstream branch, else from the last commit. Undefined without Git. */
export function changedFiles(root: string): readonly string[] | undefined {
  const git = (...args: readonly string[]): string | undefined => {
    const { status, stdout } = spawnSync("git", args, { cwd: root, encoding: "utf8" });
    return status === 0 ? stdout : undefined;
  };
  const base = git("merge-base", "HEAD", "@{upstream}")?.trim() ?? "HEAD";
  const changed = git("diff", "--name-only", "-z", base);
  const added = git("ls-files", "--others", "--exclude-standard", "-z");
  if (changed === undefined || added === undefined) return undefined;
  return `${changed}${added}`.split("\0").filter((it) => it !== "");
}
