import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { generatePrivateKey } from "./keys.ts";
import { createCertificateRequest, parseCertificateRequest } from "./request.ts";

describe("a request for a certificate", () => {
  it("is read as it was written, whatever characters the names have", () => {
    const key = generatePrivateKey();
    const text = fc.stringMatching(/^[ -~\u{a0}-\u{2fff}]{1,20}$/u);
    fc.assert(
      fc.property(text, fc.array(text, { maxLength: 3 }), (commonName, organizations) => {
        const read = parseCertificateRequest(createCertificateRequest(key, { commonName, organizations }));
        expect([read.commonName, read.organizations]).toEqual([commonName, organizations]);
        expect([read.dnsNames, read.uris, read.hasOtherNames]).toEqual([[], [], false]);
      }),
      { numRuns: 50 },
    );
  });
});
