import { quoteWord } from "../quote.ts";
import { SCTP_PROGRAM } from "./sctp.ts";

/** The program `/agnhost` of the image of Kubernetes' tests, as far as a shell does it. Pure. */

/**
 * `connect` is a script, and starts no other program: the suites run it some hundred thousand times. A start of Node takes
 * twenty times as long.
 *
 * bash opens a datagram socket for /dev/udp and a connection for /dev/tcp.
 */
const CONNECT = `
# Sets "timeout" to a duration of Go, such as 1s, 1m0s or 1.5s, in seconds; empty for none.
read_timeout() {
  local text=$1 minutes=0
  timeout=
  case $text in
    '' | 0 | 0s) return ;;
    *ms) text=\${text%ms}; printf -v timeout '%d.%03d' $((text / 1000)) $((text % 1000)); return ;;
    *m*) minutes=\${text%%m*}; text=\${text#*m} ;;
  esac
  timeout=\${text%s}
  [ "$minutes" = 0 ] || printf -v timeout '%d' $((minutes * 60 + \${timeout:-0}))
}

fail() {
  printf '%s\\n' "$1" >&2
  exit 1
}

# Tells an error of bash in the words that suites look for.
explain() {
  case $1 in
    *'onnection refused'*) fail REFUSED ;;
    *'timed out'*) fail TIMEOUT ;;
    *'ame or service not known'* | *'ame resolution'* | *'o address associated'*) fail "DNS: $1" ;;
    *) fail "OTHER: $1" ;;
  esac
}

connect() {
  local protocol=tcp timeout= data=hostname target= flag error code
  while [ $# -gt 0 ]; do
    case $1 in --*=*) flag=\${1%%=*}; set -- "$flag" "\${1#*=}" "\${@:2}" ;; esac
    case $1 in
      --timeout) read_timeout "$2"; shift 2 ;;
      --protocol) protocol=$2; shift 2 ;;
      --udp-data) data=$2; shift 2 ;;
      --sctp-data) shift 2 ;;
      --*) fail "UNKNOWN: unknown flag: $1" ;;
      *) target=$1; shift ;;
    esac
  done
  local host=\${target%:*} port=\${target##*:}
  host=\${host#[}
  host=\${host%]}
  case $port in '' | *[!0-9]*) fail "UNKNOWN: address $target: missing port in address" ;; esac
  case $protocol in
    tcp)
      # A child opens the connection: it can be left when that takes too long.
      exec 4< <(exec 2>&1; exec 3<>"/dev/tcp/$host/$port" && echo connected)
      LC_ALL=C IFS= read -r -u 4 \${timeout:+-t "$timeout"} error
      code=$?
      [ "$error" != connected ] || exit 0
      [ $code -le 128 ] || { kill $! 2>&-; fail TIMEOUT; }
      explain "$error"
      ;;
    udp)
      if error=$(
        { exec 3<>"/dev/udp/$host/$port" && printf '%s\\n' "$data" >&3; } 2>&1 || exit 3
        LC_ALL=C read -r -N 1 -u 3 \${timeout:+-t "$timeout"} 2>&1
      ); then exit 0; else code=$?; fi
      [ $code -le 128 ] || fail 'TIMEOUT: i/o timeout'
      [ -n "$error" ] || fail 'OTHER: No data received from the server.'
      explain "$error"
      ;;
    sctp)
      error=$(sctp connect "$host" "$port" "\${timeout:-30}" 2>&1) && exit 0
      fail "$error"
      ;;
    *) fail "UNKNOWN: unsupported protocol $protocol" ;;
  esac
}
`;

/**
 * What `/agnhost` is in a lab.
 *
 * @param servers - Words that start the servers of the image, as programs of Fairlead.
 */
export function agnhostScript(servers: readonly string[]): string {
  return `#!/bin/bash
sctp() {
  perl - "$@" <<'PERL'
${SCTP_PROGRAM}PERL
}
${CONNECT}
# Serves SCTP as the variables of porter say.
serve_sctp() {
  local name ports=()
  for name in $(compgen -e); do
    case $name in SERVE_SCTP_PORT_*) ports+=("\${name##*_}") ;; esac
  done
  [ \${#ports[@]} = 0 ] || sctp serve "\${ports[@]}" &
}

[ "$1" != porter ] || serve_sctp
case \${1:-pause} in
  connect) shift; connect "$@" ;;
  pause)
    echo Paused
    trap 'exit 2' TERM
    trap 'exit 1' INT
    while :; do sleep 3600 & wait; done
    ;;
  *) exec ${servers.map(quoteWord).join(" ")} "$@" ;;
esac
`;
}
