/**
 * Replaces `$(NAME)` by what `valueOf` knows of it; what it does not know stays as it is, and `$$` is a dollar sign.
 * Source: k8s.io/kubernetes, third_party/forked/golang/expansion.
 */
export function expandVariables(text: string, valueOf: (name: string) => string | undefined): string {
  return text.replaceAll(/\$(?:\$|\(([^)]*)\))/g, (whole, name: string | undefined) =>
    name === undefined ? "$" : (valueOf(name) ?? whole),
  );
}
