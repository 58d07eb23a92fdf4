# shellcheck shell=bash
# Sourced by tools/quickstart, test, test-on-debian-13, wheel, fuzz and learning-table:
#
#   install_prerequisites [format] [python] [doxygen] [fuzz]
#                                                    installs what the build and these checks need; exits 1 if it cannot
#   configure PRESET                                 one configuration for quickstart, test and learning-table, which thus
#                                                    share compiled files
#
# Only missing packages are installed. ORTHORNN_SKIP_SETUP=1 installs nothing. It is for users who have the
# libraries elsewhere (conda, spack, modules) and set CMAKE_PREFIX_PATH.

libraries=(libeigen3-dev libhdf5-dev catch2 libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev
  libutf8proc-dev libzip-dev libsentencepiece-dev)
# The same, in the same order.
pkg_config_names=(eigen3 hdf5 catch2 CLI11 fmt nlohmann_json tomlplusplus zlib
  libutf8proc libzip sentencepiece)
oldest_gcc=12
oldest_cmake=3.25
oldest_capability=8.0

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# version_at_least HAVE WANTED
version_at_least() {
  [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

has() {
  command -v "$1" >/dev/null
}

# Prints the command of clang-format 14, the version that formats the sources.
find_clang_format() {
  local name
  for name in clang-format-14 clang-format; do
    if [[ $("$name" --version 2>/dev/null) =~ version\ 14\. ]]; then
      echo "$name"
      return
    fi
  done
  return 1
}

# Prints the packages of missing tools. A tool is present if its command is on the PATH.
missing_tools() {
  [[ -n ${CXX:-} ]] || has g++ || echo g++
  has cmake || echo cmake
  has ninja || echo ninja-build
  has pkg-config || echo pkg-config
  has curl || printf '%s\n' curl ca-certificates
}

# Clang's sanitizers, libFuzzer and OpenMP are separate packages.
clang_can_fuzz() {
  has clang++ && clang++ -x c++ -fsanitize=fuzzer,address,undefined -fopenmp -o /dev/null - 2>/dev/null <<'END'
#include <omp.h>
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, decltype(sizeof 0)) { return omp_get_num_threads() - 1; }
END
}

missing_libraries() {
  local installed name
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${libraries[@]}" 2>/dev/null || true)
  for name in "${libraries[@]}"; do
    grep -qxF "installed $name" <<<"$installed" || echo "$name"
  done
}

offered_by_apt() {
  [[ -n $(apt-cache show "$1" 2>/dev/null) ]]
}

# Newer releases do not offer this version: tools/test then reports its format check as skipped.
# If apt's lists were never fetched, it is unknown whether the release offers it.
missing_formatter() {
  find_clang_format >/dev/null && return
  ! compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null || offered_by_apt clang-format-14 || return 0
  echo clang-format-14
}

may_become_root() {
  [[ $(id -u) == 0 ]] && return
  has sudo && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }
}

# as_root COMMAND...: sudo asks for a password only if it must (and only where may_become_root saw a terminal).
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    sudo "$@"
  fi
}

apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)

# Once for each run of a script.
refresh_lists() {
  [[ -z ${lists_are_fresh:-} ]] || return 0
  lists_are_fresh=yes
  as_root "${apt[@]}" update </dev/null || echo "The package lists could not be refreshed; going on with the old ones." >&2
}

