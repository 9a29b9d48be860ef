import { rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { VERSION } from "@fairlead/base/version.ts";
import {
  authorities,
  koffiContent,
  libraries,
  LICENSE,
  nodeContent,
  pinnedNode,
  programContent,
  USER,
  withFolders,
} from "./content.ts";
import { writeLayout } from "./layout.ts";
import type { Part } from "./parts.ts";
import { renderSbom } from "./sbom.ts";
import { toolContents } from "./tools.ts";

export interface BuildImageOptions {
  /** Folder with the bundle, and nothing of an older one. */
  readonly bundle: string;
  /** What is bundled in it. */
  readonly packages: readonly Part[];
  /** Folder of the layout; replaced. The list of the image's content is next to it, in a file of this name and `.spdx.json`. */
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
  if (architecture === undefined)
    throw new Error(`cannot build an image for ${process.arch}: no Node is pinned for it`);
  const program = pinnedNode();
  const [node, libc] = await Promise.all([nodeContent(program), libraries(program)]);
  const fairlead = programContent(options.bundle, options.packages);
  const system = [...libc, authorities()];
  const provided = new Set(libc.flatMap(({ files }) => files.map((it) => basename(it.path))));
  const tools = await toolContents(architecture, provided);
  const koffi = koffiContent();
  const { modified = 0, folder } = options;
  rmSync(folder, { recursive: true, force: true });
  const digest = writeLayout(folder, {
    name: IMAGE_NAME,
    version: VERSION,
    architecture,
    layers: [
      { what: "C library and authorities", entries: withFolders(system.flatMap((it) => it.files)) },
      { what: `Node ${node.part.version}`, entries: withFolders(node.files) },
      {
        what: "programs that fairlead node and fairlead relay start",
        entries: withFolders(tools.flatMap((it) => it.files)),
      },
      { what: `Fairlead ${VERSION}`, entries: withFolders([...koffi.files, ...fairlead.files]) },
    ],
    entrypoint: ["/usr/local/bin/fairlead"],
    env: ["PATH=/usr/local/bin:/usr/bin"],
    user: `${USER}:${USER}`,
    labels: {
      "org.opencontainers.image.title": "fairlead",
      "org.opencontainers.image.description": "Fleet networking for Kubernetes.",
      "org.opencontainers.image.version": VERSION,
      "org.opencontainers.image.licenses": LICENSE,
    },
    modified,
    compression: options.compression ?? 9,
  });
  const facts = {
    purpose: "CONTAINER" as const,
    name: IMAGE_NAME,
    version: VERSION,
    digest,
    license: LICENSE,
    modified,
  };
  writeFileSync(`${folder}.spdx.json`, renderSbom(facts, [fairlead, koffi, node, ...system, ...tools]));
  return digest;
}
