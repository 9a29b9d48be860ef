import { describe, expect, it } from "vitest";
import type { Schema, ValidationRule } from "#schema/types.ts";
import { checkRules } from "./check.ts";
import { validateRules } from "./validate.ts";

function withRules(fields: Record<string, object>, ...rules: ValidationRule[]): Schema {
  return {
    type: "object",
    properties: {
      spec: {
        type: "object",
        properties: fields,
        "x-kubernetes-validations": rules,
      },
    },
  };
}

function problems(schema: Schema, spec: unknown, old?: unknown): string[] {
  const wrap = (it: unknown): unknown => ({ metadata: { name: "n" }, spec: it });
  return validateRules({
    value: wrap(spec),
    schema,
    path: "",
    old: old === undefined ? undefined : wrap(old),
  }).map((it) => `${it.type} ${it.field}: ${it.message}`);
}

const INTS = { min: { type: "integer" }, max: { type: "integer" } };

describe("a rule", () => {
  const schema = withRules(INTS, { rule: "self.min <= self.max", message: "min must not be above max" });

  it("that evaluates to true reports nothing", () => {
    expect(problems(schema, { min: 1, max: 2 })).toEqual([]);
  });
  it("that evaluates to false is reported with its message", () => {
    expect(problems(schema, { min: 3, max: 2 })).toEqual([
      "FieldValueInvalid spec: Invalid value: min must not be above max",
    ]);
  });
  it("that cannot be evaluated counts as violated", () => {
    expect(problems(schema, { min: 3 })[0]).toBe(
      'FieldValueInvalid spec: Invalid value: "object": no such key: max evaluating rule: min must not be above max',
    );
  });
  it("may have reason, fieldPath and messageExpression", () => {
    const made = withRules(INTS, {
      rule: "self.min <= self.max",
      messageExpression: "'min ' + string(self.min) + ' is above ' + string(self.max)",
      reason: "FieldValueForbidden",
      fieldPath: ".min",
    });
    expect(problems(made, { min: 3, max: 2 })).toEqual([
      "FieldValueForbidden spec.min: Forbidden: min 3 is above 2",
    ]);
  });
  it("without message is reported with its expression", () => {
    expect(problems(withRules(INTS, { rule: "self.min < 3" }), { min: 3 })[0]).toContain(
      "failed rule: self.min < 3",
    );
  });
  it("at the root sees the object's name", () => {
    const root: Schema = {
      type: "object",
      properties: {},
      "x-kubernetes-validations": [{ rule: "size(self.metadata.name) < 64" }],
    };
    const check = (name: string): number =>
      validateRules({ value: { metadata: { name } }, schema: root, path: "" }).length;
    expect([check("n".repeat(63)), check("n".repeat(64))]).toEqual([0, 1]);
  });
  it.each([
    ["self.text.matches('^a+\\\\.b$')", { text: "aa.b" }],
    ["self.text.find('[0-9]+') == '12'", { text: "a12b" }],
    ["self.list.all(x, x.startsWith('a')) && self.list.isSorted()", { list: ["a1", "a2"] }],
    ["self.numbers.sum() == 6 && self.numbers.max() == 3", { numbers: [1, 2, 3] }],
    ["self.when < timestamp('2027-01-01T00:00:00Z')", { when: "2026-01-01T00:00:00Z" }],
    ["self.wait >= duration('90s')", { wait: "1m30s" }],
    ["self.map.exists(k, self.map[k] == 'v')", { map: { "a-b": "v" } }],
    ["self.__namespace__ == 'n' && self.a__dash__b == 1", { namespace: "n", "a-b": 1 }],
    ["!has(self.text) || self.ratio < 1.5", { ratio: 1 }],
    ["type(self.port) == int ? self.port > 0 : self.port != ''", { port: "http" }],
    ["isIP(self.text) || isCIDR(self.text)", { text: "10.0.0.0/8" }],
    ["self.?text.orValue('x') == 'x'", {}],
  ])("can evaluate %s", (rule, spec) => {
    const fields = {
      text: { type: "string" },
      list: { type: "array", maxItems: 10, items: { type: "string", maxLength: 10 } },
      numbers: { type: "array", items: { type: "integer" } },
      when: { type: "string", format: "date-time" },
      wait: { type: "string", format: "duration" },
      map: { type: "object", additionalProperties: { type: "string" } },
      namespace: { type: "string" },
      "a-b": { type: "integer" },
      ratio: { type: "number" },
      port: { "x-kubernetes-int-or-string": true },
    };
    const typed = withRules(fields, { rule });
    expect(checkRules(typed, "schema")).toEqual([]);
    expect(problems(typed, spec)).toEqual([]);
  });
});

