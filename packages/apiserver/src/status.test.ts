import { describe, expect, it } from "vitest";
import { type FieldError, invalid } from "./status.ts";

describe("a refusal of an object", () => {
  const errors = (count: number): FieldError[] =>
    Array.from({ length: count }, (_, at) => ({
      type: "FieldValueInvalid",
      field: `data[${at}]`,
      message: "Invalid value",
    }));

  it("reports all errors", () => {
    const { status } = invalid("", "ConfigMap", "a", errors(1000));
    expect(status.details?.causes).toHaveLength(1000);
    expect(status.message?.endsWith("data[999]: Invalid value]")).toBe(true);
  });

  it("reports the first thousand errors, and that there are more", () => {
    const { status } = invalid("", "ConfigMap", "a", errors(200_000));
    expect(status.details?.causes).toHaveLength(1000);
    expect(status.message?.endsWith("data[999]: Invalid value, and more]")).toBe(true);
  });

  it("reports a value and a name that are long up to a limit, and errors up to a limit of what they say in all", () => {
    const name = "n".repeat(800_000);
    const long = {
      type: "FieldValueInvalid",
      field: "metadata.name",
      message: `Invalid value: "${name}"`,
    } as const;
    const { status, message } = invalid(
      "",
      "ConfigMap",
      name,
      Array.from({ length: 900 }, () => long),
    );
    expect(status.details?.causes).toHaveLength(1);
    expect(status.details?.name).toMatch(/^n{65536}\.\.\. and 734464 more characters$/);
    expect(message).toMatch(/^ConfigMap "n+\.\.\. and \d+ more characters$/);
    expect(JSON.stringify(status).length).toBeLessThan(200_000);
  });
});
