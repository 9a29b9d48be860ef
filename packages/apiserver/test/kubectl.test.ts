import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start } from "@fairlead/base/exec.ts";
import { KUBECTL, NO_KUBECTL, OLDER_KUBECTL, startTestServer, type TestServer } from "./support.ts";

/** The real kubectl, as people use it. */

const DEPLOYMENT = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: work, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: server, image: nginx, ports: [{containerPort: 80}]}
`;
const SERVICE = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: work}
spec: {selector: {app: web}, ports: [{port: 80}], ipFamilyPolicy: PreferDualStack}
`;
const CRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Note, type: string, jsonPath: .spec.note, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
              size: {type: integer, default: 3, minimum: 0}
              note: {type: string}
          status: {type: object, properties: {size: {type: integer}}}
`;
const WIDGET = `
apiVersion: example.io/v1
kind: Widget
metadata: {name: one, namespace: work}
spec: {note: hello}
`;

/** `npm run test:full` has the older one, too. */
const PROGRAMS = [
  ["1.35", KUBECTL],
  ...(process.env["TEST_SIZE"] === "full" ? [["1.31", OLDER_KUBECTL]] : []),
] as const;

describe.for(PROGRAMS)("kubectl %s", ([, program = ""]) => {
  describe.skipIf(program === "")(program === "" ? NO_KUBECTL : "as people use it", () => {
    let test: TestServer;

    beforeAll(async () => {
      test = await startTestServer();
      await ok(["create", "namespace", "work"]);
    });
    afterAll(() => test[Symbol.asyncDispose]());

    async function ok(
      args: readonly string[],
      input?: string,
      env: Record<string, string> = {},
    ): Promise<string> {
      const result = await test.kubectl(args, { ...(input === undefined ? {} : { input }), env, program });
      expect(result.exitCode, `kubectl ${args.join(" ")}: ${result.stderr}`).toBe(0);
      return result.stdout;
    }
    async function fails(args: readonly string[], input?: string): Promise<string> {
      const result = await test.kubectl(args, { ...(input === undefined ? {} : { input }), program });
      expect(result.exitCode).not.toBe(0);
      return result.stderr;
    }

    it("applies manifests, and the second time leaves them unchanged", async () => {
      for (const manifest of [DEPLOYMENT, SERVICE]) {
        expect(await ok(["apply", "-f", "-"], manifest)).toContain("created");
        expect(await ok(["apply", "-f", "-"], manifest)).toContain("unchanged");
      }
      const changed = DEPLOYMENT.replace("replicas: 2", "replicas: 4");
      expect(await ok(["apply", "-f", "-"], changed)).toContain("configured");
      expect(await ok(["get", "deploy", "web", "-n", "work", "-o", "jsonpath={.spec.replicas}"])).toBe("4");
      expect(await ok(["diff", "-f", "-"], changed)).toBe("");
      const difference = await test.kubectl(["diff", "-f", "-"], { input: DEPLOYMENT, program });
      expect(difference.exitCode).toBe(1);
      expect(difference.stdout).toMatch(/-\s+replicas: 4\n\+\s+replicas: 2/);
    });

    it("applies a List, and rejects an item of it with an unknown field", async () => {
      const list = (item: object): string =>
        JSON.stringify({
          apiVersion: "v1",
          kind: "List",
          items: [{ apiVersion: "v1", kind: "ConfigMap", ...item }],
        });
      const metadata = { name: "listed", namespace: "default" };
      expect(await ok(["apply", "-f", "-"], list({ metadata, data: { a: "b" } }))).toContain(
        "configmap/listed created",
      );
      const refused = await fails(["apply", "-f", "-"], list({ metadata, dat: { a: "c" } }));
      expect(refused).toContain('unknown field "dat"');
      await ok(["delete", "configmap", "listed"]);
    });

    it("applies server-side, reports conflicts by field, and takes fields over by force", async () => {
      const manifest = (value: string): string =>
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: work}\ndata: {colour: ${value}}`;
      const apply = ["apply", "--server-side", "-f", "-", "--field-manager"];
      expect(await ok([...apply, "first"], manifest("red"))).toContain("serverside-applied");
      expect(await ok([...apply, "first"], manifest("red"))).toContain("serverside-applied");
      expect(await ok([...apply, "second"], manifest("red"))).toContain("serverside-applied");
      expect(await fails([...apply, "second"], manifest("blue"))).toContain(
        'conflict with "first": .data.colour',
      );
      await ok([...apply, "second", "--force-conflicts"], manifest("blue"));
      expect(await ok(["get", "cm", "shared", "-n", "work", "-o", "jsonpath={.data.colour}"])).toBe("blue");
    });

    it("prints tables, also wide and for all namespaces", async () => {
      expect(await ok(["get", "deploy", "-n", "work"])).toMatch(
        /^NAME\s+READY\s+UP-TO-DATE\s+AVAILABLE\s+AGE\nweb /,
      );
      expect(await ok(["get", "svc", "-n", "work", "-o", "wide"])).toMatch(
        /SELECTOR\nweb\s+ClusterIP .*app=web/,
      );
      expect(await ok(["get", "ns,cm", "-A"])).toMatch(
        /NAMESPACE\s+NAME\s+DATA\s+AGE\n(?:kube-system\s.*\n)*work\s+configmap\/shared/,
      );
      expect(await ok(["get", "deploy", "-n", "work", "--show-labels"])).toContain("app=web");
      expect(await ok(["get", "cm", "-n", "work", "-o", "name"])).toBe("configmap/shared\n");
    });

    it("describes objects with related objects", async () => {
      expect(await ok(["describe", "svc", "web", "-n", "work"])).toMatch(
        /IP Family Policy:\s+PreferDualStack/,
      );
      expect(await ok(["describe", "deploy", "web", "-n", "work"])).toMatch(/Replicas:\s+4 desired/);
    });

    it("patches, labels, annotates, scales and edits", async () => {
      const field = (path: string): Promise<string> =>
        ok(["get", "deploy", "web", "-n", "work", "-o", `jsonpath={${path}}`]);
      await ok(["label", "deploy", "web", "-n", "work", "tier=front"]);
      expect(await field(".metadata.labels.tier")).toBe("front");
      await ok(["annotate", "deploy", "web", "-n", "work", "note=x"]);
      await ok(["scale", "deploy", "web", "-n", "work", "--replicas=0"]);
      expect(await field(".spec.replicas")).toBe("0");
      const container = '{"spec":{"template":{"spec":{"containers":[{"name":"server","image":"httpd"}]}}}}';
      await ok(["patch", "deploy", "web", "-n", "work", "-p", container]);
      expect(await field(".spec.template.spec.containers[*].image")).toBe("httpd");
      expect(await field(".spec.template.spec.containers[0].ports[0].containerPort")).toBe("80");
      const operations = '[{"op":"replace","path":"/spec/replicas","value":3}]';
      await ok(["patch", "deploy", "web", "-n", "work", "--type=json", "-p", operations]);
      expect(await field(".spec.replicas")).toBe("3");
      await ok(["edit", "deploy", "web", "-n", "work"], undefined, { EDITOR: "sed -i s/httpd/caddy/" });
      expect(await field(".spec.template.spec.containers[0].image")).toBe("caddy");
    });

    it("watches the present objects, and then every change", async () => {
      const args = ["--kubeconfig", test.server.kubeconfig, "get", "cm", "-n", "work", "-w", "-o", "name"];
      const watching = start(program, args, { stdio: ["ignore", "pipe", "inherit"] });
      const lines = createInterface({ input: watching.stdout as Readable })[Symbol.asyncIterator]();
      const next = async (): Promise<string> => String((await lines.next()).value);
      expect(await next()).toBe("configmap/shared");
      await ok(["create", "cm", "late", "-n", "work"]);
      expect(await next()).toBe("configmap/late");
      await ok(["label", "cm", "shared", "-n", "work", "a=b"]);
      expect(await next()).toBe("configmap/shared");
      await ok(["delete", "cm", "late", "-n", "work"]);
      expect(await next()).toBe("configmap/late");
      watching.kill();
    });

    it("waits for conditions, and for deletions", async () => {
      await ok(["create", "cm", "short-lived", "-n", "work"]);
      const waiting = ok(["wait", "--for=delete", "cm/short-lived", "-n", "work", "--timeout=20s"]);
      await ok(["delete", "cm", "short-lived", "-n", "work"]);
      await waiting;
      expect(
        await fails(["wait", "--for=condition=Available", "deploy/web", "-n", "work", "--timeout=1s"]),
      ).toContain("timed out");
    });

    it("creates objects with the generators that send protobuf", async () => {
      await ok(["create", "configmap", "made", "-n", "work", "--from-literal=key=value"]);
      expect(await ok(["get", "cm", "made", "-n", "work", "-o", "jsonpath={.data}"])).toBe('{"key":"value"}');
      await ok(["create", "deployment", "idle", "-n", "work", "--image=pause", "--replicas=0"]);
      expect(await ok(["get", "deploy", "idle", "-n", "work", "-o", "jsonpath={.spec.replicas}"])).toBe("0");
      await ok(["create", "serviceaccount", "robot", "-n", "work"]);
      await ok(["create", "secret", "generic", "hidden", "-n", "work", "--from-literal=a=b"]);
      await ok(["create", "role", "reader", "-n", "work", "--verb=get,list", "--resource=configmaps"]);
      await ok([
        "create",
        "rolebinding",
        "reads",
        "-n",
        "work",
        "--role=reader",
        "--serviceaccount=work:robot",
      ]);
    });

    it("reviews permissions of users, tokens and impersonated users", async () => {
      expect(await ok(["auth", "can-i", "delete", "nodes"])).toBe("yes\n");
      const robot = "--as=system:serviceaccount:work:robot";
      expect(await ok(["auth", "can-i", "list", "configmaps", "-n", "work", robot])).toBe("yes\n");
      expect(
        (await test.kubectl(["auth", "can-i", "delete", "configmaps", "-n", "work", robot], { program }))
          .stdout,
      ).toBe("no\n");
      const token = (await ok(["create", "token", "robot", "-n", "work"])).trim();
      const call = (path: string): ReturnType<TestServer["call"]> =>
        test.call("GET", path, { anonymous: true, headers: { Authorization: `Bearer ${token}` } });
      expect((await call("/api/v1/namespaces/work/configmaps")).code).toBe(200);
      const refused = await call("/api/v1/namespaces/default/configmaps");
      expect(refused.json).toMatchObject({ kind: "Status", code: 403, reason: "Forbidden" });
      expect(refused.json.message).toContain('cannot list resource "configmaps"');
    });

    it("reads custom resources as soon as their definition exists", async () => {
      await ok(["apply", "-f", "-"], CRD);
      await ok(["wait", "--for=condition=Established", "crd/widgets.example.io", "--timeout=10s"]);
      expect(await ok(["apply", "-f", "-"], WIDGET)).toContain("created");
      expect(await ok(["apply", "-f", "-"], WIDGET)).toContain("unchanged");
      expect(await ok(["get", "wd", "-n", "work", "-o", "wide"])).toMatch(
        /^NAME\s+SIZE\s+NOTE\none\s+3\s+hello\n/,
      );
      await ok(["scale", "wd", "one", "-n", "work", "--replicas=5"]);
      expect(await ok(["get", "wd", "one", "-n", "work", "-o", "jsonpath={.spec.size}"])).toBe("5");
      expect(await ok(["explain", "widget.spec"])).toContain("What is wanted.");
      expect(await ok(["api-resources", "--api-group=example.io"])).toMatch(
        /widgets\s+wd\s+example.io\/v1\s+true\s+Widget/,
      );
      expect(await fails(["apply", "-f", "-"], WIDGET.replace("note: hello", "nope: 1"))).toContain(
        'unknown field "spec.nope"',
      );
      expect(await fails(["apply", "-f", "-"], WIDGET.replace("note: hello", "size: -1"))).toContain(
        "spec.size",
      );
      await ok(["delete", "crd", "widgets.example.io"]);
      expect(await fails(["get", "wd", "-A"])).toMatch(
        /could not find the requested resource|doesn.t have a resource type/,
      );
    });

    it("lists API resources and versions", async () => {
      const resources = await ok(["api-resources", "--no-headers"]);
      for (const it of ["pods", "services", "endpointslices", "deployments", "leases", "clusterroles"]) {
        expect(resources).toMatch(new RegExp(`^${it} `, "m"));
      }
      expect(await ok(["api-versions"])).toContain("discovery.k8s.io/v1");
      expect(await ok(["version"])).toContain("Server Version: v1.36.0+fairlead");
    });

    it("deletes dependents of deleted owners, and whole namespaces", async () => {
      const uid = await ok(["get", "cm", "shared", "-n", "work", "-o", "jsonpath={.metadata.uid}"]);
      const owned = `apiVersion: v1\nkind: Secret\nmetadata: {name: owned, namespace: work,
        ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: shared, uid: ${uid}}]}`;
      await ok(["create", "-f", "-"], owned);
      await ok(["delete", "cm", "shared", "-n", "work"]);
      expect(await fails(["get", "secret", "owned", "-n", "work"])).toContain("NotFound");
      await ok(["delete", "namespace", "work"]);
      expect(await ok(["get", "deploy,cm,svc,sa", "-n", "work"])).toBe("");
      expect(await fails(["delete", "namespace", "default"])).toContain("Forbidden");
    });

    it("reads manifests from files, with several documents in one", async () => {
      const path = join(test.dir, "all.yaml");
      const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: work2}";
      await writeFile(
        path,
        [namespace, DEPLOYMENT, SERVICE].join("\n---\n").replaceAll("namespace: work", "namespace: work2"),
      );
      expect(await ok(["apply", "-f", path])).toMatch(
        /namespace\/work2 created\n.*web created\n.*web created/,
      );
      await ok(["delete", "--ignore-not-found", "-f", path]);
    });
  });
});
