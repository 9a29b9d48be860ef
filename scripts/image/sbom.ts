import { createHash } from "node:crypto";
import type { Part } from "./parts.ts";
import type { TarEntry } from "./tar.ts";

/** What is in an image, for those who look for vulnerabilities and licences: SPDX 2.3 (ISO/IEC 5962), as JSON. Pure. */

export interface Content {
  readonly part: Part;
  /** What it is made of and does not come apart from. */
  readonly within: readonly Part[];
  readonly files: readonly TarEntry[];
}

export interface ImageFacts {
  readonly name: string;
  readonly version: string;
  /** Of the manifest. */
  readonly digest: string;
  readonly license: string;
  /** Of all files. Unit: seconds since the Unix epoch. */
  readonly modified: number;
}

interface Package {
  readonly SPDXID: string;
  readonly [field: string]: unknown;
}

interface Relationship {
  readonly spdxElementId: string;
  readonly relationshipType: "DESCRIBES" | "CONTAINS" | "GENERATED_FROM";
  readonly relatedSpdxElement: string;
}

const UNKNOWN = "NOASSERTION";
const DOCUMENT = "SPDXRef-DOCUMENT";
const IMAGE = "SPDXRef-image";

/** The same image has the same text. */
export function renderSbom(image: ImageFacts, contents: readonly Content[]): string {
  const hex = image.digest.replace("sha256:", "");
  const files = contents.flatMap((content) =>
    content.files.flatMap((it) => (it.type === "file" ? [fileOf(it.path, it.data)] : [])),
  );
  const packages: Package[] = [
    {
      ...packageOf(IMAGE, {
        name: image.name,
        version: image.version,
        license: image.license,
        purl: `pkg:oci/${image.name.split("/").at(-1)}@${encodeURIComponent(image.digest)}?tag=${image.version}`,
        notice: undefined,
      }),
      primaryPackagePurpose: "CONTAINER",
      checksums: [{ algorithm: "SHA256", checksumValue: hex }],
      filesAnalyzed: true,
      licenseInfoFromFiles: [UNKNOWN],
      packageVerificationCode: { packageVerificationCodeValue: verificationCode(files) },
    },
  ];
  const relationships: Relationship[] = [relate(DOCUMENT, "DESCRIBES", IMAGE)];
  const add = (parent: string, part: Part): string => {
    const id = `${parent === IMAGE ? "SPDXRef" : parent}-${plain(part.name)}-${plain(part.version ?? "")}`;
    packages.push(packageOf(id, part));
    relationships.push(relate(parent, "CONTAINS", id));
    return id;
  };
  for (const content of contents) {
    const id = add(IMAGE, content.part);
    for (const it of content.within) add(id, it);
    for (const it of content.files) {
      if (it.type !== "file") continue;
      relationships.push(relate(IMAGE, "CONTAINS", fileId(it.path)));
      // Packages need not be here with all of their files: which of them these are from.
      relationships.push(relate(fileId(it.path), "GENERATED_FROM", id));
    }
  }
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: DOCUMENT,
    name: `${image.name}:${image.version}`,
    documentNamespace: `https://${image.name}/spdx/${hex}`,
    creationInfo: {
      created: new Date(image.modified * 1000).toISOString().replace(".000", ""),
      creators: [`Tool: fairlead-build-${image.version}`],
    },
    packages,
    files,
    relationships,
  };
  return `${JSON.stringify(document, undefined, 1)}\n`;
}

function packageOf(id: string, { name, version, license, purl }: Part): Package {
  return {
    SPDXID: id,
    name,
    ...(version === undefined ? {} : { versionInfo: version }),
    downloadLocation: UNKNOWN,
    filesAnalyzed: false,
    licenseConcluded: UNKNOWN,
    licenseDeclared: license ?? UNKNOWN,
    copyrightText: UNKNOWN,
    ...(purl === undefined
      ? {}
      : {
          externalRefs: [
            { referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl },
          ],
        }),
  };
}

interface FileOf extends Package {
  readonly checksums: readonly [Checksum, Checksum];
}

interface Checksum {
  readonly algorithm: string;
  readonly checksumValue: string;
}

/** Of all files of a package (SPDX 2.3, clause 7.9). */
function verificationCode(files: readonly FileOf[]): string {
  const sums = files.map((it) => it.checksums[0].checksumValue).toSorted();
  return createHash("sha1").update(sums.join("")).digest("hex");
}

function fileId(path: string): string {
  return `SPDXRef-file-${createHash("sha256").update(path).digest("hex").slice(0, 16)}`;
}

function fileOf(path: string, data: Uint8Array): FileOf {
  const sum = (algorithm: "sha1" | "sha256"): Checksum => ({
    algorithm: algorithm.toUpperCase(),
    checksumValue: createHash(algorithm).update(data).digest("hex"),
  });
  return {
    SPDXID: fileId(path),
    fileName: `./${path}`,
    // The former has to be there, the latter is what people compare.
    checksums: [sum("sha1"), sum("sha256")],
    licenseConcluded: UNKNOWN,
    licenseInfoInFiles: [UNKNOWN],
    copyrightText: UNKNOWN,
  };
}

function relate(
  spdxElementId: string,
  relationshipType: Relationship["relationshipType"],
  relatedSpdxElement: string,
): Relationship {
  return { spdxElementId, relationshipType, relatedSpdxElement };
}

/** What an identifier may have in it. */
function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9.-]+/g, "-").replace(/^-/, "");
}
