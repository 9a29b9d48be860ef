import { createHash } from "node:crypto";
import { mkdirSync, mkdtempDisposableSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VERSION } from "@fairlead/base/version.ts";
import { buildBundle, buildOneFile } from "../bundle.ts";
import { buildImage } from "../image/build.ts";
import { file, LICENSE, nodeContent, pinnedNode } from "../image/content.ts";
import { bundledParts, noticesOf, type Part, partIn } from "../image/parts.ts";
import { type Content, renderSbom } from "../image/sbom.ts";
import { writeTar } from "../image/tar.ts";
import { root } from "../steps.ts";
import { CHARTS, chartLayout, packChart } from "./charts.ts";
import { debName, debPackage } from "./deb.ts";
import { buildExecutable } from "./executable.ts";
import { type Archiving, filesBelow } from "./files.ts";
import { npmPackage } from "./npm.ts";
import type { Architecture } from "./platform.ts";
import { signSums, sumsOf } from "./sums.ts";

export interface ReleaseOptions extends Archiving {
  /** Where the files are put; what is in it is removed. */
  readonly folder: string;
  /** Of the single executables and Debian packages. The image is of this machine's architecture. */
  readonly architectures: readonly Architecture[];
  /** PEM of the Ed25519 key that signs; undefined if the release stays unsigned. */
  readonly signingKey: string | undefined;
}

/** Builds everything that people install, and returns the names of the files. */
export async function buildRelease(options: ReleaseOptions): Promise<readonly string[]> {
  rmSync(options.folder, { recursive: true, force: true });
  mkdirSync(options.folder, { recursive: true });
  using work = mkdtempDisposableSync(join(tmpdir(), "fairlead-release-"));
  const files = new Map<string, Uint8Array>();
  const put = (name: string, data: Uint8Array | string, mode = 0o644): void => {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    writeFileSync(join(options.folder, name), bytes, { mode });
    files.set(name, bytes);
  };
  await addBundled(put, work.path, options);
  for (const name of CHARTS) {
    const chart = packChart(name, options);
    put(`${name}-${VERSION}.tgz`, chart);
    put(`${name}-${VERSION}.oci.tar`, chartLayout(name, chart, options.modified));
  }
  await addExecutables(put, work.path, options);
  const sums = sumsOf(files);
  put("SHA256SUMS", sums);
  if (options.signingKey !== undefined) {
    const { signature, publicKey } = signSums(sums, options.signingKey);
    put("SHA256SUMS.sig", signature);
    put("SHA256SUMS.pem", publicKey);
  }
  return [...files.keys()];
}

type Put = (name: string, data: Uint8Array | string, mode?: number) => void;

/** What is made of the bundle for Node: the npm package, and the image with its bill of materials. */
async function addBundled(put: Put, work: string, options: ReleaseOptions): Promise<void> {
  const bundle = join(work, "bundle");
  const packages = bundledParts(await buildBundle(bundle));
  put(`fairlead-${VERSION}.tgz`, npmPackage(bundle, packages, options));
  const folder = join(work, "image");
  const { modified, compression } = options;
  await buildImage({ bundle, packages, folder, modified, compression });
  const name = `fairlead-image-${VERSION}-${process.arch}`;
  put(`${name}.oci.tar`, writeTar(filesBelow(folder, ""), modified));
  put(`${name}.spdx.json`, readFileSync(`${folder}.spdx.json`));
}

async function addExecutables(put: Put, work: string, options: ReleaseOptions): Promise<void> {
  const bundled = bundledParts(await buildOneFile(join(work, "fairlead.cjs")));
  const packages = [...bundled, partIn(join(root, "node_modules", "koffi"))];
  const node = readFileSync(join(pinnedNode(), "..", "..", "LICENSE"), "utf8");
  const notices = `${noticesOf(packages)}\n${"-".repeat(80)}\n\nNode.js\n\n${node}`;
  put("NOTICES", notices);
  for (const architecture of options.architectures) {
    const name = `fairlead-linux-${architecture}`;
    const output = join(work, name);
    await buildExecutable({ architecture, work, output });
    const executable = readFileSync(output);
    put(name, executable, 0o755);
    put(
      `${name}.spdx.json`,
      sbomOf({ name, executable, packages, node: await nodeContent(pinnedNode()) }, options),
    );
    put(debName(architecture), await debPackage({ ...options, architecture, executable, notices }));
  }
}

function sbomOf(
  of: {
    readonly name: string;
    readonly executable: Uint8Array;
    readonly packages: readonly Part[];
    readonly node: Content;
  },
  { modified }: Archiving,
): string {
  const digest = `sha256:${createHash("sha256").update(of.executable).digest("hex")}`;
  const common = { version: VERSION, license: LICENSE };
  const facts = {
    purpose: "APPLICATION",
    name: `fairlead.dev/${of.name}`,
    digest,
    modified,
    ...common,
  } as const;
  const part: Part = { name: "fairlead", purl: undefined, notice: undefined, ...common };
  const files = [file(of.name, of.executable, 0o755)];
  return renderSbom(facts, [
    { part, within: of.packages, files },
    { ...of.node, files: [] },
  ]);
}
