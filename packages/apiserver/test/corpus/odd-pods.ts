import { post, type Step } from "./scenario.ts";

/** Pods and Deployments with one odd value, and how they are tried: parts of scenarios. */

export const container = (more: object = {}): object => ({ name: "c", image: "example.com/c:1", ...more });
export const pod = (name: string, spec: object = {}, of: object = {}): object => ({
  metadata: { name },
  spec: { containers: [container(of)], ...spec },
});
export const dry = (path: string, body: unknown, options: object = {}): Step =>
  post(`${path}?dryRun=All`, body, options);
export const specOf = (body: unknown): unknown => (body as { spec?: unknown }).spec ?? body;
export const deployment = (name: string, more: object = {}, metadata: object = {}): object => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name, ...metadata },
  spec: {
    selector: { matchLabels: { app: "a" } },
    template: { metadata: { labels: { app: "a" } }, spec: { containers: [container()] } },
    ...more,
  },
});
