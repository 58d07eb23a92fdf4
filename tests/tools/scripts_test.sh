#!/usr/bin/env bash
# Checks of the scripts in tools/ but learning-table.
# shellcheck disable=SC2016  # much here is quoted for a shell that comes later
set -euo pipefail
# shellcheck source=tests/tools/script_checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/script_checks.sh"

echo "/// One." >"$project/include/one.hpp"
cp "$root/.ci/run" "$project/.ci"
cp "$root"/tools/{quickstart,test,test-on-debian-13,fetch-data,data.sha256} "$project/tools"
echo 'int main() {}' >"$project/src/main.cpp"

impostor clang-format-14 <<'E2'
[[ $1 == --version ]] && echo "clang-format version 14.0.6" && exit
[[ ! -e $SCRATCH/ugly ]] || { echo "src/main.cpp:1:4: error: code should be clang-formatted [-Wclang-format-violations]" >&2; exit 1; }
E2
impostor doxygen <<'E2'
[[ ! -e $SCRATCH/unclear ]] || { echo "include/one.hpp:1: warning: Member two is not documented." >&2; exit 1; }
mkdir -p build/api/xml
printf '<enumvalue id="a">\n<name>a</name>\n<para>One.</para>\n</enumvalue>\n' >build/api/xml/one.xml
[[ ! -e $SCRATCH/bare ]] || printf '<enumvalue id="b">\n<name>b</name>\n</enumvalue>\n' >>build/api/xml/one.xml
E2
impostor ctest <<'E2'
while [[ $1 != --output-junit ]]; do shift; done
junit=$2
[[ ! -e $SCRATCH/no-tests ]] || exit 8
printf '\t<testcase name="a" status="run">\n\t</testcase>\n' >"$junit"
printf '\t<testcase name="b" status="notrun">\n\t\t<skipped message="SKIP_RETURN_CODE=4"/>\n\t</testcase>\n' >>"$junit"
if [[ -e $SCRATCH/red ]]; then
  printf '\t<testcase name="c" status="%s">\n\t\t<skipped message="gone"/>\n\t</testcase>\n' "$(<"$SCRATCH/red")" >>"$junit"
  exit 8
fi
E2
# The trained model of this program is a text file: what its evaluation says.
cat >"$scratch/orthornn" <<'E2'
#!/bin/bash
echo "orthornn $*" >>"$SCRATCH/calls"
case $1 in
  train)
    [[ ! -e $SCRATCH/broken-training ]] || exit 1
    mkdir -p runs/quickstart
    echo '{"cross_entropy": 1.5e-05, "accuracy": 0.99984, "baseline":0.1733,
      "orthogonality_error": 2.1e-07, "steps": 4200, "solved": true}' >runs/quickstart/model.h5
    ;;
  eval) grep -q cross_entropy "$2" && cat "$2" ;;
esac
E2
chmod +x "$scratch/orthornn"
# Its network is a folder, each site in it a folder with the name of its host.
impostor curl <<'E2'
while [[ $1 != --output ]]; do shift; done
cp "$SCRATCH/web/${3#*//}" "$2" 2>/dev/null || { echo "curl: (22) The requested URL returned error: 404" >&2; exit 22; }
E2

subject="set-up, nothing missing"
run bash -c 'source "$1/tools/setup.sh" && install_prerequisites format' - "$project"
exits 0
not_called apt-get

subject="set-up, a package missing and no way to install it"
run ABSENT=libhdf5-dev bash -c 'source "$1/tools/setup.sh" && install_prerequisites' - "$project"
exits 1
complains "missing: libhdf5-dev"
complains "apt-get install --no-install-recommends libhdf5-dev"
not_called apt-get

subject="set-up, a package missing and sudo at hand"
impostor sudo <<<'[[ $1 != -n ]] || shift; "$@"'
impostor apt-get <<<'exit 0'
run ABSENT=libhdf5-dev bash -c 'source "$1/tools/setup.sh" && install_prerequisites' - "$project"
exits 0
called '^sudo -n .*apt-get.*install.* libhdf5-dev$'
called '^apt-get.* update$'

