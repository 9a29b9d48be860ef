import { rmSync } from "node:fs";
import { VERSION } from "../../src/cmd/fairlead/version.ts";
import { nodeFiles, pinnedNode, programFiles, systemFiles, USER } from "./content.ts";
import { writeLayout } from "./layout.ts";

export interface BuildImageOptions {
  /** Folder with the bundle, and nothing of an older one. */
  readonly bundle: string;
  /** Folder of the layout; made anew. */
  readonly folder: string;
  /** Of all files in the image. Unit: seconds since the Unix epoch. Default: 0. */
  readonly modified?: number;
  /** 1 to 9. Default: 9. */
  readonly compression?: number;
}

export const IMAGE_NAME = "fairlead.dev/fairlead";
const ARCHITECTURES: Readonly<Record<string, "amd64" | "arm64">> = { x64: "amd64", arm64: "arm64" };

/** Builds the image of all programs for this machine's architecture, and returns the digest of its manifest. */
export async function buildImage(options: BuildImageOptions): Promise<string> {
  const architecture = ARCHITECTURES[process.arch];
  if (architecture === undefined) throw new Error(`there is no Node of ours for ${process.arch}`);
  const node = pinnedNode();
  rmSync(options.folder, { recursive: true, force: true });
  return writeLayout(options.folder, {
    name: IMAGE_NAME,
    version: VERSION,
    architecture,
    layers: [
      { what: "C library and what it looks for", entries: await systemFiles(node) },
      { what: `Node ${process.versions.node}`, entries: nodeFiles(node) },
      { what: `Fairlead ${VERSION}`, entries: programFiles(options.bundle) },
    ],
    entrypoint: ["/usr/local/bin/fairlead"],
    env: ["PATH=/usr/local/bin"],
    user: `${USER}:${USER}`,
    labels: {
      "org.opencontainers.image.title": "fairlead",
      "org.opencontainers.image.description": "Fleet networking for Kubernetes.",
      "org.opencontainers.image.version": VERSION,
      "org.opencontainers.image.licenses": "Apache-2.0",
    },
    modified: options.modified ?? 0,
    compression: options.compression ?? 9,
  });
}
