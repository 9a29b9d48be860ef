/**
 * The OpenAPI v2 document: valid, and without definitions. Those are published in v3, which clients since 1.27 read; a
 * client that validates by v2 (kubectl does so for `kind: List`) finds no schema for a kind there and leaves the check
 * to the server, which makes it anyway.
 */

/** The media type (Go clients send it with an "@" that their own parser rejects in a response); the body is a Document of gnostic's openapi.v2. */
export const OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

const TITLE = "Kubernetes";

export function openapiV2Json(version: string): string {
  return JSON.stringify({ swagger: "2.0", info: { title: TITLE, version }, paths: {}, definitions: {} });
}

/** Document { 1 swagger, 2 info { 1 title, 2 version } }. */
export function openapiV2Protobuf(version: string): Buffer {
  const info = Buffer.concat([
    lengthDelimited(1, Buffer.from(TITLE)),
    lengthDelimited(2, Buffer.from(version)),
  ]);
  return Buffer.concat([lengthDelimited(1, Buffer.from("2.0")), lengthDelimited(2, info)]);
}

/** A field of wire type 2. Everything here is shorter than 128 bytes, so that its length is one byte. */
function lengthDelimited(field: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(field << 3) | 2, bytes.length]), bytes]);
}
