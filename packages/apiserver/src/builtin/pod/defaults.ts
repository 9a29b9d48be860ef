import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  setDefaults,
  textAt,
} from "@fairlead/base/fields.ts";

/** Source: k8s.io/kubernetes, pkg/apis/core/v1/defaults.go. */

/** 0644. */
const FILE_MODE = 0o644;
/** Unit: seconds. */
const TOKEN_LIFETIME = 3600;

/** The defaults of a pod spec, in a Pod and in the template of a workload. */
export function defaultPodSpec(spec: Fields): void {
  setDefaults(spec, {
    restartPolicy: "Always",
    terminationGracePeriodSeconds: 30,
    dnsPolicy: "ClusterFirst",
    schedulerName: "default-scheduler",
  });
  spec["securityContext"] ??= {};
  alignServiceAccount(spec);
  for (const list of ["containers", "initContainers", "ephemeralContainers"]) {
    for (const container of itemsAt(spec, list)) defaultContainer(container);
  }
  for (const volume of itemsAt(spec, "volumes")) defaultVolume(volume);
}

/** `serviceAccount` is the old name of `serviceAccountName`; both are written. */
function alignServiceAccount(spec: Fields): void {
  const name = textAt(spec, "serviceAccountName") || textAt(spec, "serviceAccount");
  if (name === "") return;
  spec["serviceAccountName"] = name;
  spec["serviceAccount"] = name;
}

/** For Pods only: what templates leave open. */
export function defaultPod(pod: Fields): void {
  const spec = ensureFields(pod, "spec");
  setDefault(spec, "enableServiceLinks", true);
  for (const list of ["containers", "initContainers"]) {
    for (const container of itemsAt(spec, list)) {
      defaultRequests(container);
      if (spec["hostNetwork"] === true) defaultHostPorts(container);
    }
  }
  // The pod as a whole is as a container.
  if (spec["resources"] !== undefined) defaultRequests(spec);
  defaultPodSpec(spec);
  // A negative period in a template becomes the shortest one.
  if ((numberAt(spec, "terminationGracePeriodSeconds") ?? 0) < 0) spec["terminationGracePeriodSeconds"] = 1;
}

/** A limit without a request is also the request. */
function defaultRequests(container: Fields): void {
  const limits = fieldsAt(fieldsAt(container, "resources"), "limits");
  if (limits === undefined) return;
  const requests = ensureFields(ensureFields(container, "resources"), "requests");
  for (const key of Object.keys(limits)) requests[key] ??= limits[key];
}

/** On the host's network a port of a container is the host's. */
function defaultHostPorts(container: Fields): void {
  for (const port of itemsAt(container, "ports")) {
    const number = numberAt(port, "containerPort") ?? 0;
    if (number !== 0 && (numberAt(port, "hostPort") ?? 0) === 0) port["hostPort"] = number;
  }
}

function defaultContainer(container: Fields): void {
  setDefaults(container, {
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    imagePullPolicy: pullPolicyOf(textAt(container, "image")),
  });
  container["resources"] ??= {};
  for (const port of itemsAt(container, "ports")) setDefault(port, "protocol", "TCP");
  for (const env of itemsAt(container, "env")) defaultFieldRef(fieldsAt(env, "valueFrom"));
  for (const probe of ["livenessProbe", "readinessProbe", "startupProbe"]) {
    defaultProbe(fieldsAt(container, probe));
  }
  const lifecycle = fieldsAt(container, "lifecycle");
  // Behind a feature that is off by default.
  delete lifecycle?.["stopSignal"];
  for (const hook of ["postStart", "preStop"]) defaultHttpGet(fieldsAt(lifecycle, hook));
}

/** An image whose tag moves is pulled each time. */
function pullPolicyOf(image: string): "Always" | "IfNotPresent" {
  const [name = "", digest] = image.split("@", 2);
  const tag = /:([^:/]+)$/.exec(name)?.[1];
  if (tag === undefined) return digest === undefined ? "Always" : "IfNotPresent";
  return tag === "latest" ? "Always" : "IfNotPresent";
}

function defaultProbe(probe: Fields | undefined): void {
  if (probe === undefined) return;
  const counts = { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 };
  for (const [key, value] of Object.entries(counts)) if (!probe[key]) probe[key] = value;
  defaultHttpGet(probe);
  const grpc = fieldsAt(probe, "grpc");
  if (grpc !== undefined) grpc["service"] ??= "";
}

function defaultHttpGet(handler: Fields | undefined): void {
  const httpGet = fieldsAt(handler, "httpGet");
  if (httpGet !== undefined) setDefaults(httpGet, { path: "/", scheme: "HTTP" });
}

function defaultFieldRef(holder: Fields | undefined): void {
  const fieldRef = fieldsAt(holder, "fieldRef");
  if (fieldRef !== undefined) setDefault(fieldRef, "apiVersion", "v1");
}

function defaultVolume(volume: Fields): void {
  if (Object.keys(volume).every((it) => it === "name")) volume["emptyDir"] = {};
  for (const kind of ["secret", "configMap", "downwardAPI", "projected"]) {
    const source = fieldsAt(volume, kind);
    if (source !== undefined) setDefault(source, "defaultMode", FILE_MODE);
  }
  const hostPath = fieldsAt(volume, "hostPath");
  if (hostPath !== undefined) hostPath["type"] ??= "";
  defaultDownwardItems(fieldsAt(volume, "downwardAPI"));
  for (const source of itemsAt(fieldsAt(volume, "projected"), "sources")) {
    defaultDownwardItems(fieldsAt(source, "downwardAPI"));
    const token = fieldsAt(source, "serviceAccountToken");
    if (token !== undefined) setDefault(token, "expirationSeconds", TOKEN_LIFETIME);
  }
  const claim = fieldsAt(fieldsAt(volume, "ephemeral"), "volumeClaimTemplate");
  if (claim !== undefined) setDefault(ensureFields(claim, "spec"), "volumeMode", "Filesystem");
}

function defaultDownwardItems(source: Fields | undefined): void {
  for (const item of itemsAt(source, "items")) defaultFieldRef(item);
}
