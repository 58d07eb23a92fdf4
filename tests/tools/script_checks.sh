# shellcheck shell=bash
# Sourced by the tests of the scripts in tools/: a copy of a script runs in a folder of its own, with impostors for the
# programs it calls. Needs neither network nor administrator, and leaves nothing behind.
# shellcheck disable=SC2016  # much here is quoted for a shell that comes later

root=$(CDPATH='' cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
project=$scratch/project
bin=$scratch/bin
failures=0
checks=0
subject=''

# run [NAME=VALUE...] COMMAND...: leaves status, and the files output and errors. Nothing of the caller's environment comes
# in, and no program of this machine but those linked below.
run() {
  status=0
  env -i PATH="$bin" HOME="$scratch" LC_ALL=C SCRATCH="$scratch" "$@" \
    </dev/null >"$scratch/output" 2>"$scratch/errors" || status=$?
}

check() {
  checks=$((checks + 1))
  "${@:2}" && return
  failures=$((failures + 1))
  printf 'FAILED: %s: %s\n' "$subject" "$1"
  printf '  exit status %s\n' "$status"
  sed 's/^/  stdout: /' "$scratch/output"
  sed 's/^/  stderr: /' "$scratch/errors"
}

exits() { check "exit status $1 expected" [ "$status" = "$1" ]; }
says() { check "stdout should have '$1'" grep -qF -- "$1" "$scratch/output"; }
complains() { check "stderr should have '$1'" grep -qF -- "$1" "$scratch/errors"; }
complains_in_one_line() { check "stderr should be one line" [ "$(wc -l <"$scratch/errors")" = 1 ]; }
ends_with() { check "last line '$1' expected" [ "$(tail -n 1 "$scratch/output")" = "$1" ]; }
called() { check "'$1' should be called" grep -qe "$1" "$scratch/calls"; }
not_called() { check "'$1' should not be called" bash -c '! grep -qe "$1" "$2"' - "$1" "$scratch/calls"; }
exists() { check "'$1' should exist" [ -e "$1" ]; }
is_absent() { check "'$1' should not exist" [ ! -e "$1" ]; }
forget_calls() { : >"$scratch/calls"; }

finish() {
  echo "$checks checks, $failures failed"
  [[ $failures == 0 ]]
}

# impostor NAME < script
impostor() {
  { echo '#!/bin/bash'; echo "echo \"$1 \$*\" >>\"\$SCRATCH/calls\""; cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}

mkdir -p "$bin" "$project"/{.ci,cuda,examples,include,src,tasks,tests,tools}
for program in awk bash cat chmod cp cut dirname env find grep head mkdir mktemp mv nproc realpath rm sed sha256sum sort tail tar tee touch; do
  ln -s "$(command -v "$program")" "$bin"
done
cp "$root/tools/setup.sh" "$project/tools"
forget_calls

impostor g++ <<'E2'
[[ $1 == --version ]] && echo "g++ (Debian 12.2.0-14) ${GCC_IMPOSTOR:-12.2.0}" || echo "${GCC_IMPOSTOR:-12.2.0}"
E2
impostor ninja <<<'exit 0'
impostor pkg-config <<<'exit 0'
impostor python3 <<<'exit 0'
impostor apt-get <<<'exit 100'
impostor sudo <<<'exit 1'
impostor id <<<'echo 1000'
impostor nvidia-smi <<<'[[ -n ${CAPABILITY:-} ]] && echo "$CAPABILITY" || exit 9'
impostor dpkg-query <<<'for name in "${@:4}"; do [[ $name == "${ABSENT:-}" ]] || echo "installed $name"; done'
impostor cmake <<'E2'
[[ $1 == --version ]] && echo "cmake version ${CMAKE_IMPOSTOR:-3.25.1}" && exit
[[ ! -e $SCRATCH/broken-build ]] || exit 1
mkdir -p build/release && cp "$SCRATCH/orthornn" build/release/
E2
