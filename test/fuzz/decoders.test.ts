import { describe, expect, it } from "vitest";
import { seededRng } from "@fairlead/base/rng.ts";
import { mutate, mutateJson } from "./mutate.ts";
import { type Target, TARGETS } from "./targets.ts";

/** Inputs for each decoder; more are tried where FUZZ_RUNS says so, from another beginning where FUZZ_SEED does. */
const RUNS = Number(process.env["FUZZ_RUNS"] ?? 1000);
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);

/** What a decoder says to an input besides taking or refusing it. */
function crashOf({ run, refusals }: Target, input: Buffer): unknown {
  try {
    run(input);
    return undefined;
  } catch (error) {
    return refusals.some((it) => error instanceof it) ? undefined : error;
  }
}

describe("a decoder accepts or rejects any input", () => {
  it.each(TARGETS)(
    "$name",
    (target) => {
      const rng = seededRng(SEED);
      for (let count = 0; count < RUNS; count++) {
        const isExchanged = target.isJson === true && rng.random() < 0.8;
        const input = isExchanged ? mutateJson(target, rng) : mutate(target, rng);
        const crash = crashOf(target, input);
        if (crash !== undefined) {
          throw new Error(`${target.name}, input ${count}: ${JSON.stringify(input.toString("latin1"))}`, {
            cause: crash,
          });
        }
      }
    },
    // Bounds the time of every input, however many there are.
    Math.max(20_000, RUNS * 20),
  );
});

const many = (part: string, count: number): string => part.repeat(count);

/** Small inputs that could be much work. */
const BOMBS: Readonly<Record<string, readonly (string | Buffer)[]>> = {
  "JSON bodies": [
    many("[", 100_000),
    `{"a":${many("[", 5000)}`,
    `{"a":1${many("0", 500_000)}}`,
    many('{"a":', 50_000),
  ],
  "YAML bodies": [
    `a: &a [${many("x,", 9)}x]\n${"b c d e f g h i"
      .split(" ")
      .map((it, at) => `${it}: &${it} [${many(`*${"abcdefgh"[at]},`, 9)}]`)
      .join("\n")}\n`,
    many("- ", 20_000),
    many("[", 20_000),
    `? ${many("{", 5000)}`,
  ],
  "protobuf bodies": [
    Buffer.concat([Buffer.from("k8s\0"), Buffer.alloc(10_000, 0x0a)]),
    Buffer.concat([Buffer.from("k8s\0"), Buffer.of(0x12, 0xff, 0xff, 0xff, 0xff, 0x0f)]),
  ],
  "JSON patches": [
    `[${many('{"op":"copy","from":"","path":"/a"},', 40)}{"op":"test","path":"/x","value":1}]`,
    `[{"op":"add","path":"${many("/a", 50_000)}","value":1}]`,
    '[{"op":"add","path":"/spec/ports/4294967295","value":1}]',
  ],
  "label selectors": [
    many("a,", 50_000),
    many("(", 50_000),
    `a in (${many("b,", 50_000)}c)`,
    many("!", 50_000),
  ],
  JSONPath: [
    many("..a", 5000),
    many("[", 20_000),
    `.a[?(${many("(", 20_000)}`,
    `.${many("\\", 20_001)}`,
    many("[*]", 5000),
  ],
  "field paths of rules": [many("['", 20_000), `['${many("\\", 20_001)}`],
  quantities: [many("9", 100_000), `1e${many("9", 1000)}`, "1e2147483647", `0.${many("0", 100_000)}1`],
  patterns: [
    many("(", 5000),
    many("(a*)*", 200),
    "(((((a{1000}){1000}){1000}){1000}){1000})",
    many("[a-z]{1000}", 50),
  ],
  CEL: [
    many("(", 50_000),
    many("!", 50_000),
    many("-", 50_000),
    many("[", 50_000),
    `1${many("+1", 20_000)}`,
    `a${many(".a", 20_000)}`,
    `true${many("||true", 15_000)}`,
    many("1?", 20_000),
    "lists.range(1000000000).size()",
    "lists.range(100000).map(x, lists.range(100000))",
    "[1].all(a, lists.range(9999).all(b, lists.range(9999).all(c, lists.range(9999).all(d, true))))",
    `'${many("a", 30_000)}'.matches('${many("(a*)*", 200)}b')`,
    `'${many("a", 30)}'.replace('', '${many("b", 30)}').replace('', 'cccccccccc').replace('', 'dddddddddd').replace('', 'eeeeeeeeee').size()`,
    "'%.999999999f'.format([1.5])",
    `duration('${many("9", 50_000)}h')`,
    many("9", 99_000),
    `'${many("a,", 40_000)}'.split(',').sort().size()`,
    `dyn(${many("[", 200)}${many("]", 200)}) == dyn(${many("[", 200)}${many("]", 200)})`,
  ],
  "paths of requests": [many("/", 100_000), `/api/${many("%41", 50_000)}`],
  "Accept headers": [many(",", 100_000), many("a/b;", 50_000), `a/b;${many("q=1;", 50_000)}`],
  "SPDY frames": [Buffer.of(0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff), Buffer.alloc(100_000)],
  "SPDY header blocks": [
    Buffer.of(0xff, 0xff, 0xff, 0xff),
    Buffer.concat([Buffer.of(0, 1, 0, 0), Buffer.alloc(500_000)]),
  ],
};

describe("a small input takes a bounded time", () => {
  for (const [name, inputs] of Object.entries(BOMBS)) {
    const target = TARGETS.find((it) => it.name === name);
    it.each(inputs.map((it) => [describeInput(it), it] as const))(`${name}: %s`, (_, input) => {
      if (target === undefined) throw new RangeError(`there is no decoder of ${name}`);
      expect(crashOf(target, Buffer.from(input as string))).toBeUndefined();
    });
  }
});

function describeInput(input: string | Buffer): string {
  return `${input.toString("latin1").slice(0, 40)}, ${input.length} bytes`;
}
