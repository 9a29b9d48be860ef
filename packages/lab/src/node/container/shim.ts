import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";

/**
 * The shim: three POSIX shell scripts that hold a container, so that it, its log and its exit code outlive the kubelet.
 *
 * Everything that varies reaches them as positional parameters, as lines of files or as quoted words of variables; nothing is
 * interpolated.
 */

/** Runs outside the container for as long as it lives; writes its exit code. */
const HOLD = `#!/bin/sh
# hold DIR STAGE NETNS HOSTNAME WORKDIR PROGRAM PATH
# Holds the container of folder DIR. NETNS is empty for a pod on its node's own network.
set -u
here=\${0%/*}
dir=$1 stage=$2 netns=$3
exec >>"$dir/log" 2>&1
mkfifo "$dir/alive"
relay=
if [ -e "$dir/terminal" ]; then
  # 6 and 7 are the two ends of a terminal. Reading it fails when the last program on it has ended.
  cat <&6 2>/dev/null 3>&- 6<&- 7>&- &
  logger=$!
  exec 5>&7 4<&7 7>&-
  if [ -p "$dir/stdin" ]; then
    # The end of what an attached client types is not the end of the terminal.
    exec 8<>"$dir/stdin"
    cat <&8 >&6 2>/dev/null 3>&- 4<&- 5>&- 8>&- &
    relay=$!
    exec 8>&-
  fi
  exec 6>&-
else
  # Output goes through a pipe, as under any runtime: a program that reopens /dev/stdout must not truncate the log.
  mkfifo "$dir/output"
  cat <"$dir/output" 3>&- &
  logger=$!
  exec 5>"$dir/output"
  rm "$dir/output"
  if [ -p "$dir/stdin" ] && [ -e "$dir/stdin-once" ]; then
    # Waits for a client; when that has closed its end, the program reads the end of its input.
    mkfifo "$dir/input"
    exec 8<>"$dir/input"
    cat 3>&- 5>&- <"$dir/stdin" >&8 8>&- &
    relay=$!
    exec 4<"$dir/input" 8>&-
  elif [ -p "$dir/stdin" ]; then
    exec 4<>"$dir/stdin"
  else
    exec 4</dev/null
  fi
fi
read -r stat </proc/self/stat
printf '%s\\n' "$stat" >"$dir/holder"
# A later kubelet opens this pipe for reading: it sees the end of file when this process is gone, whatever ended it.
exec 9<>"$dir/alive"
shift 3
set -- unshare --mount --uts --ipc --pid --propagation private -- \\
  setpriv --pdeathsig KILL /bin/sh "$here/fork" /bin/sh "$here/enter" "$dir" "$stage" "$@"
if [ -n "$netns" ]; then set -- nsenter "--net=$netns" -- "$@"; fi
"$@" >&5 2>&5 5>&- 9>&- &
container=$!
exec 3>&- 4<&- 5>&-
wait "$container"
code=$?
if [ -n "$relay" ]; then kill "$relay" 2>/dev/null; fi
wait "$logger"
printf '%s\\n' "$code" >"$dir/exit.new" && mv "$dir/exit.new" "$dir/exit"
`;

/**
 * The process between the two: its first child is process 1 of the new PID namespace, and its exit code is that child's.
 *
 * A shell reports SIGKILL as 137; `unshare --fork` cannot raise it on itself and ends with 1. Only built-in commands may
 * follow: any other would be a process of the container.
 */
const FORK = `#!/bin/sh
# fork COMMAND...
setpriv --pdeathsig KILL "$@" <&4 4<&- &
exec 2>/dev/null 3>&- 4<&-
wait $!
`;

/**
 * Process 1 of the container: makes its root, then becomes the program.
 *
 * Errors on the way are reported to the kubelet on descriptor 3, not in the container's log.
 */
