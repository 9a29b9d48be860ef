import { execFileSync } from "node:child_process";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { generatePrivateKey } from "./keys.ts";
import { createCertificateRequest, parseCertificateRequest } from "./request.ts";

describe("a request for a certificate", () => {
  it("is read as it was written, whatever stands in the names", () => {
    const key = generatePrivateKey();
    const text = fc.stringMatching(/^[^\x00-\x1f\x7f]{1,20}$/u);
    fc.assert(
      fc.property(text, fc.array(text, { maxLength: 3 }), (commonName, organizations) => {
        const read = parseCertificateRequest(createCertificateRequest(key, { commonName, organizations }));
        expect([read.commonName, read.organizations]).toEqual([commonName, organizations]);
        expect([read.dnsNames, read.uris, read.hasOtherNames]).toEqual([[], [], false]);
      }),
      { numRuns: 50 },
    );
  });

  it("is one to OpenSSL too", () => {
    const pem = createCertificateRequest(generatePrivateKey(), {
      commonName: "fleet:member:east",
      organizations: ["fleet:members"],
    });
    const said = execFileSync("openssl", ["req", "-noout", "-verify", "-subject"], {
      input: pem,
      encoding: "utf8",
      stdio: ["pipe", "pipe", "pipe"],
    });
    expect(said.replaceAll(" ", "")).toContain("O=fleet:members,CN=fleet:member:east");
  });
});
