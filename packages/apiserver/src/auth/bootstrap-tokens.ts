import { timingSafeEqual } from "node:crypto";
import { fieldsAt, type Fields, textAt } from "@fairlead/base/fields.ts";
import type { UserInfo } from "#values/object.ts";
import { forApiServer, type TokenContext, type TokenSource } from "./token-source.ts";

/**
 * Tokens with which machines join a cluster: Secrets `bootstrap-token-<id>` in kube-system.
 * Source: k8s.io/kubernetes, plugin/pkg/auth/authenticator/token/bootstrap, and k8s.io/cluster-bootstrap.
 */

const FORM = /^([a-z0-9]{6})\.([a-z0-9]{16})$/;
const TYPE = "bootstrap.kubernetes.io/token";
const GROUP = "system:bootstrappers";
const EXTRA_GROUP = /^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$/;

export function bootstrapTokens(apiAudiences: readonly string[]): TokenSource {
  return {
    authenticate(token, audiences, context) {
      const [, id, secret] = FORM.exec(token) ?? [];
      if (id === undefined || secret === undefined) return undefined;
      const user = userOf(id, secret, context);
      return user === undefined ? undefined : forApiServer(user, audiences, apiAudiences);
    },
  };
}

function userOf(id: string, secret: string, { reader, nowMs }: TokenContext): UserInfo | undefined {
  const found = reader.get("", "secrets", "kube-system", `bootstrap-token-${id}`);
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) return undefined;
  const data = fieldsAt(found, "data");
  const isGood =
    textAt(found, "type") === TYPE &&
    isSame(decoded(data, "token-secret"), secret) &&
    decoded(data, "token-id") === id &&
    decoded(data, "usage-bootstrap-authentication") === "true" &&
    isInTime(decoded(data, "expiration"), nowMs);
  if (!isGood) return undefined;
  const extra = decoded(data, "auth-extra-groups")
    .split(",")
    .filter((it) => it !== "");
  if (!extra.every((it) => EXTRA_GROUP.test(it))) return undefined;
  return { name: `system:bootstrap:${id}`, groups: [...new Set([GROUP, ...extra.toSorted()])] };
}

/** A time that cannot be read counts as past. */
function isInTime(expiration: string, nowMs: number): boolean {
  if (expiration === "") return true;
  return /^\d{4}-\d\d-\d\dT/.test(expiration) && Date.parse(expiration) > nowMs;
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function decoded(data: Fields | undefined, key: string): string {
  return Buffer.from(textAt(data, key), "base64").toString("utf8");
}
