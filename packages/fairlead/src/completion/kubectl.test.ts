import { expect, it } from "vitest";
import { visibleCommands } from "#command-tree.ts";
import { complete } from "./kubectl.ts";
import { placesOf } from "./places.ts";

it.for([
  { words: ["lab", "st"], expected: ["status", ":4"] },
  { words: ["lab", "up", "--mem"], expected: ["--members", ":4"] },
  { words: ["status", "-o", "js"], expected: ["json", ":4"] },
  { words: ["status", "--kubeconfig", ""], expected: [":0"] },
  { words: ["join", "--timeout", "l"], expected: [":4"] },
  { words: ["nonsense", "--nonsense", "vers"], expected: ["version", ":4"] },
])("kubectl gets the suggestions $expected for $words", async ({ words, expected }) => {
  const lines = complete(placesOf(await visibleCommands()), words)
    .trimEnd()
    .split("\n");
  expect(lines.map((it) => it.split("\t")[0])).toEqual(expected);
});
