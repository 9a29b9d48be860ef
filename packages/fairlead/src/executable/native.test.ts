import { createHash } from "node:crypto";
import { mkdtempDisposableSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadNative } from "./native.ts";

/** The native library of koffi, as the single executable carries it. */
function koffi(): Uint8Array {
  const name = `@koromix/koffi-linux-${process.arch}`;
  const folder = dirname(createRequire(import.meta.url).resolve(name));
  return readFileSync(join(folder, `linux_${process.arch}`, "koffi.node"));
}

const sha256 = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex");

describe("a native library of the single executable", () => {
  it("is loaded from a folder that is removed afterwards", () => {
    using parent = mkdtempDisposableSync(join(tmpdir(), "native-"));
    const data = koffi();
    const loaded = loadNative({ name: "koffi.node", data, sha256: sha256(data) }, [parent.path]);
    expect(loaded).toHaveProperty("load");
    expect(readdirSync(parent.path)).toEqual([]);
  });

  it("is loaded from the next folder if the first cannot be written to", () => {
    using parent = mkdtempDisposableSync(join(tmpdir(), "native-"));
    const data = koffi();
    const part = { name: "koffi.node", data, sha256: sha256(data) };
    expect(loadNative(part, ["/dev/null/no-folder", parent.path])).toHaveProperty("load");
    expect(() => loadNative(part, ["/dev/null/no-folder"])).toThrow(
      /cannot load koffi\.node; set TMPDIR .*\/dev\/null\/no-folder: ENOTDIR/,
    );
  });

  it("is not loaded if its digest differs from that of the build", () => {
    using parent = mkdtempDisposableSync(join(tmpdir(), "native-"));
    const data = koffi();
    const part = { name: "koffi.node", data: data.with(data.length - 1, 1), sha256: sha256(data) };
    expect(() => loadNative(part, [parent.path])).toThrow(/its SHA-256 is .* this executable is damaged/);
    expect(readdirSync(parent.path)).toEqual([]);
  });
});
