import { VERSION } from "@fairlead/base/version.ts";
import { completionOf } from "@fairlead/fairlead/completion/main.ts";
import { file, withFolders } from "../image/content.ts";
import type { TarEntry } from "../image/tar.ts";
import { type Archiving, textOf, writeTgz } from "./files.ts";
import type { Architecture } from "./platform.ts";

const ARCHITECTURES = { x64: "amd64", arm64: "arm64" } as const;

export interface DebOptions extends Archiving {
  readonly architecture: Architecture;
  readonly executable: Uint8Array;
  readonly notices: string;
}

export const debName = (architecture: Architecture): string =>
  `fairlead_${VERSION}_${ARCHITECTURES[architecture]}.deb`;

/** A Debian package (deb(5)) of the single executable. */
export async function debPackage(options: DebOptions): Promise<Buffer> {
  const doc = "usr/share/doc/fairlead";
  const entries = [
    file("usr/bin/fairlead", options.executable, 0o755),
    // "kubectl fairlead" starts the first, and the second to complete its arguments.
    link("usr/bin/kubectl-fairlead"),
    link("usr/bin/kubectl_complete-fairlead"),
    file(`${doc}/copyright`, textOf("LICENSE")),
    file(`${doc}/NOTICES`, options.notices),
    file(`${doc}/README.md`, textOf("README.md")),
    ...(await completions()),
  ];
  const bytes = entries.reduce((sum, it) => sum + (it.type === "file" ? it.data.length : 0), 0);
  return ar(
    [
      ["debian-binary", Buffer.from("2.0\n")],
      ["control.tar.gz", writeTgz([file("control", control(options.architecture, bytes))], options)],
      ["data.tar.gz", writeTgz(withFolders(entries), options)],
    ],
    options.modified,
  );
}

/** A link to "fairlead" in the same folder. */
const link = (path: string): TarEntry => ({ type: "link", path, target: "fairlead", mode: 0o777 });

/** Where Debian's shells look for completions. */
async function completions(): Promise<readonly TarEntry[]> {
  const bash = "usr/share/bash-completion/completions";
  return [
    file(`${bash}/fairlead`, await completionOf("bash")),
    link(`${bash}/kubectl-fairlead`),
    file("usr/share/zsh/vendor-completions/_fairlead", await completionOf("zsh")),
    file("usr/share/fish/vendor_completions.d/fairlead.fish", await completionOf("fish")),
  ];
}

/** What the executable is linked with, and the programs that `fairlead lab` starts. */
function control(architecture: Architecture, bytes: number): string {
  return `Package: fairlead
Version: ${VERSION}
Architecture: ${ARCHITECTURES[architecture]}
Maintainer: Fairlead <noreply@fairlead.dev>
Installed-Size: ${Math.ceil(bytes / 1024)}
Depends: libc6 (>= 2.28), libstdc++6 (>= 6), libgcc-s1
Recommends: iproute2, nftables, procps, util-linux, conntrack
Suggests: wireguard-tools, wireguard-go, bash-completion, curl, bind9-dnsutils, socat
Section: admin
Priority: optional
Homepage: https://fairlead.dev
Description: fleet networking for Kubernetes
 Makes many Kubernetes clusters work as one network: a Service that one
 cluster exports is used from the others by name or through one load
 balancer. The one program is the hub's manager, the members' manager, the
 command line, and a fleet on one machine to try it.
`;
}

/** An archive in the format of ar(5), as dpkg reads it. */
function ar(members: readonly (readonly [name: string, data: Uint8Array])[], modified: number): Buffer {
  const parts = members.flatMap(([name, data]) => {
    const fields = [
      name.padEnd(16),
      String(modified).padEnd(12),
      "0".padEnd(6),
      "0".padEnd(6),
      "100644".padEnd(8),
    ];
    const header = `${fields.join("")}${String(data.length).padEnd(10)}\`\n`;
    return [Buffer.from(header), data, Buffer.from(data.length % 2 === 0 ? "" : "\n")];
  });
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts]);
}
