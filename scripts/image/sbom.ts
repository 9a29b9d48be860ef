import { createHash } from "node:crypto";
import type { Part } from "./parts.ts";
import type { TarEntry } from "./tar.ts";

/** The content of an image or executable, for scanners of vulnerabilities and licences: SPDX 2.3 (ISO/IEC 5962), as JSON. Pure. */

export interface Content {
  readonly part: Part;
  /** What it is made of and does not come apart from. */
  readonly within: readonly Part[];
  readonly files: readonly TarEntry[];
}

export interface ProductFacts {
  readonly purpose: "CONTAINER" | "APPLICATION";
  readonly name: string;
  readonly version: string;
  /** Of the image's manifest, or of the file. */
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
const IDS = { CONTAINER: "SPDXRef-image", APPLICATION: "SPDXRef-executable" } as const;

/** The same product has the same text. */
export function renderSbom(product: ProductFacts, contents: readonly Content[]): string {
  const subject = IDS[product.purpose];
  const hex = product.digest.replace("sha256:", "");
  const files = contents.flatMap((content) =>
    content.files.flatMap((it) => (it.type === "file" ? [fileOf(it.path, it.data)] : [])),
  );
  const packages: Package[] = [
    {
      ...packageOf(subject, {
        name: product.name,
        version: product.version,
        license: product.license,
        purl: purlOf(product),
        notice: undefined,
      }),
      primaryPackagePurpose: product.purpose,
      checksums: [{ algorithm: "SHA256", checksumValue: hex }],
      filesAnalyzed: true,
      licenseInfoFromFiles: [UNKNOWN],
      packageVerificationCode: { packageVerificationCodeValue: verificationCode(files) },
    },
  ];
  const relationships: Relationship[] = [relate(DOCUMENT, "DESCRIBES", subject)];
  const add = (parent: string, part: Part): string => {
    const id = `${parent === subject ? "SPDXRef" : parent}-${plain(part.name)}-${plain(part.version ?? "")}`;
    packages.push(packageOf(id, part));
    relationships.push(relate(parent, "CONTAINS", id));
    return id;
  };
  for (const content of contents) {
    const id = add(subject, content.part);
    for (const it of content.within) add(id, it);
    for (const it of content.files) {
      if (it.type !== "file") continue;
      relationships.push(relate(subject, "CONTAINS", fileId(it.path)));
      // Packages need not be here with all of their files: which of them these are from.
      relationships.push(relate(fileId(it.path), "GENERATED_FROM", id));
    }
  }
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: DOCUMENT,
    name: `${product.name}:${product.version}`,
    documentNamespace: `https://${product.name}/spdx/${hex}`,
    creationInfo: {
      created: new Date(product.modified * 1000).toISOString().replace(".000", ""),
      creators: [`Tool: fairlead-build-${product.version}`],
    },
    packages,
    files,
    relationships,
  };
  return `${JSON.stringify(document, undefined, 1)}\n`;
}

function purlOf({ purpose, name, version, digest }: ProductFacts): string {
  const short = name.split("/").at(-1);
  return purpose === "CONTAINER"
    ? `pkg:oci/${short}@${encodeURIComponent(digest)}?tag=${version}`
    : `pkg:generic/${short}@${version}?checksum=${encodeURIComponent(digest)}`;
}

function packageOf(id: string, { name, version, license, purl, sha256 }: Part): Package {
  return {
    SPDXID: id,
    name,
    ...(version === undefined ? {} : { versionInfo: version }),
    downloadLocation: UNKNOWN,
    filesAnalyzed: false,
    licenseConcluded: UNKNOWN,
    licenseDeclared: license ?? UNKNOWN,
    copyrightText: UNKNOWN,
    ...(sha256 === undefined ? {} : { checksums: [{ algorithm: "SHA256", checksumValue: sha256 }] }),
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
