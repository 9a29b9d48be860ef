import { describe, expect, it } from "vitest";
import { FleetError } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { PlacingProblems } from "./problems.ts";

const forbidden = new FleetError("API_FORBIDDEN", "forbidden");
const unserved = new FleetError("API_NOT_FOUND", "not served");
const key = (name: string) => objectKey("fleet-member-a", name);

describe("the problems of the agent that applies what is placed", () => {
  it("of joining are kinds that it cannot read, but not a hub that serves no Works", () => {
    const problems = new PlacingProblems();
    problems.onUnreadable("Work")(unserved);
    expect(problems.joining).toBeUndefined();
    problems.onUnreadable("Work")(forbidden);
    problems.onUnreadable("AppliedWork")(unserved);
    expect(problems.joining).toBe(
      "cannot read Works on the hub: forbidden; cannot read AppliedWorks in the cluster: not served",
    );
    problems.onUnreadable("Work")(undefined);
    problems.onUnreadable("AppliedWork")(undefined);
    expect(problems.joining).toBeUndefined();
  });

  it("of leaving are Works that fail again and again, until they do no longer", () => {
    const problems = new PlacingProblems();
    let changes = 0;
    problems.onChange = () => changes++;
    for (const it of [1, 2]) {
      problems.leave(key("w"), forbidden);
      expect([it, problems.leaving, changes]).toEqual([it, undefined, 0]);
    }
    for (const name of ["w", "v", "v", "v"]) problems.leave(key(name), forbidden);
    expect(problems.leaving).toBe("cannot release Work fleet-member-a/w, and 1 others: forbidden");
    problems.leave(key("w"));
    problems.leave(key("v"));
    problems.leave(key("never failed"));
    expect([problems.leaving, changes]).toEqual([undefined, 4]);
  });
});