subject="set-up, numpy missing"
impostor python3 <<<'exit 1'
forget_calls
run bash -c 'source "$1/tools/setup.sh" && install_prerequisites python' - "$project"
exits 0
called '^apt-get .*install.* python3-numpy python3-h5py python3-venv$'

subject="set-up, doxygen missing"
mv "$bin/doxygen" "$scratch"
forget_calls
run bash -c 'source "$1/tools/setup.sh" && install_prerequisites doxygen' - "$project"
exits 0
called '^apt-get .*install.* doxygen$'
mv "$scratch/doxygen" "$bin"

subject="set-up, clang and numpy missing"
forget_calls
run bash -c 'source "$1/tools/setup.sh" && install_prerequisites fuzz python' - "$project"
exits 0
called '^apt-get .*install.* clang libclang-rt-dev libomp-dev$'
check "the package lists should be fetched once" [ "$(grep -c '^apt-get.* update$' "$scratch/calls")" = 1 ]

subject="set-up, numpy missing and not to be had"
impostor apt-get <<<'exit 100'
run bash -c 'source "$1/tools/setup.sh" && install_prerequisites python' - "$project"
exits 0
complains "until python3-numpy python3-h5py python3-venv is installed"
complains_in_one_line

subject="set-up, numpy missing and no way to install it"
impostor sudo <<<'exit 1'
forget_calls
run bash -c 'source "$1/tools/setup.sh" && install_prerequisites python' - "$project"
exits 0
complains "until python3-numpy python3-h5py python3-venv is installed"
not_called apt-get
impostor python3 <<<'exit 0'

