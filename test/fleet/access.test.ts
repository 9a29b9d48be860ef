import { describe, expect, it } from "vitest";
import { AccessLog, PROGRAM_AGENT } from "../support/access.ts";

/** The entry of a heartbeat in the hub's audit log. */
function heartbeat(log: AccessLog, username: string, code: number, userAgent = PROGRAM_AGENT): void {
  const objectRef = {
    resource: "internalmemberclusters",
    subresource: "status",
    apiGroup: "cluster.kubernetes-fleet.io",
    namespace: "fleet-member-a",
    name: "a",
  };
  const event = { stage: "ResponseComplete", verb: "patch", requestURI: "/", userAgent, objectRef };
  log.audit.write(JSON.stringify({ ...event, user: { username }, responseStatus: { code } }));
}

const standing = { namespaces: new Set(["fleet-member-a"]), identities: new Set(["fleet:member:a:3"]) };

describe("a fleet whose programs lacked permissions", () => {
  it("reports the access of members", () => {
    const log = new AccessLog();
    heartbeat(log, "fleet:member:a:3", 403);
    heartbeat(log, "fleet:member:a:3", 403, "a test");
    expect(log.refused(standing)).toMatchObject([{ user: "fleet:member:a:3", verb: "patch" }]);
    heartbeat(log, "test:hub", 403);
    expect(log.refused(standing)).toHaveLength(2);
  });

  it("accepts the refusals of an identity that a rotation replaced before its first heartbeat", () => {
    const log = new AccessLog();
    heartbeat(log, "fleet:member:a:2", 403);
    expect(log.refused(standing)).toEqual([]);
    expect(log.refused()).toHaveLength(1);
  });

  it("accepts the refusals of a member whose mailbox is deleted, and of one whose permissions came later", () => {
    const log = new AccessLog();
    heartbeat(log, "fleet:member:a:3", 403);
    expect(log.refused({ ...standing, namespaces: new Set() })).toEqual([]);
    heartbeat(log, "fleet:member:a:3", 200);
    expect(log.refused(standing)).toEqual([]);
  });
});
