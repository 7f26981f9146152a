# Shared by the scripts here; sourced, not run. Leaves the caller in the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Compiler cache entries are shared between clones of this repository.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1} CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-10G}
# Without it ccache stores nothing that uses a precompiled header.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

say() { printf '== %s\n' "$*"; }

# fail WHAT: one line that says what is wrong and what to do, then exit 1.
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# make_venv FOLDER REQUIREMENTS: a virtual environment that holds exactly what the file asks for; nothing is done when it does.
make_venv() {
  local folder=$1 requirements=$2
  if [[ -x $folder/bin/python ]] && cmp -s "$requirements" "$folder/.requirements"; then
    say "$folder is up to date"
    return
  fi
  say "making $folder from $requirements"
  python3 -m venv "$folder" || fail "cannot make $folder; is python3-venv installed? run scripts/install_dependencies"
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" || fail "pip could not install $requirements"
  cp "$requirements" "$folder/.requirements"
}

# build PRESET [TARGET...]: configures and builds; prints the time it took.
build() {
  local preset=$1 start=$SECONDS
  shift
  cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; fail "cmake --preset $preset failed"; }
  rm -f "build-$preset.log"
  cmake --build --preset "$preset" ${1:+--target "$@"} || return 1
  say "built $preset in $((SECONDS - start)) s"
}
