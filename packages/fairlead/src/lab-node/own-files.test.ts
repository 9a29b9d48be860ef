import { mkdirSync, mkdtempDisposableSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { ownFiles } from "./own-files.ts";

/** A bundle and its packages in a folder as people have them, found by a link. */
function bundleIn(folder: string): { readonly entry: string; readonly executable: string } {
  const checkout = join(folder, "home/ä folder of 'someone'");
  for (const [path, text] of [
    ["dist/0123/fairlead.mjs", ""],
    ["node_modules/koffi/index.js", ""],
    [`node_modules/@koromix/koffi-linux-${process.arch}/index.js`, ""],
    ["node_modules/.bin/node", ""],
    ["secret", "not for pods"],
  ] as const) {
    mkdirSync(dirname(join(checkout, path)), { recursive: true });
    writeFileSync(join(checkout, path), text);
  }
  symlinkSync(checkout, join(folder, "link"));
  const at = join(folder, "link");
  return { entry: join(at, "dist/0123/fairlead.mjs"), executable: join(at, "node_modules/.bin/node") };
}

describe("the files of Fairlead's programs in a container", () => {
  it("are Node, the bundle and the native library, at paths that do not depend on where the machine has them", () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), "own-files-"));
    const { entry, executable } = bundleIn(folder.path);
    const checkout = realpathSync(join(folder.path, "link"));
    expect(ownFiles(executable, entry)).toEqual({
      command: ["/run/fairlead/node", "/run/fairlead/lib/fairlead.mjs"],
      files: [
        { source: join(checkout, "node_modules/.bin/node"), target: "/run/fairlead/node" },
        { source: join(checkout, "dist/0123"), target: "/run/fairlead/lib" },
        { source: join(checkout, "node_modules/koffi"), target: "/run/fairlead/node_modules/koffi" },
        {
          source: join(checkout, `node_modules/@koromix/koffi-linux-${process.arch}`),
          target: `/run/fairlead/node_modules/@koromix/koffi-linux-${process.arch}`,
        },
      ],
    });
  });

  it("are the executable alone where all is in one file", () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), "own-files-"));
    const { executable } = bundleIn(folder.path);
    expect(ownFiles(executable, undefined)).toEqual({
      command: ["/run/fairlead/fairlead"],
      files: [{ source: realpathSync(executable), target: "/run/fairlead/fairlead" }],
    });
  });

  it("are refused without the packages of the bundle", () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), "own-files-"));
    const entry = join(folder.path, "main.mjs");
    writeFileSync(entry, "");
    expect(() => ownFiles(process.execPath, entry)).toThrow(/main\.mjs is not in a bundle: .*koffi/);
  });
});