describe("a transition rule", () => {
  const fixed = withRules(INTS, { rule: "self.min == oldSelf.min", message: "min is immutable" });

  it("is only evaluated on updates", () => {
    expect(problems(fixed, { min: 1 })).toEqual([]);
    expect(problems(fixed, { min: 2 }, { min: 1 })).toHaveLength(1);
    expect(problems(fixed, { min: 1, max: 1 }, { min: 1 })).toEqual([]);
  });
  it("with optionalOldSelf is evaluated on creation too", () => {
    const schema = withRules(INTS, { rule: "oldSelf.hasValue() || self.min == 0", optionalOldSelf: true });
    expect(problems(schema, { min: 1 })).toHaveLength(1);
    expect(problems(schema, { min: 1 }, { min: 0 })).toEqual([]);
  });
  it("correlates items of keyed lists by their keys", () => {
    const item: Schema = {
      type: "object",
      properties: { n: { type: "string" }, v: { type: "integer" } },
      "x-kubernetes-validations": [{ rule: "self.v >= oldSelf.v" }],
    };
    const schema = withRules({
      l: { type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], items: item },
    });
    const old = {
      l: [
        { n: "a", v: 2 },
        { n: "b", v: 2 },
      ],
    };
    expect(
      problems(
        schema,
        {
          l: [
            { n: "new", v: 0 },
            { n: "b", v: 1 },
            { n: "a", v: 3 },
          ],
        },
        old,
      ),
    ).toEqual([expect.stringContaining("spec.l[1]")]);
  });
  it("is rejected under a list whose items cannot be correlated", () => {
    const item: Schema = {
      type: "object",
      properties: {},
      "x-kubernetes-validations": [{ rule: "self == oldSelf" }],
    };
    const schema = withRules({ l: { type: "array", items: item } });
    expect(checkRules(schema, "schema").map((it) => it.message)).toEqual([
      expect.stringContaining("uncorrelatable"),
    ]);
  });
});

describe("a rule that was added later", () => {
  it("is not evaluated for unchanged parts of an object", () => {
    const schema = withRules(INTS, { rule: "self.min > 5" });
    expect(problems(schema, { min: 1 }, { min: 1 })).toEqual([]);
    expect(problems(schema, { min: 2 }, { min: 1 })).toHaveLength(1);
  });
});

describe("the rules of a CRD", () => {
  it.each([
    ["self.min <", "compilation failed"],
    ["self.mni < 1", "undefined field 'mni'"],
    ["other.min < 1", "undeclared reference to 'other' (in container '')"],
    ["frob(self.min)", "frob"],
    ["1 + 1", "must evaluate to a bool"],
    [
      "lists.range(10000).all(a, lists.range(10000).all(b, a + b > -1))",
      "estimated rule cost exceeds budget",
    ],
  ])("are rejected if they are invalid: %s", (rule, problem) => {
    const [error] = checkRules(withRules(INTS, { rule }), "schema");
    expect(error?.message).toContain(problem);
    expect(error?.field).toBe("schema.properties[spec].x-kubernetes-validations[0].rule");
  });
  it("can only access name and generateName of the metadata", () => {
    const root = {
      type: "object",
      properties: {},
      "x-kubernetes-validations": [{ rule: "has(self.metadata.labels)" }],
    } as const;
    expect(checkRules(root, "schema")[0]?.message).toContain("undefined field 'labels'");
  });
  it("cannot block the server with a regular expression", () => {
    const schema = withRules({ text: { type: "string" } }, { rule: "self.text.matches('(a+)+$')" });
    expect(problems(schema, { text: `${"a".repeat(5000)}b` })).toHaveLength(1);
  });
});
