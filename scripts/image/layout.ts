import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type TarEntry, writeTar } from "./tar.ts";

/** An image as a folder (OCI image layout 1.1), which registries' tools copy from. The same content has the same digests. */

export interface ImageSpec {
  readonly name: string;
  readonly version: string;
  readonly architecture: "amd64" | "arm64";
  readonly layers: readonly { readonly what: string; readonly entries: readonly TarEntry[] }[];
  readonly entrypoint: readonly string[];
  readonly env: readonly string[];
  readonly user: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Of all files. Unit: seconds since the Unix epoch. */
  readonly modified: number;
  /** 1 to 9. */
  readonly compression: number;
}

const MEDIA = "application/vnd.oci.image";

/** Writes the layout of an image into `folder`, and returns the digest of its manifest. */
export function writeLayout(folder: string, spec: ImageSpec): string {
  const tars = spec.layers.map(({ what, entries }) => ({ what, tar: writeTar(entries, spec.modified) }));
  const created = new Date(spec.modified * 1000).toISOString().replace(".000", "");
  const platform = { architecture: spec.architecture, os: "linux" };
  const config = {
    created,
    ...platform,
    config: {
      User: spec.user,
      Env: spec.env,
      Entrypoint: spec.entrypoint,
      WorkingDir: "/",
      Labels: spec.labels,
    },
    rootfs: { type: "layers", diff_ids: tars.map(({ tar }) => sha256(tar)) },
    history: tars.map(({ what }) => ({ created, created_by: what })),
  };
  return writeArtifact(folder, {
    config: { mediaType: `${MEDIA}.config.v1+json`, data: Buffer.from(JSON.stringify(config)) },
    layers: tars.map(({ tar }) => ({
      mediaType: `${MEDIA}.layer.v1.tar+gzip`,
      data: gzipSync(tar, { level: spec.compression }),
    })),
    annotations: spec.labels,
    platform,
    references: {
      "org.opencontainers.image.ref.name": spec.version,
      // By which container engines name what they load.
      "io.containerd.image.name": `${spec.name}:${spec.version}`,
    },
  });
}

interface Blob {
  readonly mediaType: string;
  readonly data: Uint8Array;
}

export interface ArtifactSpec {
  readonly config: Blob;
  readonly layers: readonly Blob[];
  /** Of the manifest. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly platform?: { readonly architecture: string; readonly os: string };
  /** Annotations by which tools find the manifest in the layout's index. */
  readonly references: Readonly<Record<string, string>>;
}

/** Writes a layout with one artifact into `folder`, and returns the digest of its manifest. */
export function writeArtifact(folder: string, spec: ArtifactSpec): string {
  const blobs = join(folder, "blobs", "sha256");
  mkdirSync(blobs, { recursive: true });
  const put = ({ mediaType, data }: Blob) => {
    const digest = sha256(data);
    writeFileSync(join(blobs, digest.slice("sha256:".length)), data);
    return { mediaType, digest, size: data.length };
  };
  const content = {
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config: put(spec.config),
    layers: spec.layers.map((it) => put(it)),
    annotations: spec.annotations,
  };
  const manifest = put({ mediaType: content.mediaType, data: Buffer.from(JSON.stringify(content)) });
  const index = {
    schemaVersion: 2,
    mediaType: `${MEDIA}.index.v1+json`,
    manifests: [
      {
        ...manifest,
        ...(spec.platform === undefined ? {} : { platform: spec.platform }),
        annotations: spec.references,
      },
    ],
  };
  writeFileSync(join(folder, "index.json"), JSON.stringify(index));
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return manifest.digest;
}

function sha256(data: Uint8Array): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