install_with_apt() {
  local packages=("$@")
  may_become_root || fail "these packages are missing: $*
Installing them takes an administrator, once:

  apt-get update && apt-get install --no-install-recommends $*
"
  echo "Installing what is missing: $*"
  refresh_lists
  if [[ " $* " == *" clang-format-14 "* ]] && ! offered_by_apt clang-format-14; then
    mapfile -t packages < <(printf '%s\n' "$@" | grep -vx clang-format-14)
  fi
  [[ ${#packages[@]} == 0 ]] ||
    as_root "${apt[@]}" install --yes --no-install-recommends "${packages[@]}" </dev/null >/dev/null ||
    fail "apt-get could not install: ${packages[*]} (its own message is above; is this machine online?)"
}

# install_if_possible PACKAGES WHAT_IS_MISSING: for optional packages; a failure only prints a message.
install_if_possible() {
  local packages
  read -ra packages <<<"$1"
  ! may_become_root || refresh_lists 2>/dev/null
  (install_with_apt "${packages[@]}") 2>/dev/null || echo "$2 until $1 is installed; all else works." >&2
}

# Other distributions: nothing is installed; missing packages are named.
check_without_apt() {
  local missing i
  mapfile -t missing < <(missing_tools)
  if has pkg-config; then
    for i in "${!libraries[@]}"; do
      pkg-config --exists "${pkg_config_names[i]}" || missing+=("${libraries[i]}")
    done
  else
    missing+=("${libraries[@]}")
  fi
  [[ ${#missing[@]} == 0 ]] || fail "there is no apt-get here, and these seem to be missing: ${missing[*]}
(by their names in Debian). Please install them with this system's package manager and run this again.
ORTHORNN_SKIP_SETUP=1 skips this check, where CMake finds them in places of your own."
}

check_versions() {
  local have
  have=$(cmake --version | sed -n 's/^cmake version //p')
  version_at_least "$have" "$oldest_cmake" ||
    fail "cmake $oldest_cmake or newer is needed, and $(command -v cmake) is ${have:-of unknown version}.
Debian 12, Debian 13 and Ubuntu 24.04 bring a newer one; elsewhere 'pip install cmake' does. Put it first in PATH."
  [[ -z ${CXX:-} ]] || return 0
  have=$(g++ -dumpfullversion)
  version_at_least "$have" "$oldest_gcc" ||
    fail "g++ $oldest_gcc or newer is needed, and $(command -v g++) is ${have:-of unknown version}.
If there is a newer compiler under another name, name it: CXX=g++-13 $0"
}

install_prerequisites() {
  [[ ${ORTHORNN_SKIP_SETUP:-} != 1 ]] || return 0
  local wanted=" $* "
  if has apt-get && has dpkg-query; then
    local missing
    mapfile -t missing < <(missing_tools; missing_libraries; [[ $wanted != *" format "* ]] || missing_formatter)
    [[ ${#missing[@]} == 0 ]] || install_with_apt "${missing[@]}"
    [[ $wanted != *" python "* ]] || python3 -c "import ensurepip, h5py, numpy" 2>/dev/null ||
      install_if_possible "python3-numpy python3-h5py python3-venv" \
        "numpy, h5py or venv is missing: tools/numpy_model.py and the Python package are not tested"
    [[ $wanted != *" doxygen "* ]] || has doxygen ||
      install_if_possible doxygen "doxygen is missing: the API reference is not checked"
    [[ $wanted != *" fuzz "* ]] || clang_can_fuzz ||
      install_if_possible "clang libclang-rt-dev libomp-dev" "clang with libFuzzer is missing: tools/fuzz does not run"
  else
    check_without_apt
  fi
  check_versions
}

# Prints the architecture of the first GPU, 90 for compute capability 9.0; fails if orthornn can use no GPU.
gpu_architecture() {
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
  [[ $capability =~ ^[0-9]+\.[0-9]+$ ]] && version_at_least "$capability" "$oldest_capability" && echo "${capability/./}"
}

# Warnings of other compilers are not errors: every compiler release adds new warnings.
compiler_is_tested() {
  local compiler version
  read -ra compiler <<<"${CXX:-g++}"
  version=$("${compiler[@]}" --version | head -n 1)
  [[ $version == *"g++"* && $version =~ \ (12|13|14)\.[0-9.]+$ ]]
}

configure() {
  local options=(-DORTHORNN_WERROR=OFF) architecture
  ! compiler_is_tested || options=(-DORTHORNN_WERROR=ON)
  if [[ $1 == release ]]; then
    if architecture=$(gpu_architecture); then
      options+=(-DORTHORNN_CUDA=AUTO "-DCMAKE_CUDA_ARCHITECTURES=$architecture")
    else
      options+=(-DORTHORNN_CUDA=OFF)
    fi
  fi
  # Whether kernels compile shows without the optimizer, in half the time. CUDA 12.4 does not have the option.
  if [[ $1 == kernels && $(nvcc --help) == *--Ofast-compile* ]]; then options+=(-DCMAKE_CUDA_FLAGS=-Ofc=max); fi
  # On few cores a build from nothing is shorter in large groups. The size that a build has is kept.
  [[ -e build/$1/CMakeCache.txt ]] || options+=(-DCMAKE_UNITY_BUILD_BATCH_SIZE=32)
  # CMake reads these when it configures for the first time.
  ! has ccache || export CMAKE_{C,CXX,CUDA}_COMPILER_LAUNCHER=ccache
  cmake --preset "$1" "${options[@]}"
}