# Its tools are there already, and its pip makes nothing.
cp "$root/tools/wheel" "$project/tools"
mkdir -p "$project/build/wheel/tools/bin"
printf '#!/bin/bash\n' | tee "$project/build/wheel/tools/bin"/{auditwheel,pip} >/dev/null
chmod +x "$project/build/wheel/tools/bin"/*

subject="wheel, a package missing"
run ABSENT=libhdf5-dev "$project/tools/wheel"
exits 1
complains "missing: libhdf5-dev"

subject="wheel, an nvcc of CUDA 12"
impostor nvcc <<<'echo "Cuda compilation tools, release 12.4, V12.4.99"'
run "$project/tools/wheel" cuda
exits 1
complains "nvcc is of another CUDA than 13"
rm "$bin/nvcc"

subject="wheel, AVX in the build for every processor"
impostor objdump <<<'printf "%s\n" "1: mulps %xmm0,%xmm1" "4: vmulps %xmm0,%xmm1,%xmm2" "8: vmovups (%rax),%ymm3"'
run "$project/tools/wheel"
exits 1
complains "x86-64/orthornn has 2 instructions of AVX"
rm -r "$bin/objdump" "$project/build/wheel"

# An environment whose pytest is a stand-in, and a stand-in of tools/wheel.
impostor python3 <<'E2'
[[ $1 == -m && $2 == venv ]] || exit 0
mkdir -p "$3/bin"
printf '#!/bin/bash\necho "pip $*" >>"$SCRATCH/calls"\n[[ "$*" != *"${PIP_FAILS:-nothing}"* ]]\n' >"$3/bin/pip"
chmod +x "$3/bin/pip"
printf '#!/bin/bash\necho "${PYTEST_SAYS:-==== 5 passed, 1 skipped in 0.10s ====}"; exit "${PYTEST_STATUS:-0}"\n' >"$3/bin/pytest"
chmod +x "$3/bin/pytest"
E2
cat >"$project/tools/wheel" <<'E2'
#!/bin/bash
echo "wheel $*" >>"$SCRATCH/calls"
echo orthornn.whl
exit "${WHEEL_STATUS:-0}"
E2
chmod +x "$project/tools/wheel"
mkdir -p "$project/python"

subject="set-up, old cmake"
run CMAKE_IMPOSTOR=3.22.1 bash -c 'source "$1/tools/setup.sh" && install_prerequisites' - "$project"
exits 1
complains "cmake 3.25 or newer is needed"

subject="test, from another folder"
forget_calls
run bash -c 'cd / && "$1/tools/test"' - "$project"
exits 0
ends_with "8 passed, 0 failed, 2 skipped"
called '^wheel --quick$'
says " s  Python: 5 passed, 0 failed, 1 skipped"
called '^cmake --preset release -DORTHORNN_WERROR=ON -DORTHORNN_CUDA=OFF -DCMAKE_UNITY_BUILD_BATCH_SIZE=32$'
called '^ctest --test-dir build/release '
not_called '^ctest --test-dir build/release .* -LE'
not_called asan
says " s  release, all tests: 1 passed, 0 failed, 1 skipped"
says "left out (without --all)"

subject="test, pytest fails"
run PYTEST_SAYS='= 1 failed, 3 passed, 2 errors in 1.00s =' PYTEST_STATUS=1 "$project/tools/test"
exits 1
says " s  Python: 3 passed, 3 failed, 0 skipped"
run PYTEST_SAYS='no tests ran in 0.01s' PYTEST_STATUS=5 "$project/tools/test"
exits 1
says "pytest itself went wrong (exit status 5)"

subject="test, the tools of wheels cannot be installed"
run WHEEL_STATUS=77 "$project/tools/test"
exits 0
says " s  Python: skipped, the tools of tools/wheel could not be installed"
run WHEEL_STATUS=77 "$project/tools/test" --all
exits 1
says " s  Python: failed, tools/wheel says why above"
run WHEEL_STATUS=1 "$project/tools/test"
exits 1

subject="test, the packages of the Python tests cannot be installed"
forget_calls
run PIP_FAILS=pytest "$project/tools/test"
exits 0
called '^pip install .*--constraint python/constraints.txt pytest h5py$'
says " s  Python: skipped, pip could not install pytest h5py ("
run PIP_FAILS=pytest "$project/tools/test" --all
exits 1
says " s  Python: failed, pip could not install pytest h5py torch matplotlib"
run PIP_FAILS=orthornn.whl "$project/tools/test"
exits 1
says " s  Python: failed, the wheel could not be installed"

subject="test --all"
forget_calls
run "$project/tools/test" --all
exits 0
ends_with "9 passed, 0 failed, 4 skipped"
not_called '^ctest --test-dir build/release .* -LE'
called '^cmake --preset asan -DORTHORNN_WERROR=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=32$'
called '^ctest --test-dir build/asan .* -LE slow$'
says " s  sanitizers, all but slow tests: 1 passed, 0 failed, 1 skipped"
says "Debian 13: skipped, only root may make a root of Debian 13"

subject=".ci/run"
forget_calls
run "$project/.ci/run"
exits 0
called '^ctest --test-dir build/release'
called '^ctest --test-dir build/asan'

subject="test --fast"
forget_calls
run "$project/tools/test" --fast
exits 0
ends_with "2 passed, 0 failed, 1 skipped"
called '^ctest --test-dir build/release .* -LE slow|long$'
not_called asan
not_called doxygen
says "left out (--fast)"

subject="test --sanitizers"
forget_calls
run "$project/tools/test" --sanitizers
exits 0
ends_with "1 passed, 0 failed, 1 skipped"
called '^ctest --test-dir build/asan .* -LE slow$'
not_called release
says "left out (--sanitizers)"

subject="test, wrong use"
run "$project/tools/test" --slow
exits 2
complains "Usage: tools/test"

subject="test on Debian 13"
impostor id <<<'echo 0'
impostor apt-get <<<'[[ $1 != indextargets ]] || echo "https://archive.example/debian"'
impostor debootstrap <<<'exit 0'
impostor unshare <<<'[[ $* == *true ]] || { echo "40 passed, 0 failed, 7 skipped"; [[ ! -e $SCRATCH/red-root ]] || exit 1; }'
forget_calls
run "$project/tools/test" --all
exits 0
ends_with "48 passed, 0 failed, 9 skipped"
called '/orthornn/tools/test --sanitizers'
called 'install_prerequisites python'
not_called asan
called '^debootstrap .* trixie .*/build/debian-13 https://archive.example/debian$'
exists "$project/build/debian-13/orthornn/src/main.cpp"
is_absent "$project/build/debian-13/orthornn/build"

