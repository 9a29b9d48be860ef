import { expect, it } from "vitest";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { compileHealth } from "./health.ts";

const job = (status?: object): KubeObject =>
  Object.assign(
    { metadata: { name: "j" }, spec: { completions: 2 } },
    status === undefined ? {} : { status },
  );

it.each([
  ["object.status.succeeded >= object.spec.completions", job({ succeeded: 2 }), true],
  ["object.status.succeeded >= object.spec.completions", job({ succeeded: 1 }), false],
  [
    "object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')",
    job({ conditions: [{ type: "Complete", status: "True" }] }),
    true,
  ],
  ["has(object.status)", job(), false],
  ["object.spec.paused == true || true", job(), true],
])("the health rule %s is evaluated", (expression, object, expected) => {
  expect(compileHealth(expression)(object)).toBe(expected);
});

it.each([
  ["object.status.succeeded > 0", "no such key: status"],
  ["object.spec.completions", "its value is not true or false"],
])("the health rule %s has no value", (expression, message) => {
  const judge = compileHealth(expression);
  expect(() => judge(job())).toThrow(message);
});

it.each(["object.", "other.x == 1", "1 + 1", "object.spec.matches('(')"])(
  "the health rule %s is invalid",
  (expression) => {
    expect(() => compileHealth(expression)).toThrow(/ERROR|must evaluate/);
  },
);

it("a health rule cannot take long", () => {
  const items = Array.from({ length: 2000 }, (_, at) => at);
  const object = Object.assign(job(), { items });
  const rule = compileHealth("object.items.all(a, object.items.all(b, object.items.all(c, a + b + c >= 0)))");
  expect(() => rule(object)).toThrow(/cost/);
});
