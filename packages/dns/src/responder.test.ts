import { seededRng } from "@fairlead/base/rng.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { decodeMessage } from "#wire/decode.ts";
import { encodeMessage } from "#wire/encode.ts";
import { type Edns, type Message, RCODE, type ResourceRecord, TYPE } from "#wire/types.ts";
import { createDnsMeters } from "./meters.ts";
import { createResolver, failure, type Resolve } from "./resolver.ts";
import { createResponder } from "./responder.ts";
import { RecordTree } from "./tree.ts";

const NAME = "many.zone.";
const EDNS: Edns = { udpSize: 4096, version: 0, dnssecOk: true, options: [] };

function treeOf(count: number): RecordTree {
  const tree = new RecordTree();
  tree.addZone({ origin: "zone.", negativeTtl: 5, serial: 1 });
  const records = Array.from({ length: count }, (_, address): ResourceRecord => ({
    name: NAME,
    class: 1,
    ttl: 5,
    data: { type: "A", address },
  }));
  tree.put("many", { records });
  return tree;
}

function responder(
  resolve: Resolve = createResolver({ rng: seededRng(1), tree: treeOf(200), isReady: () => true }),
) {
  const meters = createDnsMeters(noMetrics);
  return createResponder({ resolve, isRecursive: false, meters, log: silentLogger });
}

function query(more: Partial<Message> = {}): Message {
  return {
    id: 4711,
    response: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name: NAME, type: TYPE.A, class: 1 }],
    answers: [],
    authorities: [],
    additionals: [],
    ...more,
  };
}

async function answer(
  of: Message | Uint8Array,
  transport: "udp" | "tcp" = "udp",
): Promise<Message | undefined> {
  const bytes = await responder()(of instanceof Uint8Array ? of : encodeMessage(of), transport);
  return bytes === undefined ? undefined : decodeMessage(bytes);
}