subject="test on Debian 13, again"
mkdir -p "$project/build/debian-13/orthornn/build"
touch "$project/build/debian-13/orthornn/src/gone.cpp"
forget_calls
run "$project/tools/test-on-debian-13"
exits 0
not_called '^debootstrap'
is_absent "$project/build/debian-13/orthornn/src/gone.cpp"
exists "$project/build/debian-13/orthornn/build"

subject="test on Debian 13, which ends without a reason"
touch "$scratch/red-root"
run "$project/tools/test" --all
exits 1
says "Debian 13: failed, the root of Debian 13 could not be made or used"
rm "$scratch/red-root"

subject="test on Debian 13, debootstrap fails"
rm -r "$project"/build/debian-13*
impostor debootstrap <<<'echo no such suite; exit 1'
run "$project/tools/test-on-debian-13"
exits 1
complains "no such suite"

subject="test on Debian 13, where no mounts are allowed"
impostor unshare <<<'exit 1'
run "$project/tools/test-on-debian-13"
exits 77
says "this machine allows no mounts"

subject="test on Debian 13, from another distribution"
impostor apt-get <<<'exit 0'
run "$project/tools/test-on-debian-13"
exits 77
says "are not Debian's"
rm "$bin/debootstrap" "$bin/unshare"
impostor id <<<'echo 1000'
impostor apt-get <<<'exit 100'

subject="test with a compiler whose warnings are new"
forget_calls
run GCC_IMPOSTOR=15.1.0 "$project/tools/test" --fast
called '^cmake --preset release -DORTHORNN_WERROR=OFF'

subject="test with a GPU"
forget_calls
run CAPABILITY=9.0 "$project/tools/test" --all
exits 0
ends_with "9 passed, 0 failed, 7 skipped"
says "compute-sanitizer is not on the PATH"
called '^cmake --preset release .*-DORTHORNN_CUDA=AUTO -DCMAKE_CUDA_ARCHITECTURES=90 -DCMAKE_UNITY_BUILD_BATCH_SIZE=32$'

subject="test with a GPU and compute-sanitizer, which finds something"
impostor compute-sanitizer <<<'[[ $2 != racecheck ]]'
run CAPABILITY=9.0 "$project/tools/test" --all
exits 1
ends_with "11 passed, 1 failed, 4 skipped"
rm "$bin/compute-sanitizer"

subject="test with a GPU that is too old"
forget_calls
run CAPABILITY=7.5 "$project/tools/test" --fast
called '^cmake --preset release .*-DORTHORNN_CUDA=OFF -DCMAKE_UNITY_BUILD_BATCH_SIZE=32$'

subject="test with nvcc but no GPU"
impostor nvcc <<<'echo "--Ofast-compile <0|min|mid|max>"'
forget_calls
run "$project/tools/test" --all
exits 0
ends_with "10 passed, 0 failed, 4 skipped"
called '^cmake --preset kernels .*-DCMAKE_CUDA_FLAGS=-Ofc=max -DCMAKE_UNITY_BUILD_BATCH_SIZE=32$'
called '^cmake --build --preset kernels --target orthornn_cuda$'
rm "$bin/nvcc"

impostor clang++ <<<'exit 0'
cp "$root/tools/fuzz" "$project/tools"
mkdir -p "$project/tests/fuzz" "$project/build/fuzz"
touch "$project/tests/fuzz/"{apple,pear}_fuzz.cpp
for target in apple pear; do
  printf '#!/bin/bash\necho "%s $*" >>"$SCRATCH/calls"\necho stat::number_of_executed_units: 1234 >&2\n' $target >"$project/build/fuzz/${target}_fuzz"
  chmod +x "$project/build/fuzz/${target}_fuzz"
done

subject="fuzz"
forget_calls
run "$project/tools/fuzz" --seconds 7
exits 0
called '^cmake --build --preset fuzz$'
called '^apple .*-max_total_time=7 .*-timeout=5 -rss_limit_mb=1024'
called '^pear '
says "1234 executions, nothing found"
ends_with "2 passed, 0 failed"

subject="fuzz, one target, which finds something"
printf 'echo "FINDING: too sweet" >&2\nexit 77\n' >>"$project/build/fuzz/pear_fuzz"
forget_calls
run "$project/tools/fuzz" pear
exits 1
called '^cmake --build --preset fuzz --target pear_fuzz$'
not_called '^apple'
says "1234 executions, then: FINDING: too sweet"
ends_with "0 passed, 1 failed"

