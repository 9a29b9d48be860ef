import { expect, it } from "vitest";
import { LOST_CLUSTERS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { lostIn, witnessesOf } from "./witnesses.ts";

function lease(name: string, said?: string, namespace = mailboxOf(name)): Lease {
  const annotations = said === undefined ? {} : { [LOST_CLUSTERS_ANNOTATION]: said };
  return { metadata: { namespace, name, annotations } };
}

it("counts each member's own word on a lost cluster, and not that of members that are lost, too", () => {
  const leases = [
    lease("c", "a=silent"),
    lease("b", "a=answers,c=silent"),
    lease("a", "a=answers"),
    lease("d", "a=answers"),
    lease("e", "a=answers", mailboxOf("d")),
    lease("f"),
  ];
  const suspects = new Map([
    ["a", 1],
    ["d", 1],
  ]);
  expect(witnessesOf("a", leases, suspects)).toEqual({ answered: ["b"], unanswered: ["c"] });
});

it("names the lost clusters of a Lease only where a renewal says something else", () => {
  const [none, some] = [lease("b"), lease("b", "a=answers")];
  expect(lostIn({ before: some, after: some })).toEqual([]);
  expect(lostIn({ before: none, after: some })).toEqual(["a"]);
  expect(lostIn({ before: some, after: undefined })).toEqual(["a"]);
});
