/** Examples in the help and in the reference of each command, by what people type after "fairlead". */
export const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  lab: ["fairlead lab up", "fairlead lab down"],
  "lab up": ["fairlead lab up", "fairlead lab up --name small --members 2 --nodes 1"],
  "lab down": ["fairlead lab down", "fairlead lab down --all --yes"],
  "lab list": ["fairlead lab list"],
  "lab status": ["fairlead lab status", "fairlead lab status -o json"],
  "lab logs": ["fairlead lab logs member-1/apiserver --tail 20"],
  "lab kubectl": ["fairlead lab kubectl member-1 get pods -A"],
  "lab kubeconfig": ["export KUBECONFIG=$(fairlead lab kubeconfig)"],
  "lab shell": ["fairlead lab shell member-1", "fairlead lab shell member-1-node-1 ip route"],
  "lab kill": ["fairlead lab kill member-2", "fairlead lab kill link/member-1"],
  "lab restore": ["fairlead lab restore member-2"],
  "lab upgrade": ["fairlead lab upgrade --kubernetes-version 1.36 member-1"],
  "lab link": [
    "fairlead lab link member-1 --delay 20ms --loss 1%",
    "fairlead lab link member-1-node-1 --mtu 1400",
    "fairlead lab link member-1 --reset",
  ],
  join: [
    "fairlead join member-1 --hub-context hub --member-context member-1 --dry-run",
    "fairlead join member-1 --hub-context hub --member-context member-1",
  ],
  leave: ["fairlead leave member-1 --hub-context hub --member-context member-1"],
  drain: ["fairlead drain member-1 --hub-context hub", "fairlead drain member-1 --hub-context hub --undo"],
  mesh: ["fairlead mesh list", "fairlead mesh apply prod --what-if"],
  "mesh create": [
    "fairlead mesh create prod --member-selector env=prod",
    "fairlead mesh create site --member-selector site=berlin --network parallel --version 0.2.0",
  ],
  "mesh apply": [
    "fairlead mesh apply prod --what-if",
    "fairlead mesh apply prod --batch 10",
    "fairlead mesh apply prod --rollback",
  ],
  "mesh list": ["fairlead mesh list -o wide"],
  "mesh show": ["fairlead mesh show prod -o yaml"],
  "mesh list-members": ["fairlead mesh list-members prod --selector region=eu"],
  "mesh status": ["fairlead mesh status prod"],
  "mesh delete": ["fairlead mesh delete prod --disconnect"],
  policy: ["fairlead policy lint", "fairlead policy explain shop/front member-2/shop/cart 80"],
  "policy explain": [
    "fairlead policy explain shop/front shop/cart 8080",
    "fairlead policy explain shop/front member-2/shop/cart 53/udp --contexts member-1,member-2",
  ],
  "policy diff": [
    "fairlead policy diff -f policy.yaml --context member-1 --peer-contexts member-2",
    "fairlead policy diff -f policy.yaml --delete",
  ],
  "policy log": [
    "fairlead policy log -f --contexts member-1,member-2",
    "fairlead policy log --all --namespace shop -o text",
  ],
  "policy lint": ["fairlead policy lint --contexts member-1,member-2"],
  "mesh wait": ["fairlead mesh wait prod --timeout 300"],
  status: ["fairlead status --hub-context hub", "fairlead status --hub-context hub -o wide"],
  verify: [
    "fairlead verify --hub-context hub",
    "fairlead verify --member-contexts member-1,member-2 --check tcp --check mtu -o wide",
  ],
  version: ["fairlead version --client", "fairlead version --hub-context hub -o yaml"],
  completion: ["source <(fairlead completion bash)", "fairlead completion fish | source"],
  hub: [
    "fairlead hub --kubeconfig hub.kubeconfig --metrics 127.0.0.1:8080",
    "fairlead hub --embedded --data /var/lib/fairlead --bind-address 0.0.0.0 --advertise-address 192.0.2.10",
  ],
  member: ["fairlead member --kubeconfig member.kubeconfig --metrics 127.0.0.1:8080"],
  node: ["fairlead node --kubeconfig member.kubeconfig --node-name node-1"],
  "hub-net-controller-manager": ["fairlead hub-net-controller-manager --kubeconfig hub.kubeconfig --v 4"],
  "member-net-controller-manager": [
    "MEMBER_CLUSTER_NAME=member-1 fairlead member-net-controller-manager --kubeconfig member.kubeconfig",
  ],
  "mcs-controller-manager": [
    "MEMBER_CLUSTER_NAME=member-1 fairlead mcs-controller-manager --kubeconfig member.kubeconfig",
  ],
  "net-crd-installer": ["fairlead net-crd-installer --mode member --kubeconfig member.kubeconfig"],
  dns: ["fairlead dns --kubeconfig member.kubeconfig --listen 10.96.0.53:53"],
  "dns check": ["fairlead dns check --server 10.96.0.10 --name kubernetes.default.svc"],
  "dns setup": [
    "fairlead dns setup --context member-1 --dry-run",
    "fairlead dns setup --context member-1 --undo",
  ],
  relay: [
    "fairlead relay --kubeconfig hub.kubeconfig --name relay-1 --address 203.0.113.9",
    "fairlead relay --gateways gateways.json --key relay.key --metrics 127.0.0.1:8080",
  ],
  crds: ["fairlead crds print --role hub"],
  "crds install": ["fairlead crds install --role member --context member-1"],
  "crds check": ["fairlead crds check --role hub --context hub"],
  "crds print": ["fairlead crds print --role member | kubectl --context member-1 apply --server-side -f -"],
  apiserver: ["fairlead apiserver --data ./data --port 6443"],
  envtest: ["fairlead envtest use --print path"],
  "envtest use": ["export KUBEBUILDER_ASSETS=$(fairlead envtest use --print path)"],
  "envtest list": ["fairlead envtest list"],
  "envtest path": ["fairlead envtest path --bin-dir ./assets"],
};

/** With which codes commands and programs end. */
export const EXIT_CODES: readonly (readonly [code: number, meaning: string])[] = [
  [0, "The command succeeded."],
  [1, "The command failed; the message says why."],
  [2, "The command line is invalid: an unknown command, flag or value (`OPTION_INVALID`)."],
  [
    3,
    "`fairlead status`: it could read the fleet, and the hub or a member is not healthy. Drained members, conflicts and invalid exports do not count. `fairlead verify`: a check failed.",
  ],
  [130, "The command was interrupted by Ctrl-C."],
  [141, "The reader of the output has gone, as in `fairlead crds print --role hub | head`."],
];
