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
});
