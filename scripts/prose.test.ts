import { describe, expect, it } from "vitest";
import { findIn } from "./prose.ts";

const phrases = (text: string): readonly string[] => findIn("a.ts", text).map((it) => it.phrase);

describe("the check of prose", () => {
  it.each([
    ["the server is no hub", "is no hub"],
    ["the client is told why", "is told"],
    ["// Who asks is answered", "/ Who a"],
    ["Somebody deleted the Service", "Somebody"],
    ["/** Takes the lock away. */", "takes the lock away"],
    ["the watch begins anew", "anew"],
    ["connections go on", "go on"],
    ["the finalizer is taken away; it takes the name back", "takes the name back"],
  ])("finds the phrase in %j", (text, phrase) => {
    expect(phrases(text)).toContain(phrase);
  });

  it.each(["there is no hub", "the object is no longer there", "it stands for an address", "Who are you?"])(
    "accepts %j",
    (text) => {
      expect(phrases(text)).toEqual([]);
    },
  );

  it("leaves texts of upstream as they are", () => {
    expect(phrases('// prose: upstream (kubelet)\nconst REASON = "nobody";')).toEqual([]);
    expect(phrases('const REASON = "nobody"; // prose: upstream (kubelet)')).toEqual([]);
  });

  it("names the line", () => {
    expect(findIn("a.ts", "one\ntwo\nnobody").map((it) => it.line)).toEqual([3]);
  });
});
