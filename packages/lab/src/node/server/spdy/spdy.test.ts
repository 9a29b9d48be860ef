import { deflateSync, constants } from "node:zlib";
import { duplexPair } from "node:stream";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SPDY_DICTIONARY } from "./dictionary.ts";
import {
  decodeFrame,
  encodeData,
  encodePing,
  encodeReset,
  encodeSynReply,
  encodeSynStream,
} from "./frames.ts";
import { decodeHeaders, encodeHeaders, HeaderReader, HeaderWriter } from "./header-block.ts";
import { SpdySession, type SpdyStream } from "./session.ts";

describe("the dictionary of SPDY/3", () => {
  it("is the one that every implementation has: 1423 bytes, Adler-32 e3c6a7c2", () => {
    expect(SPDY_DICTIONARY).toHaveLength(1423);
    // A zlib stream with a dictionary names it in bytes 2 to 5 (RFC 1950, section 2.2).
    const stream = deflateSync("x", { dictionary: SPDY_DICTIONARY, finishFlush: constants.Z_SYNC_FLUSH });
    expect(stream.subarray(2, 6).toString("hex")).toBe("e3c6a7c2");
  });
});

const headers = fc
  .dictionary(fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/), fc.string())
  .map((it) => new Map(Object.entries(it)));

describe("header blocks", () => {
  it("say after decoding what they said before", () => {
    fc.assert(
      fc.property(headers, (block) => {
        expect(decodeHeaders(encodeHeaders(block))).toEqual(block);
      }),
    );
  });

  it("share one zlib stream in each direction", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(headers, { maxLength: 5 }), async (blocks) => {
        const [writer, reader] = [new HeaderWriter(), new HeaderReader()];
        for (const block of blocks) expect(await reader.read(await writer.write(block))).toEqual(block);
        writer.close();
        reader.close();
      }),
      { numRuns: 30 },
    );
  });

  it("that are cut short or broken are refused, not read past their end", async () => {
    fc.assert(
      fc.property(headers, fc.nat(), (block, cut) => {
        const bytes = encodeHeaders(block);
        fc.pre(block.size > 0);
        expect(() => decodeHeaders(bytes.subarray(0, cut % bytes.length))).toThrow(RangeError);
      }),
    );
    await expect(new HeaderReader().read(Buffer.from("no zlib at all"))).rejects.toThrow(
      "incorrect header check",
    );
  });
});

describe("frames", () => {
  it("are found one after another wherever the bytes were split", () => {
    const bytes = Buffer.concat([
      encodeSynStream(1, Buffer.from("block")),
      encodeData(1, Buffer.from("text"), false),
      encodePing(Buffer.from([0, 0, 0, 7])),
      encodeReset(3),
      encodeSynReply(1, Buffer.from("block")),
      encodeData(1, Buffer.alloc(0), true),
    ]);
    fc.assert(
      fc.property(fc.nat(bytes.length), (at) => {
        const types: string[] = [];
        let pending = Buffer.alloc(0);
        for (const part of [bytes.subarray(0, at), bytes.subarray(at)]) {
          pending = Buffer.concat([pending, part]);
          for (let next = decodeFrame(pending); next !== undefined; next = decodeFrame(pending)) {
            types.push(next.frame.type);
            pending = pending.subarray(next.length);
          }
        }
        expect(types).toEqual(["syn-stream", "data", "ping", "rst-stream", "other", "data"]);
      }),
    );
  });

  it("never make the decoder throw", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        expect(() => decodeFrame(Buffer.from(bytes))).not.toThrow();
      }),
    );
  });
});

describe("a session", () => {
  it("answers pings, opens streams, and carries both directions of each until its end", async () => {
    const [client, server] = duplexPair();
    const opened: SpdyStream[] = [];
    const session = new SpdySession(server, (stream) => {
      opened.push(stream);
      stream.pipe(stream);
    });
    const ended = session.run(Buffer.alloc(0));
    const writer = new HeaderWriter();
    client.write(encodePing(Buffer.from([0, 0, 0, 9])));
    client.write(encodeSynStream(1, await writer.write(new Map([["streamtype", "data"]]))));
    client.write(encodeData(1, Buffer.from("echo"), false));
    client.write(encodeData(1, Buffer.alloc(0), true));
    const seen: string[] = [];
    let pending = Buffer.alloc(0);
    for await (const chunk of client as AsyncIterable<Buffer>) {
      pending = Buffer.concat([pending, chunk]);
      for (let next = decodeFrame(pending); next !== undefined; next = decodeFrame(pending)) {
        const { frame } = next;
        seen.push(
          frame.type === "data"
            ? `data ${frame.streamId} ${frame.data.toString()}${frame.isLast ? " last" : ""}`
            : frame.type,
        );
        pending = pending.subarray(next.length);
      }
      if (seen.at(-1)?.endsWith("last") === true) break;
    }
    await ended;
    expect(opened.map((it) => it.headers.get("streamtype"))).toEqual(["data"]);
    expect(seen).toEqual(["ping", "other", "data 1 echo", "data 1  last"]);
  });

  it("ends its streams when the connection is cut, or holds nonsense", async () => {
    for (const last of [Buffer.alloc(0), encodeSynStream(3, Buffer.from("nonsense"))]) {
      const [client, server] = duplexPair();
      const closed = Promise.withResolvers<void>();
      const ended = new SpdySession(server, (stream) => {
        stream.resume().once("close", () => closed.resolve());
      }).run(Buffer.alloc(0));
      client.on("error", () => {});
      client.write(encodeSynStream(1, await new HeaderWriter().write(new Map())));
      client.end(last);
      client.resume();
      await Promise.all([ended, closed.promise]);
    }
  });
});
