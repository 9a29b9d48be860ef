/**
 * `npm run test:real`: the corpus, the tests of the API that hold for any server, the installation of the charts, and what a hub and its members do, against
 * the kube-apiserver and etcd that KUBEBUILDER_ASSETS names (the convention of envtest; with a kube-controller-manager in the same folder, which the fleet's
 * programs need). A test that fails here asks for what Kubernetes does not do.
 */
import { NO_ASSETS, realAssets } from "../packages/apiserver/test/real-server.ts";
import { runSteps } from "./steps.ts";

/** Files of packages/apiserver/test that hold for any server. */
export const FILES = ["client-node", "watch-model", "protocol"];

/** Files of test/fleet in which a hub's server is tested that is embedded, and one that is real. */
export const GUARDED = ["guard", "guard-rails", "placement-rules", "real-definitions"];

/** Files of test/fleet that hold for any server. */
export const PROGRAMS = [
  "update-crds",
  "webhook",
  "works",
  "work-reasons",
  "work-faults",
  "work-leave",
  "placement",
  "placement-selection",
  "scheduling",
  "staged-runs",
  "updates",
  "hub-move",
  "identities",
];

/** Tests in those files that apply only to our server, by the beginning of their names, with the reason. */
export const OURS_ALONE: Readonly<Record<string, string>> = {
  "support label and field selectors": "they ask for our own text",
  "are available as Tables": "they ask for JSON from a server that prefers protobuf, and for our own columns",
  "answer 200 and one ERROR of code 410": "they compact the store by hand",
  "set the server's fields": "kinds of envtest's namespace have no ServiceAccount",
  "do everything except storing in a dry run": "they read the store",
  "wait for finalizers": "envtest has no garbage collector",
  "delete dependents in the background": "envtest has no garbage collector",
  "keep an owner with foreground propagation": "envtest has no garbage collector",
  "garbage-collect dependents of an absent owner": "envtest has no garbage collector",
  "of a namespace wait": "envtest has no namespace controller",
  "reports its health": "they ask for our version",
};

/**
 * Files that are of our server alone, and why: access (its default users and RBAC objects), audit, crash, restart, shutdown (its files
 * and its process), fuzz, refusals (they look into its store), identity, certificates (its keys), admission-webhooks, crd-conversion, crd
 * (it establishes definitions at once, a real one in seconds: the corpus compares both), kubectl (its controllers), pods, tunnel (its
 * kubelets), watch-times (its clock).
 */
function main(): boolean {
  if (realAssets() === undefined) {
    console.log(`test:real: ${NO_ASSETS}`);
    return false;
  }
  const server = `^(?!.*(${Object.keys(OURS_ALONE).join("|")}))`;
  return runSteps([
    { name: "corpus", command: ["node", "scripts/corpus.ts", "compare"] },
    {
      name: "tests of the API",
      command: [...TESTS, "-t", server, ...FILES.map((it) => `packages/apiserver/test/${it}.test.ts`)],
    },
    { name: "installation of the charts", command: [...TESTS, "test/chart/install.test.ts"] },
    {
      name: "definitions and guard rails",
      command: [...TESTS, "-t", "^(?!.*\\(embedded\\))", ...GUARDED.map(inFleet)],
    },
    { name: "programs of a fleet", command: [...TESTS, "--no-file-parallelism", ...PROGRAMS.map(inFleet)] },
  ]);
}

const TESTS: readonly [string, ...string[]] = [
  "env",
  "TEST_API_SERVER=real",
  "vitest",
  "run",
  "--project",
  "integration",
];
const inFleet = (name: string): string => `test/fleet/${name}.test.ts`;

if (import.meta.main && !main()) process.exitCode = 1;