subject="fuzz, wrong use"
for options in "plum" "apple pear" "--seconds" "--seconds 0" "--seconds many"; do
  # shellcheck disable=SC2086  # words of their own
  run "$project/tools/fuzz" $options
  exits 2
  complains "Usage: tools/fuzz"
done

subject="fuzz, no clang that can"
impostor clang++ <<<'exit 1'
run "$project/tools/fuzz"
exits 1
complains "apt-get install clang libclang-rt-dev libomp-dev"
rm -r "$project/tools/fuzz" "$project/tests/fuzz" "$project/build/fuzz"

for outcome in fail notrun; do
  subject="test, one test is '$outcome'"
  echo "$outcome" >"$scratch/red"
  run "$project/tools/test"
  exits 1
  ends_with "8 passed, 1 failed, 2 skipped"
  rm "$scratch/red"
done

subject="test without any test"
touch "$scratch/no-tests"
run "$project/tools/test"
exits 1
ends_with "7 passed, 1 failed, 1 skipped"
rm "$scratch/no-tests"

subject="test, the build fails"
touch "$scratch/broken-build"
run "$project/tools/test" --all
exits 1
ends_with "2 passed, 1 failed"
rm "$scratch/broken-build"

subject="test, a file is not formatted"
touch "$scratch/ugly"
run "$project/tools/test"
exits 1
says "  src/main.cpp"
ends_with "7 passed, 1 failed, 2 skipped"
rm "$scratch/ugly"

subject="test, a public name has no comment"
touch "$scratch/unclear"
run "$project/tools/test"
exits 1
complains "Member two is not documented"
says "API reference: failed, doxygen says why above"
ends_with "7 passed, 1 failed, 2 skipped"
rm "$scratch/unclear"

subject="test, the value of an enum has no comment"
touch "$scratch/bare"
run "$project/tools/test"
exits 1
says "no comment:<name>b</name>"
ends_with "7 passed, 1 failed, 2 skipped"
rm "$scratch/bare"

subject="test, comments that cannot stand alone"
printf '%s\n' "/// Of two." "int a;  ///< Both." "/// One. The same." "/// One. Others of those." >"$project/include/two.hpp"
run "$project/tools/test"
exits 1
says "include/two.hpp:1:"
says "API reference: failed, 3 comments cannot stand alone"
rm "$project/include/two.hpp"

subject="test without doxygen"
mv "$bin/doxygen" "$scratch"
run "$project/tools/test"
exits 0
says "API reference: skipped, there is no doxygen here"
ends_with "7 passed, 0 failed, 3 skipped"
mv "$scratch/doxygen" "$bin"

subject="quickstart, first run"
forget_calls
run "$project/tools/quickstart"
exits 0
called '^cmake --preset release -DORTHORNN_WERROR=ON -DORTHORNN_CUDA=OFF -DCMAKE_UNITY_BUILD_BATCH_SIZE=32$'
called '^cmake --build --preset release --target orthornn_program$'
called '^orthornn train copying .*--until-solved'
not_called resume
says "99.98 %"
says "0.1733"
says "4200"

subject="quickstart, second run"
forget_calls
touch "$project/build/release/CMakeCache.txt"  # which has a size of groups
run "$project/tools/quickstart"
exits 0
called '^cmake --preset release -DORTHORNN_WERROR=ON -DORTHORNN_CUDA=OFF$'
not_called '^orthornn train'
says "was there already"

subject="quickstart after an interrupted training"
model=$project/runs/quickstart/model.h5
sed -i 's/"solved": true/"solved": false/' "$model"
run "$project/tools/quickstart"
exits 0
called '^orthornn train copying .*--resume --steps 5200$'

subject="quickstart, the model is damaged"
echo damaged >"$model"
run "$project/tools/quickstart"
exits 1
complains "cannot be evaluated"
rm "$model"

subject="quickstart, only the best model was saved"
touch "$project/runs/quickstart/best.h5"
forget_calls
run "$project/tools/quickstart"
exits 0
called '^orthornn train copying .*--resume$'
rm "$model" "$project/runs/quickstart/best.h5"

