import { duplexPair } from "node:stream";
import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { spdyChannels } from "./spdy-channels.ts";
import { decodeFrame, encodeSynStream } from "./spdy/frames.ts";
import { HeaderWriter } from "./spdy/header-block.ts";

it("a client of a terminal that opens a stream after a quick command gets an answer and its end, and the connection ends later", async () => {
  const clock = new FakeClock();
  const [client, server] = duplexPair();
  const wish = { stdin: false, stdout: true, stderr: true, tty: true };
  const channels = spdyChannels(server, Buffer.alloc(0), { wish, protocol: "v4.channel.k8s.io", clock });
  const frames: string[] = [];
  let pending = Buffer.alloc(0);
  client.on("data", (bytes: Buffer) => {
    pending = Buffer.concat([pending, bytes]);
    for (let next = decodeFrame(pending); next !== undefined; next = decodeFrame(pending)) {
      const { frame } = next;
      // SYN_REPLY is "other" to a server.
      const more = frame.type === "data" ? `${frame.streamId}${frame.isLast ? " last" : ""}` : "";
      frames.push(`${frame.type === "other" ? "reply" : frame.type} ${more}`.trim());
      pending = pending.subarray(next.length);
    }
  });
  const writer = new HeaderWriter();
  const open = async (id: number, streamtype: string): Promise<void> =>
    void client.write(encodeSynStream(id, await writer.write(new Map([["streamtype", streamtype]]))));
  await open(1, "error");
  await open(3, "stdout");
  await (await channels)?.finish({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" });
  const before = ["reply", "reply", "data 3", "data 3 last", "data 1", "data 1 last"];
  await expect.poll(() => frames).toEqual(before);
  await open(5, "stderr");
  await expect.poll(() => frames).toEqual([...before, "reply", "data 5", "data 5 last"]);
  await clock.advance(5000);
  await expect.poll(() => frames.at(-1)).toBe("goaway");
  client.destroy();
  writer.close();
});
