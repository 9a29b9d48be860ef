import { ONE, parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";

/** Warnings about valid but discouraged pods. Source: k8s.io/kubernetes, pkg/api/pod, `GetWarningsForPodTemplate`. */
export function podWarnings(spec: Fields | undefined, path: string): readonly string[] {
  const grace = numberAt(spec, "terminationGracePeriodSeconds") ?? 0;
  const lists = ["initContainers", "containers"] as const;
  return [
    ...spreadWarnings(spec, `${path}.topologySpreadConstraints`),
    ...repeated(itemsAt(spec, "hostAliases"), "ip").map(
      ({ at, value }) => `${path}.hostAliases[${at}].ip: duplicate ip ${value}`,
    ),
    ...pullSecretWarnings(itemsAt(spec, "imagePullSecrets"), `${path}.imagePullSecrets`),
    ...fractionWarnings(fieldsAt(spec, "overhead"), `${path}.overhead`),
    ...lists.flatMap((list) =>
      itemsAt(spec, list).flatMap((it, at) => containerWarnings(it, `${path}.${list}[${at}]`)),
    ),
    ...portWarnings(spec, path),
    ...(grace < 0
      ? [
          `${path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
        ]
      : []),
    ...affinityWarnings(fieldsAt(spec, "affinity"), `${path}.affinity`),
  ];
}

const NO_SELECTOR = "a null labelSelector results in matching no pod";

function spreadWarnings(spec: Fields | undefined, path: string): string[] {
  return itemsAt(spec, "topologySpreadConstraints").flatMap((it, at) =>
    it["labelSelector"] === undefined ? [`${path}[${at}].labelSelector: ${NO_SELECTOR}`] : [],
  );
}

function affinityWarnings(affinity: Fields | undefined, path: string): string[] {
  return ["podAffinity", "podAntiAffinity"].flatMap((kind) => {
    const terms = fieldsAt(affinity, kind);
    const needed = itemsAt(terms, "requiredDuringSchedulingIgnoredDuringExecution");
    const liked = itemsAt(terms, "preferredDuringSchedulingIgnoredDuringExecution");
    const at = `${path}.${kind}`;
    return [
      ...needed.flatMap((it, index) =>
        it["labelSelector"] === undefined
          ? [`${at}.requiredDuringSchedulingIgnoredDuringExecution[${index}].labelSelector: ${NO_SELECTOR}`]
          : [],
      ),
      ...liked.flatMap((it, index) =>
        fieldsAt(it, "podAffinityTerm")?.["labelSelector"] === undefined
          ? [
              `${at}.preferredDuringSchedulingIgnoredDuringExecution[${index}].podAffinityTerm.labelSelector: ${NO_SELECTOR}`,
            ]
          : [],
      ),
    ];
  });
}

/** Values that an earlier item has already. */
function repeated(items: readonly Fields[], field: string): readonly { at: number; value: string }[] {
  const seen = new Set<string>();
  return items.flatMap((it, at) => {
    const text = textAt(it, field);
    if (!seen.has(text)) {
      seen.add(text);
      return [];
    }
    return [{ at, value: JSON.stringify(text) }];
  });
}

function pullSecretWarnings(secrets: readonly Fields[], path: string): string[] {
  const again = new Set(repeated(secrets, "name").map((it) => it.at));
  return secrets.flatMap((it, at) => {
    const name = JSON.stringify(textAt(it, "name"));
    const here = `${path}[${at}].name`;
    return [
      ...(again.has(at) ? [`${here}: duplicate name ${name}`] : []),
      ...(name === '""' ? [`${here}: invalid empty name ${name}`] : []),
    ];
  });
}

function containerWarnings(container: Fields, path: string): string[] {
  const resources = fieldsAt(container, "resources");
  return [
    ...["limits", "requests"].flatMap((list) =>
      fractionWarnings(fieldsAt(resources, list), `${path}.resources.${list}`),
    ),
    ...environmentWarnings(container, path),
  ];
}

/** Bytes come in whole numbers. */
export function fractionWarnings(list: Fields | undefined, path: string): string[] {
  return ["memory", "ephemeral-storage", "storage"]
    .filter((it) => (parseQuantity(list?.[it]) ?? 0n) % ONE !== 0n)
    .map(
      (it) =>
        `${path}[${it}]: fractional byte value ${JSON.stringify(list?.[it])} is invalid, must be an integer`,
    );
}

/** A later definition may speak of the earlier one; otherwise it hides it. */
function environmentWarnings(container: Fields, path: string): string[] {
  const seen = new Set<string>();
  return itemsAt(container, "env").flatMap((it, at) => {
    const name = textAt(it, "name");
    const isHidden = seen.has(name) && !textAt(it, "value").includes(`$(${name})`);
    seen.add(name);
    if (!isHidden) return [];
    const quoted = JSON.stringify(name);
    return [
      `${path}.env[${at}]: hides previous definition of ${quoted}, which may be dropped when using apply`,
    ];
  });
}

interface Port {
  readonly path: string;
  readonly port: Fields;
}

/** Containers that run at the same time share one network, so their ports can collide. */
function portWarnings(spec: Fields | undefined, path: string): string[] {
  const lists = ["initContainers", "containers"] as const;
  const ports = lists.flatMap((list) =>
    itemsAt(spec, list).flatMap((it, at) => {
      if (list !== "containers" && it["restartPolicy"] !== "Always") return [];
      return itemsAt(it, "ports").map((port, index) => ({
        path: `${path}.${list}[${at}].ports[${index}]`,
        port,
      }));
    }),
  );
  const byNumber = new Map<string, Port[]>();
  const byName = new Map<string, Port>();
  return ports.flatMap((it) => {
    const number = `${numberAt(it.port, "containerPort") ?? 0}/${textAt(it.port, "protocol")}`;
    const name = textAt(it.port, "name");
    const before = byNumber.get(number) ?? [];
    const found = [...sameNumber(it, before), ...sameName(it, byName.get(name))];
    byNumber.set(number, before);
    if (before.length < MAX_REPORTED) before.push(it);
    if (name !== "" && !byName.has(name)) byName.set(name, it);
    return found;
  });
}

/** With as many others a port is compared; more warnings are not shown anyway. */
const MAX_REPORTED = 20;

function sameNumber({ path, port }: Port, before: readonly Port[]): string[] {
  const bindingOf = (of: Fields): string => `${numberAt(of, "hostPort") ?? 0}/${textAt(of, "hostIP")}`;
  return before.flatMap((other) => {
    if (bindingOf(other.port) === bindingOf(port))
      return [`${path}: duplicate port definition with ${other.path}`];
    const hosts = [other.port, port].map((it) => numberAt(it, "hostPort") ?? 0);
    if (hosts.includes(0)) return [`${path}: overlapping port definition with ${other.path}`];
    return hosts[0] === hosts[1] ? [`${path}: dangerously ambiguous port definition with ${other.path}`] : [];
  });
}

function sameName({ path, port }: Port, other: Port | undefined): string[] {
  if (other === undefined) return [];
  const quoted = JSON.stringify(textAt(port, "name"));
  return [
    `${path}: duplicate port name ${quoted} with ${other.path}, services and probes that select ports by name will use ${other.path}`,
  ];
}