subject="quickstart, the training fails"
touch "$scratch/broken-training"
run "$project/tools/quickstart"
exits 1
complains "training stopped"
rm "$scratch/broken-training"

subject="quickstart, the build fails"
touch "$scratch/broken-build"
run "$project/tools/quickstart"
exits 1
complains "could not be configured"

rm "$scratch/broken-build"
mirror=$scratch/web/ossci-datasets.s3.amazonaws.com/mnist
anki=$scratch/web/www.manythings.org/anki
mkdir -p "$mirror" "$anki" "$scratch/own/mnist"
echo digits >"$mirror/images.gz"
echo names >"$mirror/labels.gz"
echo PK-old >"$anki/spa-eng.zip"
cp "$mirror"/* "$scratch/own/mnist"
(cd "$mirror/.." && sha256sum mnist/*) >"$scratch/sums"
(cd "$anki" && sha256sum spa-eng.zip | sed 's, \([^ ]*\)$, tatoeba/\1,') >>"$scratch/sums"
fetch() { run ORTHORNN_DATA_SHA256="$scratch/sums" "$project/tools/fetch-data" "$@"; }
fetched=$project/data/mnist

subject="fetch-data, usage"
fetch
exits 2
fetch cifar
exits 2
fetch mnist --from
exits 2

subject="fetch-data, checksums of the project"
check "five files expected" [ "$(grep -cE '^[0-9a-f]{64}  (mnist|tatoeba)/[a-z0-9.-]+$' "$root/tools/data.sha256")" = 5 ]

subject="fetch-data, from the mirror"
fetch mnist
exits 0
check "files should arrive intact" diff -r "$mirror" "$fetched"

subject="fetch-data, all there"
forget_calls
fetch mnist
exits 0
says "nothing to do"
not_called curl

subject="fetch-data, a file in place is damaged"
echo damage >>"$fetched/labels.gz"
fetch mnist
exits 1
complains "labels.gz' is damaged"
complains "expected sha256"
complains_in_one_line
rm -r "$fetched"

for from in own own/mnist; do
  subject="fetch-data --from $from"
  fetch mnist --from "$scratch/$from" --to "$scratch/to"
  exits 0
  check "files should arrive intact" diff -r "$mirror" "$scratch/to"
  rm -r "$scratch/to"
done

subject="fetch-data --from, a damaged file"
echo damage >>"$scratch/own/mnist/images.gz"
fetch mnist --from "$scratch/own"
exits 1
complains "is damaged"
complains_in_one_line
check "nothing should be left behind" [ -z "$(ls -A "$fetched")" ]

subject="fetch-data --from, a missing file"
rm "$scratch/own/mnist/images.gz"
fetch mnist --from "$scratch/own"
exits 1
complains "expected images.gz"
complains_in_one_line

subject="fetch-data --from, a missing folder"
fetch mnist --from "$scratch/nowhere"
exits 1
complains "no such folder"
complains_in_one_line

subject="fetch-data --to, not writable"
fetch mnist --to "$scratch/sums/mnist"
exits 1
complains "cannot write"
complains_in_one_line

subject="fetch-data, the mirror has another file"
echo "<html>" >"$mirror/images.gz"
fetch mnist
exits 1
complains "found $(sha256sum <"$mirror/images.gz" | cut -d ' ' -f 1)"
complains_in_one_line
is_absent "$fetched/images.gz"

subject="fetch-data, no network"
rm -r "$mirror"
fetch mnist
exits 1
complains "could not download images.gz"
complains "--from"
complains_in_one_line

subject="fetch-data tatoeba"
fetch tatoeba
exits 0
exists "$project/data/tatoeba/spa-eng.zip"

subject="fetch-data tatoeba, a newer edition"
rm "$project/data/tatoeba/spa-eng.zip"
echo PK-new >"$anki/spa-eng.zip"
fetch tatoeba
exits 1
complains "updated it"
complains "mv '"
complains_in_one_line
exists "$project/data/tatoeba/spa-eng.zip.new"
is_absent "$project/data/tatoeba/spa-eng.zip"

finish
