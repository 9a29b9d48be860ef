/** The answer to `/version`: the minor whose kinds are served. */
export const VERSION = {
  major: "1",
  minor: "36",
  gitVersion: "v1.36.0+fairlead",
  gitCommit: "",
  gitTreeState: "clean",
  buildDate: "1970-01-01T00:00:00Z",
  goVersion: "",
  compiler: "",
  platform: "linux/amd64",
};
