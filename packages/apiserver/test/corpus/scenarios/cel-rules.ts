import { definition, DEFINITIONS, served, widgetDefinition, WIDGETS } from "../definitions.ts";
import { area, patch, post, scenario, type Step } from "../scenario.ts";

/** `x-kubernetes-validations`: validation of rules in CustomResourceDefinitions, and of objects by rules. */

const TEXT = { type: "string" };
const INT = { type: "integer" };
const SHORT = { type: "string", maxLength: 10 };

const object = (properties: object, ...rules: readonly object[]): object => ({
  type: "object",
  properties,
  ...(rules.length > 0 && { "x-kubernetes-validations": rules }),
});
const list = (items: object, more: object = {}): object => ({ type: "array", items, ...more });
const root = (spec: object): object => object({ spec });

/** A schema that is refused, with the reasons; or taken. */
const schema = (spec: object): Step =>
  post(`${DEFINITIONS}?dryRun=All`, widgetDefinition(root(spec)), {
    view: (body) => ((body as { kind: string }).kind === "Status" ? body : "accepted"),
  });
const rule = (text: string, more: object = {}, properties: object = { a: INT }): Step =>
  schema(object(properties, { rule: text, ...more }));

const widget = (name: string, spec: object): object => ({
  apiVersion: "$id.example.com/v1",
  kind: "Widget",
  metadata: { name },
  spec,
});

const RULED = root(
  object(
    {
      min: INT,
      max: INT,
      mode: { type: "string", maxLength: 20 },
      once: {
        type: "string",
        "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "is immutable" }],
      },
      counter: {
        type: "integer",
        "x-kubernetes-validations": [
          {
            rule: "!oldSelf.hasValue() || self >= oldSelf.value()",
            optionalOldSelf: true,
            message: "never falls",
          },
        ],
      },
      small: { type: "integer", "x-kubernetes-validations": [{ rule: "self < 10" }] },
      set: list(SHORT, { "x-kubernetes-list-type": "set", maxItems: 10 }),
      ports: list(
        object(
          { name: { ...SHORT, default: "a" }, port: INT },
          { rule: "self.port > 0", fieldPath: ".port", message: "port must be positive" },
          { rule: "self.port == oldSelf.port", message: "port is immutable", reason: "FieldValueForbidden" },
        ),
        { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], maxItems: 10 },
      ),
      labels: {
        type: "object",
        maxProperties: 10,
        additionalProperties: { ...SHORT, "x-kubernetes-validations": [{ rule: "self.startsWith('x')" }] },
      },
      either: { "x-kubernetes-int-or-string": true },
      when: { type: "string", format: "date-time" },
      namespace: TEXT,
      free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    },
    {
      rule: "!has(self.min) || !has(self.max) || self.min <= self.max",
      messageExpression: "(has(self.mode) ? self.mode : 'no mode') + ': min is above max'",
      fieldPath: ".min",
    },
    {
      rule: "!has(self.mode) || self.mode != 'required' || has(self.max)",
      reason: "FieldValueRequired",
      message: "max",
    },
    { rule: "!has(self.mode) || self.mode != 'twice'", reason: "FieldValueDuplicate" },
    { rule: "!has(self.mode) || self.mode != 'error' || self.max > 1", message: "max is above 1" },
    { rule: "!has(self.mode) || self.mode != 'divide' || 1 / self.max > 0" },
    { rule: "!has(self.either) || (type(self.either) == int ? self.either > 0 : self.either == 'all')" },
    { rule: "!has(self.mode) || self.mode != 'overload' || self.either.size() > 0" },
    { rule: "!has(self.when) || self.when > timestamp('2020-01-01T00:00:00Z')", message: "too early" },
    { rule: "!has(self.__namespace__) || self.__namespace__ != 'default'", messageExpression: "''" },
    { rule: "!has(self.set) || self.set != ['a', 'b']", message: "set is not a and b" },
    {
      rule: "!has(self.mode) || self.mode != 'broken' || self.max == 1",
      messageExpression: "['x'][self.max]",
      message: "x",
    },
  ),
);

const create = (name: string, spec: object): Step => post(WIDGETS, widget(name, spec));
const change = (name: string, spec: object): Step => patch("merge", `${WIDGETS}/${name}`, { spec });