describe("an answer", () => {
  it("carries the id, the question as it was spelled, and RD", async () => {
    const asked = query({ questions: [{ name: "MaNy.ZoNe.", type: TYPE.A, class: 1 }] });
    expect(await answer(asked, "tcp")).toMatchObject({
      id: 4711,
      response: true,
      authoritative: true,
      recursionDesired: true,
      recursionAvailable: false,
      questions: asked.questions,
    });
  });

  it.each([
    ["512 bytes without EDNS", undefined, 512],
    ["what the client takes", { ...EDNS, udpSize: 900 }, 900],
    ["512 bytes when the client says less", { ...EDNS, udpSize: 100 }, 512],
    ["1232 bytes whatever the client takes", EDNS, 1232],
  ])("over UDP has at most %s", async (_, edns, limit) => {
    const bytes = await responder()(encodeMessage(query(edns === undefined ? {} : { edns })), "udp");
    expect(bytes?.length).toBeLessThanOrEqual(limit);
    expect(bytes?.length).toBeGreaterThan(limit - 16);
    expect(decodeMessage(bytes ?? Buffer.alloc(0)).truncated).toBe(true);
  });

  it("over TCP is whole", async () => {
    const whole = await answer(query(), "tcp");
    expect(whole?.truncated).toBe(false);
    expect(whole?.answers).toHaveLength(200);
  });

  it("speaks EDNS exactly when the query does, and repeats DO", async () => {
    expect((await answer(query()))?.edns).toBeUndefined();
    expect((await answer(query({ edns: EDNS })))?.edns).toEqual({
      udpSize: 1232,
      version: 0,
      dnssecOk: true,
      options: [],
    });
  });

  it("to ANY is one record set", async () => {
    const said = await answer(query({ questions: [{ name: "zone.", type: TYPE.ANY, class: 1 }] }));
    expect(said?.answers.map((it) => it.data.type)).toEqual(["SOA"]);
  });

  it.each([
    ["an unknown opcode", query({ opcode: 5 }), RCODE.NOTIMP],
    ["no question", query({ questions: [] }), RCODE.FORMERR],
    ["two questions", query({ questions: [...query().questions, ...query().questions] }), RCODE.FORMERR],
    ["another class", query({ questions: [{ name: NAME, type: TYPE.A, class: 3 }] }), RCODE.REFUSED],
    ["a transfer", query({ questions: [{ name: "zone.", type: TYPE.AXFR, class: 1 }] }), RCODE.REFUSED],
    ["a later EDNS version", query({ edns: { ...EDNS, version: 1 } }), RCODE.BADVERS],
    [
      "a name of another zone",
      query({ questions: [{ name: "a.b.", type: TYPE.A, class: 1 }] }),
      RCODE.REFUSED,
    ],
  ])("to %s is the right refusal", async (_, asked, rcode) => {
    expect((await answer(asked))?.rcode).toBe(rcode);
  });

  it("to a broken query is FORMERR with its id", async () => {
    const broken = Buffer.from(encodeMessage(query())).subarray(0, 20);
    expect(await answer(broken)).toMatchObject({ id: 4711, rcode: RCODE.FORMERR, questions: [] });
  });

  it("to an answer is silence, and so it is to half a header", async () => {
    expect(await answer(query({ response: true }))).toBeUndefined();
    expect(await answer(Buffer.from([1, 2, 3]))).toBeUndefined();
  });

  const broken: ResourceRecord = { name: "no-final-dot", class: 1, ttl: 5, data: { type: "A", address: 1 } };
  it.each<readonly [string, Resolve]>([
    [
      "finding it fails at once",
      () => {
        throw new Error("broken");
      },
    ],
    ["finding it fails later", () => Promise.reject(new Error("broken"))],
    ["it cannot be written", () => ({ ...failure(RCODE.NOERROR), answers: [broken] })],
    [
      "it came late and cannot be written",
      () => Promise.resolve({ ...failure(RCODE.NOERROR), answers: [broken] }),
    ],
  ])("is SERVFAIL when %s", async (_, resolve) => {
    const bytes = await responder(resolve)(encodeMessage(query()), "udp");
    expect(decodeMessage(bytes ?? Buffer.alloc(0)).rcode).toBe(RCODE.SERVFAIL);
  });

  it("is a message or silence, whatever arrives", async () => {
    const respond = responder();
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 64 }), fc.nat(), async (noise, at) => {
        const bytes = Buffer.from(encodeMessage(query({ edns: EDNS })));
        bytes.set(noise.subarray(0, 4), at % (bytes.length - 4));
        for (const input of [noise, bytes]) {
          const said = await respond(input, "udp");
          if (said !== undefined) expect(decodeMessage(said).response).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("aliases", () => {
  const alias = (name: string, target: string): ResourceRecord => ({
    name,
    class: 1,
    ttl: 5,
    data: { type: "CNAME", target },
  });

  it("are followed inside the own zones", async () => {
    const tree = treeOf(1);
    tree.put("alias", { records: [alias("x.zone.", "y.zone."), alias("y.zone.", NAME)] });
    const said = await createResolver({ rng: seededRng(1), tree, isReady: () => true })({
      name: "x.zone.",
      type: TYPE.A,
      class: 1,
    });
    expect(said.answers.map((it) => it.data.type)).toEqual(["CNAME", "CNAME", "A"]);
  });

  it("that go in a circle are SERVFAIL", async () => {
    const tree = treeOf(1);
    tree.put("alias", { records: [alias("x.zone.", "y.zone."), alias("y.zone.", "x.zone.")] });
    const said = await createResolver({ rng: seededRng(1), tree, isReady: () => true })({
      name: "x.zone.",
      type: TYPE.A,
      class: 1,
    });
    expect(said).toMatchObject({ rcode: RCODE.SERVFAIL, answers: [] });
  });

  it("are followed into another server's domain, and are answered alone if there is no such server", async () => {
    const tree = treeOf(1);
    tree.put("alias", { records: [alias("x.zone.", "web.other.")] });
    const asked = { name: "x.zone.", type: TYPE.A, class: 1 };
    const alone = await createResolver({ rng: seededRng(1), tree, isReady: () => true })(asked);
    expect(alone).toMatchObject({ rcode: RCODE.NOERROR, answers: [alias("x.zone.", "web.other.")] });
    const other: ResourceRecord = { name: "web.other.", class: 1, ttl: 1, data: { type: "A", address: 7 } };
    const forwards = [
      { domain: "other.", ask: () => Promise.resolve({ ...failure(RCODE.NOERROR), answers: [other] }) },
    ];
    const both = await createResolver({ rng: seededRng(1), tree, isReady: () => true, forwards })(asked);
    expect(both.answers).toEqual([alias("x.zone.", "web.other."), other]);
  });
});
