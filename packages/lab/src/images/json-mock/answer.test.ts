import { expect, it } from "vitest";
import { answerJsonMock } from "./answer.ts";

const facts = { hostname: "x-wing", address: "::ffff:10.1.0.1", authorization: undefined };

it.each([
  ["/", 200, "/public"],
  ["/public", 200, "public information"],
  ["/private/1", 200, "secret information"],
  ["/public/2", 404, "{}"],
  ["/public/1/x", 404, "{}"],
  ["/constructor", 404, "{}"],
  ["/client-ip", 200, "10.1.0.1"],
  ["/hostname", 200, "x-wing"],
  ["/auth-header-required", 401, "Bearer"],
])("json-mock answers %s as the image does", (path, status, text) => {
  const answer = answerJsonMock(path, facts);
  expect(answer.status).toBe(status);
  expect(answer.text).toContain(text);
});

it("json-mock lets a request with the token pass", () => {
  const answer = answerJsonMock("/auth-header-required", { ...facts, authorization: "Bearer 123456" });
  expect(answer.status).toBe(404);
});