export const scenarios = area("cel", [
  scenario("a rule of a definition must compile to a bool, with declared variables only", [
    rule("self.a == 1"),
    rule("self.foo == 1"),
    rule("self.a"),
    rule("self.a == 'x'"),
    rule("self.a =="),
    rule("self.a == 1 &&\n  other > 2", { message: "two lines" }),
    rule("int('a') == 1"),
    rule("self.a.matches('[')"),
    rule("duration('1d') > duration('1h')"),
    rule("self.a in [1, 'a']"),
    rule("frob(self.a)"),
    rule("self.metadata.name == 'a'"),
    rule("oldSelf.a == self.a"),
    rule("self.a.foo(1)"),
    rule("{1: 2}.a"),
    rule("self.a == 1", { message: "m", messageExpression: "'is ' + string(self.a)" }),
  ]),
  scenario("the other fields of a rule are checked too", [
    rule(" "),
    rule("self.a == 1", { message: " " }),
    rule("self.a == 1", { message: "a\nb" }),
    rule("self.a ==\n 1"),
    rule("self.a == 1", { messageExpression: "self.a" }),
    rule("self.a == 1", { messageExpression: "self.b" }),
    rule("self.a == 1", { messageExpression: " " }),
    rule("self.a == 1", { reason: "Nope" }),
    rule("self.a == 1", { reason: "FieldValueForbidden" }),
    rule("self.a == 1", { fieldPath: ".b" }),
    rule("self.a == 1", { fieldPath: "a" }),
    rule("self.a == 1", { fieldPath: " " }),
    rule("self.a == 1", { fieldPath: ".a" }),
    rule("self.a == 1", { fieldPath: "['a']" }),
    rule("self.a == 1", { optionalOldSelf: true }),
    rule("self.a == 1", { optionalOldSelf: false }),
    rule("oldSelf.hasValue()", { optionalOldSelf: true }),
  ]),
  scenario("a transition rule needs items that can be correlated between versions of an object", [
    schema(object({ l: list(object({ a: INT }, { rule: "self.a == oldSelf.a" })) })),
    schema(
      object({
        l: list(
          { ...SHORT, "x-kubernetes-validations": [{ rule: "self == oldSelf" }] },
          { "x-kubernetes-list-type": "set", maxItems: 5 },
        ),
      }),
    ),
    schema(
      object({
        l: list(
          { ...object({ a: INT, k: SHORT }, { rule: "self.a == oldSelf.a" }), required: ["k"] },
          { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], maxItems: 5 },
        ),
      }),
    ),
  ]),
  scenario("a rule that could take too long is rejected", [
    rule("self.l.all(x, self.l.all(y, x == y))", {}, { l: list(TEXT) }),
    rule("self.l.all(x, self.l.all(y, x == y))", {}, { l: list(SHORT, { maxItems: 50 }) }),
    rule("self.l.all(x, self.l.all(y, x == y))", {}, { l: list(SHORT, { maxItems: 3000 }) }),
    rule("self.l.all(x, x.matches('^a+$'))", {}, { l: list(TEXT) }),
    rule("self.l.all(x, x.matches('^a+$'))", {}, { l: list(SHORT, { maxItems: 100 }) }),
    rule("self.s.matches('^[a-z]+$')", {}, { s: TEXT }),
    rule("self.s.split(',').all(x, x.size() < 10)", {}, { s: TEXT }),
    rule("self.s.split(',').all(x, x.matches('[a-z]+'))", {}, { s: { type: "string", maxLength: 1000 } }),
    rule("self.l.exists(x, x.n == 'a')", {}, { l: list(object({ n: TEXT })) }),
    rule("self.m.all(k, self.m[k].size() > 0)", {}, { m: { type: "object", additionalProperties: TEXT } }),
    rule("self.e in ['a', 'b']", {}, { e: { type: "string", enum: ["a", "b"] } }),
    rule("self.l.isSorted() && self.l.sum() < 10", {}, { l: list(INT) }),
    rule("self.l.map(x, x + 1).filter(x, x > 2).size() < 10", {}, { l: list(INT, { maxItems: 1000 }) }),
    schema(
      object({
        l: list(object({ n: TEXT }, { rule: "self.n.startsWith('a')" }, { rule: "self.n.matches('x')" })),
      }),
    ),
    schema(object({ l: list(object({ n: TEXT }, { rule: "self.n.startsWith('a')" }), { maxItems: 64 }) })),
    schema({
      type: "object",
      additionalProperties: {
        type: "object",
        additionalProperties: { ...TEXT, "x-kubernetes-validations": [{ rule: "self.size() < 10" }] },
      },
    }),
    rule("self.a == 1", { messageExpression: "self.l.join(',')" }, { a: INT, l: list(TEXT) }),
    rule(
      "self.a.all(x, self.b.all(y, self.c.all(z, x + y + z > 0)))",
      {},
      { a: list(INT, { maxItems: 100 }), b: list(INT, { maxItems: 100 }), c: list(INT, { maxItems: 130 }) },
    ),
    schema(
      object(
        { l: list({ type: "string", maxLength: 64 }, { maxItems: 120 }) },
        ...Array.from({ length: 14 }, (_, at) => ({
          rule: `self.l.all(x, self.l.exists(y, y.contains(x) || x == '${at}' || self.l.exists(z, z == y)))`,
        })),
      ),
    ),
  ]),
  scenario("rules see values with the types of their schema", [
    rule(
      "type(self.p) == int ? self.p > 0 : self.p.size() > 0",
      {},
      { p: { "x-kubernetes-int-or-string": true } },
    ),
    rule(
      "self.__namespace__ == self.a__dash__b && self.x__dot__y == self.u__underscores__v",
      {},
      {
        namespace: TEXT,
        "a-b": TEXT,
        "x.y": TEXT,
        u__v: TEXT,
      },
    ),
    rule(
      "self.o.metadata.name == 'a' && self.o.kind == 'b'",
      {},
      {
        o: {
          type: "object",
          "x-kubernetes-embedded-resource": true,
          "x-kubernetes-preserve-unknown-fields": true,
        },
      },
    ),
    rule(
      "self.o.spec.a == 1",
      {},
      {
        o: {
          type: "object",
          "x-kubernetes-embedded-resource": true,
          "x-kubernetes-preserve-unknown-fields": true,
        },
      },
    ),
    rule(
      "self.t > timestamp(0) && self.d < duration('1h') && self.b == b'a' && self.day.getFullYear() > 1",
      {},
      {
        t: { type: "string", format: "date-time" },
        d: { type: "string", format: "duration" },
        b: { type: "string", format: "byte" },
        day: { type: "string", format: "date" },
      },
    ),
    rule("self.t == 'x'", {}, { t: { type: "string", format: "date-time" } }),
    rule("self.n > 1", {}, { n: { type: "number" } }),
    rule("self.n > 1.5 && self.i > 1.5", {}, { n: { type: "number" }, i: INT }),
    rule("self.n + 1 > 1.5", {}, { n: { type: "number" } }),
  ]),
  scenario("rules that an object breaks are reported with path and reason", [
    ...definition(widgetDefinition(RULED)),
    ...served(),
    create("good", { min: 1, max: 2 }),
    create("min", { min: 3, max: 2 }),
    create("required", { mode: "required" }),
    create("twice", { mode: "twice" }),
    create("error", { mode: "error" }),
    create("divide", { mode: "divide", max: 0 }),
    create("overload", { mode: "overload", either: 5 }),
    create("early", { when: "2019-01-01T00:00:00Z" }),
    create("default", { namespace: "default" }),
    create("set", { set: ["b", "a"] }),
    create("broken", { mode: "broken", max: 2 }),
    create("either", { either: "none" }),
    create("eithers", { either: "all" }),
    create("small", { small: 12 }),
    create("port", {
      ports: [
        { name: "a", port: 0 },
        { name: "b", port: 1 },
      ],
    }),
    create("label", { labels: { a: "y" } }),
    create("many", { min: 3, max: 2, small: 12, when: "2019-01-01T00:00:00Z" }),
  ]),
  scenario("transition rules are evaluated on updates only", [
    ...definition(widgetDefinition(RULED)),
    ...served(),
    create("a", { once: "x", counter: 5, small: 1, ports: [{ name: "a", port: 1 }] }),
    change("a", { once: "y" }),
    change("a", { once: null }),
    change("a", { once: "z" }),
    change("a", { counter: 4 }),
    change("a", { counter: 6 }),
    change("a", { counter: null }),
    change("a", { counter: 1 }),
    change("a", {
      ports: [
        { name: "b", port: 2 },
        { name: "a", port: 3 },
      ],
    }),
    change("a", {
      ports: [
        { name: "b", port: 2 },
        { name: "a", port: 1 },
      ],
    }),
    change("a", { small: 20 }),
  ]),
]);
