import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";

/** Name of the image in the archive. */
export const PAUSE_IMAGE = "fairlead.test/pause:1";

/** Makes a container image whose only program waits for ever, as an archive in the OCI image layout. */
export async function makePauseImage(folder: string, signal: AbortSignal): Promise<string> {
  const [root, layout] = [join(folder, "root"), join(folder, "layout")];
  const blobs = join(layout, "blobs", "sha256");
  for (const it of [root, blobs]) mkdirSync(it, { recursive: true });
  writeFileSync(join(root, "pause"), pauseProgram());
  chmodSync(join(root, "pause"), 0o755);
  const tar = async (from: string): Promise<Buffer> => {
    const file = join(folder, "files.tar");
    await exec("tar", ["--create", "--file", file, "--directory", from, "."], { signal });
    return readFileSync(file);
  };
  const addBlob = (mediaType: string, content: Buffer | object) => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
    const hash = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(blobs, hash), bytes);
    return { mediaType, digest: `sha256:${hash}`, size: bytes.length };
  };
  const layer = addBlob("application/vnd.oci.image.layer.v1.tar", await tar(root));
  const config = addBlob("application/vnd.oci.image.config.v1+json", {
    architecture: "amd64",
    os: "linux",
    config: { Entrypoint: ["/pause"] },
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = addBlob(mediaType, { schemaVersion: 2, mediaType, config, layers: [layer] });
  const annotations = { "io.containerd.image.name": PAUSE_IMAGE };
  writeFileSync(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  writeFileSync(
    join(layout, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  );
  const archive = join(folder, "pause.tar");
  writeFileSync(archive, await tar(layout));
  return archive;
}

/** Where the program is loaded. */
const ADDRESS = 0x40_0000n;
const ELF_HEADER = 64;
const PROGRAM_HEADER = 56;

/** A static ELF program for x86-64 (elf(5)) of one segment. */
function pauseProgram(): Buffer {
  // mov eax, 34 (pause); syscall; jmp to the beginning
  const code = Buffer.from("b8220000000f05ebf7", "hex");
  const start = ELF_HEADER + PROGRAM_HEADER;
  const program = Buffer.alloc(start + code.length);
  // Magic, 64 bits, little endian, version 1; executable for x86-64.
  program.write("7f454c46020101", 0, "hex");
  program.writeUInt16LE(2, 16);
  program.writeUInt16LE(62, 18);
  program.writeUInt32LE(1, 20);
  program.writeBigUInt64LE(ADDRESS + BigInt(start), 24);
  program.writeBigUInt64LE(BigInt(ELF_HEADER), 32);
  program.writeUInt16LE(ELF_HEADER, 52);
  program.writeUInt16LE(PROGRAM_HEADER, 54);
  program.writeUInt16LE(1, 56);
  // A segment to load, readable and executable: the whole file.
  program.writeUInt32LE(1, ELF_HEADER);
  program.writeUInt32LE(5, ELF_HEADER + 4);
  for (const at of [16, 24]) program.writeBigUInt64LE(ADDRESS, ELF_HEADER + at);
  for (const at of [32, 40]) program.writeBigUInt64LE(BigInt(program.length), ELF_HEADER + at);
  program.writeBigUInt64LE(0x1000n, ELF_HEADER + 48);
  code.copy(program, start);
  return program;
}
