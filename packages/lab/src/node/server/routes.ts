/** Paths of the kubelet's server. Pure. Source: pkg/kubelet/server. */

export interface KubeletCall {
  readonly verb: "exec" | "attach" | "containerLogs" | "portForward";
  readonly namespace: string;
  readonly pod: string;
  /** Empty for portForward. */
  readonly container: string;
}

/** How many parts follow the pod's name: the pod's uid may precede the container. */
const PARTS: Readonly<Record<KubeletCall["verb"], readonly [min: number, max: number]>> = {
  exec: [1, 2],
  attach: [1, 2],
  containerLogs: [1, 1],
  portForward: [0, 1],
};

/** Reads `/VERB/NAMESPACE/POD[/UID]/CONTAINER`, without the container for portForward. */
export function parseKubeletPath(path: string): KubeletCall | undefined {
  const [empty, verb = "", namespace = "", pod = "", ...rest] = path.split("/").map(decode);
  if (empty !== "" || !isVerb(verb) || [namespace, pod, ...rest].includes("")) return undefined;
  const [min, max] = PARTS[verb];
  if (rest.length < min || rest.length > max) return undefined;
  return { verb, namespace, pod, container: verb === "portForward" ? "" : (rest.at(-1) ?? "") };
}

function isVerb(text: string): text is KubeletCall["verb"] {
  return Object.hasOwn(PARTS, text);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