const ENTER = `#!/bin/sh
# enter DIR STAGE HOSTNAME WORKDIR PROGRAM PATH
set -eu
dir=$1 stage=$2 hostname=$3 workdir=$4 program=$5 path=$6
exec 5>&2 2>&3
# The old /proc still tells this process's id on the machine, which exec keeps.
read -r stat </proc/self/stat
hostname -- "$hostname"
mount -t tmpfs -o mode=0755 fairlead "$stage"
cd -- "$stage"
mkdir upper work root
if ! mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root 2>/dev/null; then
  # Inside a user namespace "/" has locked mounts below it and cannot be a lower layer as a whole (clone_private_mount).
  mkdir uppers works
  mount -t tmpfs -o mode=0755 fairlead root
  for entry in /*; do
    name=\${entry#/}
    case $name in proc | sys | dev | run | tmp | mnt | media | root | home | lost+found) continue ;; esac
    if [ -L "$entry" ]; then
      cp --no-dereference -- "$entry" root/
    elif [ -d "$entry" ]; then
      mkdir "uppers/$name" "works/$name" "root/$name"
      mount -t overlay -o "lowerdir=$entry,upperdir=uppers/$name,workdir=works/$name,userxattr" overlay "root/$name" 2>/dev/null ||
        mount --rbind -o ro "$entry" "root/$name"
    fi
  done
  mkdir -p root/proc root/dev root/etc
fi
cd root
mkdir -p .fairlead-machine
pivot_root . .fairlead-machine
cd /
old=/.fairlead-machine
mount -t proc -o nosuid,nodev,noexec proc /proc
# Refused where the network namespace belongs to another user namespace; few programs look there.
mkdir -p /sys
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs /sys 2>"$old/dev/null" || :
mount --all --fstab "$old$dir/mounts"
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr
ln -s pts/ptmx /dev/ptmx
while IFS= read -r file; do
  case $file in /dev/*) ;; *) mkdir -p -- "\${file%/*}/" ;; esac
  [ -e "$file" ] || : >"$file"
done <"$old$dir/files"
mount --all --fstab "$old$dir/file-mounts"
# If /etc is a separate file system it is read-only, and stays as it is.
[ ! -s "$old$dir/root-only" ] || xargs -0 rm -rf -- <"$old$dir/root-only" 2>"$old/dev/null" || :
cp --remove-destination -- "$old$dir/etc/"* /etc/
mkdir -p -- "$workdir"
set --
while IFS= read -r line; do
  case $line in *\\\\*)
    line=$(printf '%b.' "$line")
    line=\${line%.}
    ;;
  esac
  set -- "$@" "$line"
done <"$old$dir/command"
if ! (PATH=$path; command -v -- "$program" >/dev/null); then
  printf 'exec: "%s": executable file not found in $PATH\\n' "$program" >&3
  exit 128
fi
# Programs reopen their streams, e.g. as /dev/stdout; only pipes and terminals ever change their owner.
owner=$(cat "$old$dir/owner")
if [ -n "$owner" ]; then
  for fd in 0 1; do
    if [ ! -p "/proc/self/fd/$fd" ] && [ ! -t "$fd" ]; then continue; fi
    if ! chown -- "$owner" "/proc/self/fd/$fd" 2>/dev/null; then
      printf 'cannot run as user %s: a lab without root has no other users\\n' "$owner" >&3
      exit 128
    fi
  done
fi
readonly=$(cat "$old$dir/read-only")
printf '%s\\n' "$stat" >"$old$dir/process"
umount --lazy "$old"
rmdir "$old"
for path in $readonly; do mount -o remount,bind,ro "$path"; done
cd -- "$workdir"
printf 'started\\n' >&3
exec "$@" 2>&5 3>&- 5>&-
`;

/**
 * Runs one more program in a container, with its environment and arguments as `wordsInVariables` gives them.
 *
 * They are variables because a shell has those at once: lines from a pipe it reads by the byte. They do not arrive as
 * arguments because nsenter shows its own to every user of the machine for as long as the program runs.
 */
export const JOIN_SCRIPT = `program=$1 path=$2 workdir=$3 own=$PATH words= at=0
while eval "part=\\\${FAIRLEAD_WORDS_$at-}"; [ -n "$part" ]; do
  unset "FAIRLEAD_WORDS_$at"
  words=$words$part at=$((at + 1))
done
eval "set -- $words"
cd -- "$workdir" || exit 126
PATH=$path
if ! command -v -- "$program" >/dev/null; then
  printf 'exec: "%s": executable file not found in $PATH\\n' "$program" >&2
  exit 127
fi
PATH=$own
exec "$@"
`;

export interface Shim {
  /** Path of the script that holds a container. */
  readonly hold: string;
}

/** Writes the scripts. Each by rename: a shell that still reads an older one keeps reading that. */
export function installShim(folder: string): Shim {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const [name, text] of [
    ["hold", HOLD],
    ["fork", FORK],
    ["enter", ENTER],
  ] as const) {
    replaceFileSync(join(folder, name), text, 0o700);
  }
  return { hold: join(folder, "hold") };
}

/** One line for each word; backslash and newline are written as `\\` and `\n`, which printf's %b reads. */
export function renderWords(words: readonly string[]): string {
  return words
    .map((word) => `${word.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`)}\n`)
    .join("");
}

/** Characters in a variable: four bytes each at most, and the kernel takes 128 KiB with the name (execve(2)). */
const PART = /[\s\S]{1,32000}/gu;

/** Variables of the environment from which `JOIN_SCRIPT` makes its arguments. */
export function wordsInVariables(words: readonly string[]): Readonly<Record<string, string>> {
  const parts = words.map(quoteWord).join(" ").match(PART) ?? [];
  return Object.fromEntries(parts.map((part, at) => [`FAIRLEAD_WORDS_${at}`, part]));
}

/** `word` as a shell reads it unchanged. */
function quoteWord(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
