import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { catalogueNames, type Machine, resolveImage } from "./catalogue.ts";
import { formatImage, parseImage } from "./reference.ts";

const FILES = [
  { source: "/root/fairlead/node", target: "/run/fairlead/node" },
  { source: "/root/fairlead/dist/1", target: "/run/fairlead/lib" },
];
const machine: Machine = {
  has: (program) => program !== "nginx",
  fairlead: ["/run/fairlead/node", "/run/fairlead/lib/fairlead.mjs"],
  fairleadFiles: FILES,
  hostname: "east-1",
  identity: { NODE_NAME: "east-1" },
};

describe("the name of an image", () => {
  it.each([
    ["busybox", "docker.io/library/busybox:latest"],
    ["busybox:1.36", "docker.io/library/busybox:1.36"],
    ["nicolaka/netshoot:v0.15", "docker.io/nicolaka/netshoot:v0.15"],
    ["localhost:5000/a/b", "localhost:5000/a/b:latest"],
    ["registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"],
    [`busybox@sha256:${"a".repeat(64)}`, `docker.io/library/busybox@sha256:${"a".repeat(64)}`],
  ])("%s means %s", (text, full) => {
    const reference = parseImage(text);
    expect(reference === undefined ? undefined : formatImage(reference)).toBe(full);
  });

  it.each(["", "Busybox", "a b", "a:", "a@sha256:zz", "../etc", "a//b", ":tag"])("cannot be %j", (text) => {
    expect(parseImage(text)).toBeUndefined();
  });

  it("stays the same once it is written in full", () => {
    const name = fc.stringMatching(/^[a-z0-9]{1,8}(\/[a-z0-9]{1,8}){0,2}$/);
    fc.assert(
      fc.property(name, fc.option(fc.stringMatching(/^[a-z0-9][a-z0-9.-]{0,8}$/)), (path, tag) => {
        const full = parseImage(tag === null ? path : `${path}:${tag}`);
        const text = full === undefined ? "" : formatImage(full);
        expect(parseImage(text)).toEqual(full);
      }),
    );
  });
});

describe("the catalogue", () => {
  it("finds an image by any of its spellings and tags", () => {
    for (const image of ["alpine/socat", "docker.io/alpine/socat:1.7.4.4"])
      expect(resolveImage(image, machine)).toMatchObject({ found: true, program: { entrypoint: ["socat"] } });
  });

  it("starts our own programs from the executable that runs now, with the name of the node in the environment", () => {
    expect(resolveImage("fairlead.dev/echo", machine)).toEqual({
      found: true,
      program: {
        image: "fairlead.dev/echo:latest",
        entrypoint: ["/run/fairlead/node", "/run/fairlead/lib/fairlead.mjs", "lab-echo"],
        cmd: [],
        env: {
          NODE_NAME: "east-1",
          PATH: "/run/fairlead/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        },
        needs: FILES,
        // As the real image has Node on its path.
        scripts: { node: "#!/bin/sh\nexec '/run/fairlead/node' \"$@\"\n" },
      },
    });
  });

  it("starts any program of Fairlead by the image that charts install", () => {
    expect(resolveImage("fairlead.dev/fairlead:0.1.0", machine)).toMatchObject({
      found: true,
      program: { entrypoint: ["/run/fairlead/node", "/run/fairlead/lib/fairlead.mjs"], cmd: [] },
    });
  });

  it("has the program of an image where its pods look for it", () => {
    const found = resolveImage("registry.k8s.io/e2e-test-images/agnhost:2.63.0", machine);
    expect(found).toMatchObject({ found: true, program: { entrypoint: ["/agnhost"], cmd: ["pause"] } });
    expect(found.found && found.program.scripts["/agnhost"]).toContain(
      `exec '/run/fairlead/node' '/run/fairlead/lib/fairlead.mjs' 'lab-agnhost' "$@"`,
    );
  });

  it("rejects an unknown image, and lists the known ones", () => {
    const result = resolveImage("example.org/app:v2", machine);
    expect(result).toMatchObject({ found: false, reason: "ErrImagePull" });
    expect(JSON.stringify(result)).toContain(catalogueNames().join(", "));
  });

  it("names the Debian package of a program that is not installed", () => {
    const result = resolveImage("curlimages/curl", { ...machine, has: () => false });
    expect(result).toMatchObject({ found: false, reason: "ErrImagePull" });
    expect(JSON.stringify(result)).toContain("install the Debian package: curl");
  });

  it("has the shell of busybox by the names that its pods use", () => {
    const found = resolveImage("busybox", machine);
    expect(found.found && found.program.scripts).toHaveProperty(["/bin/ash"]);
    expect(found.found && found.program.env["PATH"]).toMatch(/^\/run\/fairlead\/bin:/);
  });

  it("serves files of nginx by a program of Fairlead on a machine without nginx, with any arguments", () => {
    const found = resolveImage("nginx:1.14.2", machine);
    expect(found).toMatchObject({ found: true, program: { entrypoint: ["nginx"], needs: FILES } });
    expect(found.found && found.program.scripts["nginx"]).toBe(
      "#!/bin/sh\nexec '/run/fairlead/node' '/run/fairlead/lib/fairlead.mjs' 'lab-nginx'\n",
    );
    const real = resolveImage("nginx", { ...machine, has: () => true });
    expect(real.found && real.program.scripts["nginx"]).toContain("root /usr/share/nginx/html;");
  });

  it.each(["cilium/json-mock:1.2", `quay.io/cilium/json-mock:v1.3.8@sha256:${"a".repeat(64)}`])(
    "has %s",
    (image) => {
      expect(resolveImage(image, machine)).toMatchObject({ found: true });
    },
  );

  it("reports a malformed name", () => {
    expect(resolveImage("NGINX latest", machine)).toMatchObject({ found: false, reason: "InvalidImageName" });
  });
});
