/** Names of images, as the distribution specification normalises them. Pure. */

export interface ImageReference {
  /** "docker.io", "registry.k8s.io", "localhost:5000". */
  readonly registry: string;
  /** "library/busybox", "nicolaka/netshoot". */
  readonly repository: string;
  /** "latest" when neither a tag nor a digest was given. */
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const REPOSITORY = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/;
const REGISTRY =
  /^[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?$/;
/** A tag has no slash and a name's port is followed by one: the last colon without a slash behind it begins the tag. */
const REFERENCE =
  /^(?<name>[^@]+?)(?::(?<tag>\w[\w.-]{0,127}))?(?:@(?<digest>[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-f]{32,}))?$/;

/** Reads "[REGISTRY/]REPOSITORY[:TAG][@DIGEST]"; undefined if the text is invalid. Source: distribution/reference. */
export function parseImage(text: string): ImageReference | undefined {
  const { name, tag, digest } = REFERENCE.exec(text)?.groups ?? {};
  if (name === undefined) return undefined;
  const split = splitName(name);
  if (!REPOSITORY.test(split.repository) || !REGISTRY.test(split.registry)) return undefined;
  return { ...split, tag: tag ?? (digest === undefined ? "latest" : undefined), digest };
}

/** The part before the first slash is a registry if it looks like a host; otherwise the registry is docker.io. */
function splitName(path: string): Pick<ImageReference, "registry" | "repository"> {
  const slash = path.indexOf("/");
  const first = slash < 0 ? "" : path.slice(0, slash);
  const isHost = first.includes(".") || first.includes(":") || first === "localhost";
  if (isHost && first !== "docker.io") return { registry: first, repository: path.slice(slash + 1) };
  const repository = isHost ? path.slice(slash + 1) : path;
  return {
    registry: "docker.io",
    repository: repository.includes("/") ? repository : `library/${repository}`,
  };
}

/** The full name: what a node reports as the image of a container. */
export function formatImage(image: ImageReference): string {
  const tag = image.tag === undefined ? "" : `:${image.tag}`;
  const digest = image.digest === undefined ? "" : `@${image.digest}`;
  return `${image.registry}/${image.repository}${tag}${digest}`;
}

/** Registry and repository, without the short forms of docker.io: the key of the catalogue. */
export function imageName({ registry, repository }: ImageReference): string {
  return `${registry}/${repository}`;
}
