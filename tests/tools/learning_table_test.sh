#!/usr/bin/env bash
# Checks of tools/learning-table, with an impostor for the program orthornn.
# shellcheck disable=SC2016  # much here is quoted for a shell that comes later
set -euo pipefail
# shellcheck source=tests/tools/script_checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/script_checks.sh"

if ! python=$(python3 -c 'import sys; assert sys.version_info >= (3, 10); print(sys.executable)'); then
  echo "skipped: tools/learning-table needs Python 3.10 or newer"
  exit
fi
ln -sf "$python" "$bin/python3"
ln -s "$(command -v sleep)" "$bin"
impostor curl <<<'exit 1'
cp "$root"/tools/learning{-table,_tables.py} "$project/tools"

# The device of this program is what the file device says, or else the CPU; "cuda" is refused if there is no such file.
# Its trainings are solved after 100 times their seed steps. "free" is never solved; it diverges over 750 steps and on
# permuted MNIST. "cayley" has one parameter more for adding. "expm" ends as the file expm says, with its message, and saves a
# model first. "gru" waits for a signal if there is a file patient: it saves a model a moment after the first one, and would
# count a second one. Then it ends as the file says.
cat >"$scratch/orthornn" <<'E3'
#!/bin/bash
echo "orthornn $*" >>"$SCRATCH/calls"
text=" $* "
value() {
  local name=$1
  while [[ ${2:-} ]]; do
    [[ $2 != "--$name" ]] || { echo "$3"; return; }
    shift
  done
}
folder=$(value out "$@") seed=$(value seed "$@") cell=$(value cell "$@") asked=$(value device "$@")
case $1 in
  report)
    [[ ! -e $SCRATCH/no-page ]] || { echo "orthornn: nothing to draw" >&2; exit 1; }
    touch "$folder"
    exit
    ;;
  bench)
    device=cpu
    [[ ! -e $SCRATCH/device ]] || device=$(<"$SCRATCH/device")
    [[ $asked != cuda* || $device == cuda* ]] || { echo "orthornn: device $asked was asked for" >&2; exit 1; }
    [[ $asked != cpu && $asked != cuda:* ]] || device=$asked
    echo "[{\"device\": \"$device\"}]" >"$(value json "$@")"
    exit
    ;;
esac
for name in config data out; do
  place=$(value "$name" "$@")
  [[ ! $place || -e $place ]] || { echo "orthornn: there is no '$place'" >&2; exit 2; }
done
if [[ $cell == expm && -e $SCRATCH/expm ]]; then
  touch "$folder/best.h5"
  read -r status message <"$SCRATCH/expm"
  echo "orthornn: $message" >&2
  [[ $status != KILL ]] || kill -KILL $$
  exit "$status"
fi
if [[ $cell == gru && -e $SCRATCH/patient ]]; then
  trap 'echo TERM >>"$SCRATCH/signals"' TERM
  trap 'echo HUP >>"$SCRATCH/signals"' HUP
  touch "$SCRATCH/begun"
  for ((i = 0; i < 400; i++)); do [[ -e $SCRATCH/signals ]] || sleep 0.05; done
  sleep 0.3
  touch "$folder/model.h5"
  echo "orthornn: interrupted, no room on the disk" >&2
  exit "$(<"$SCRATCH/patient")"
fi
echo "step,seconds,loss" >"$folder/metrics.csv"
case $cell$text in
  free*" --length 750 "* | free*" --permuted "*)
    echo "7,0.5,1" >>"$folder/metrics.csv"
    echo "orthornn: a note" >&2
    echo "orthornn: the training diverged at step 7: loss nan" >&2
    exit 1
    ;;
  free*) solved=false steps=9 accuracy=0.5 status=3 ;;
  *) solved=true steps=${seed}00 accuracy=0.99$seed status=0 ;;
esac
[[ $2 != adding ]] || accuracy=null
[[ $2 == copying || $2 == adding ]] || status=0
metrics="\"loss\": 0.0$seed, \"accuracy\": $accuracy"
[[ $2 != adding && $2 != translate ]] || metrics="\"loss\": 0.0$seed"
[[ $2 != video ]] || metrics="$metrics, \"mse\": 0.02, \"ssim\": 0.7"
translations='' parameters=12345
[[ $cell$2 != cayleyadding ]] || parameters=12346
[[ $2 != translate ]] || parameters=$((12345678 + seed))
[[ $2 != translate ]] || translations=', "translations": {"perplexity": 4.0'$seed', "bleu": {"score": 45.5}, "chrf": {"score": 64}}'
echo "{\"solved\": $solved, \"steps\": $steps, \"seconds\": $seed.5, \"parameters\": $parameters, \"command\": \"orthornn $*\",
  \"test\": {\"last\": {\"loss\": 9}, \"best\": {$metrics}}$translations}" >"$folder/results.json"
exit $status
E3
chmod +x "$scratch/orthornn"
table=$project/runs/learning-table
learning() { run "$project/tools/learning-table" "$@"; }
in_table() { check "$1 should have '$2'" grep -qF -- "$2" "$table/$1"; }
not_says() { check "stdout should not have '$1'" bash -c '! grep -qF -- "$1" "$2"' - "$1" "$scratch/output"; }
is_silent() { check "stderr should be empty" [ ! -s "$scratch/errors" ]; }

subject="wrong use"
for options in "--seeds 0" "--seed 2" "--steps x" "--device tpu" "--out" "nothing" "mnist --cells nobody" "copying --cells expm"; do
  # shellcheck disable=SC2086  # words of their own
  learning $options
  exits 2
  complains "usage: tools/learning-table"
done

subject="the build fails"
touch "$scratch/broken-build"
learning
exits 1
complains "learning-table: the build could not be configured"
rm "$scratch/broken-build"

subject="a device that is not there"
learning --device cuda
exits 1
complains "learning-table: orthornn: device cuda was asked for"
complains_in_one_line

subject="a training fails"
echo "1 cannot write '/diverged/model.h5'" >"$scratch/expm"
learning
exits 1
complains "--device cpu --seed 1 --out $table/defaults/copying-200/expm/seed1' failed with status 1: orthornn: cannot write '/diverged/model.h5'"
check "what was trained before should have its row" grep -q '^copying-200,cayley,1,solved,100,1.500,12345,0.991,0.01,' "$table/defaults.csv"
in_table defaults.md "| Cayley | 12,345 | 100 steps, 1.5 s (1 of 1) | - |"
in_table defaults.md "| exponential | - | - | - |"
in_table defaults.md "- copying-200, exponential: seed 1, 2, 3"
in_table defaults.md "- copying-200, Cayley: seed 2, 3"

subject="a training fails, with the sentence of those that diverge and another status"
echo "2 the training diverged at step 7: loss nan" >"$scratch/expm"
learning
exits 1
complains "failed with status 2: orthornn: the training diverged"

subject="a training is killed"
echo "KILL" >"$scratch/expm"
learning
exits 1
complains "was ended by SIGKILL"

subject="interrupted"
echo 130 >"$scratch/expm"
forget_calls
learning
exits 130
says "Interrupted"
is_silent
called '^orthornn train copying .* --cell expm .* --resume$'
not_called '^orthornn train .*--cell cayley'

subject="goes on"
rm "$scratch/expm"
forget_calls
learning
exits 0
not_called '^orthornn train .*--delay 200 .*--cell cayley .*--seed 1 '
called '^orthornn train copying --delay 200 --cell expm .* --seed 1 .* --resume$'
not_called '^orthornn train .* --seed 2 .*--resume$'
called "^orthornn train copying --delay 2000 --cell cwy --reflections 128 --hidden 128 --until-solved --device cpu --seed 3 --out $table/defaults/copying-2000/cwy-128/seed3$"
called '^orthornn train adding --length 200 --cell householder '
not_called '^orthornn train mnist'
called "^orthornn report $table/defaults/adding-750 --out $table/defaults/adding-750.html$"
exists "$table/defaults/copying-200.html"
says "| CWY, L = 128 | 12,345 | 200 ± 100 steps, 2.5 ± 1.0 s (3 of 3) |"
says "| Cayley | 12,345 copying / 12,346 adding | 200 ± 100 steps"
says "| unconstrained | 12,345 | 50.0 ± 0.0 % right, loss 0.0200 ± 0.0100 (0 of 3) | loss 0.0200 ± 0.0100 (0 of 3) |"
says "| 3 diverged (0 of 3) | "
says "on test data. In brackets: how many are solved."
check "a training that went on has no seconds" grep -q '^copying-200,expm,1,solved,100,,12345,' "$table/defaults.csv"
says "| exponential | 12,345 | 200 ± 100 steps, 3.0 ± 0.7 s (3 of 3) |"
says "- mnist, unconstrained: seed 1 (no data in $project/data; 'tools/fetch-data mnist' brings them)"
check "the table should be kept" grep -qF "| Householder, tiled | 12,345 | 200 ± 100 steps, 2.5 ± 1.0 s (3 of 3) |" "$table/defaults.md"
check "a row for each training expected" [ "$(wc -l <"$table/defaults.csv")" = 94 ]
check "a training that diverged has its last step" grep -q '^adding-750,free,3,diverged,7,0.5,,' "$table/defaults.csv"

subject="all done, and no page"
cp "$table/defaults.csv" "$scratch/defaults.csv"
forget_calls
touch "$scratch/no-page"
learning
exits 0
not_called '^orthornn train'
says "no curves of copying-1000: orthornn: nothing to draw"
says "copying, T = 1000 |"
rm "$scratch/no-page"

subject="trainings that ended before their rows were written"
sed -i -e '/^copying-200,cayley,2,/d' -e '/^copying-200,expm,1,/d' -e '/^adding-200,free,1,/d' "$table/defaults.csv"
forget_calls
learning
exits 0
not_called '^orthornn train'
check "their rows should be as before" diff <(sort "$scratch/defaults.csv") <(sort "$table/defaults.csv")

subject="a torn last row"
head -c -20 "$scratch/defaults.csv" >"$table/defaults.csv"
forget_calls
learning
exits 0
complains "learning-table: the last line of '$table/defaults.csv' is incomplete and is left out"
complains_in_one_line
not_called '^orthornn train'
check "the rows should be as before" diff <(sort "$scratch/defaults.csv") <(sort "$table/defaults.csv")

subject="an empty file of rows, and one with a part of its first line"
mkdir "$scratch/torn"
for content in '' 'task,ce'; do
  printf '%s' "$content" >"$scratch/torn/copying.csv"
  learning copying --seeds 1 --cells lstm --out "$scratch/torn"
  exits 0
  check "the file should have its first line and two rows" [ "$(grep -cE '^(task,cell,seed,|copying-[12]000,lstm,1,solved,)' "$scratch/torn/copying.csv")" = 3 ]
done

subject="other options than before"
forget_calls
learning --steps 5
exits 1
complains "choose another --out"
not_called '^orthornn train'

subject="another device than before"
echo cuda:0 >"$scratch/device"
forget_calls
learning
exits 1
complains "--until-solved --device cpu', expected '"
complains "--until-solved --device cuda'; choose another --out"
not_called '^orthornn train'
rm "$scratch/device"

subject="a foreign file"
mkdir "$scratch/foreign"
echo "task,size" >"$scratch/foreign/copying.csv"
learning copying --out "$scratch/foreign"
exits 1
complains "of another version"

subject="with MNIST and its own places, from another folder"
mkdir -p "$scratch/elsewhere/some digits"
touch "$scratch/elsewhere/some digits/train-images-idx3-ubyte.gz"
forget_calls
run bash -c 'cd "$SCRATCH/elsewhere" && "$1/tools/learning-table" --data "some digits" --out "a table" --device cpu' - "$project"
exits 0
called "^orthornn train mnist --permuted --cell cwy --reflections 32 --hidden 128 --epochs 15 --device cpu .* --data $scratch/elsewhere/some digits$"
says "| 99.1 % right, 1.5 s |"
says "| 1 diverged |"
exists "$scratch/elsewhere/a table/defaults.md"
exists "$scratch/elsewhere/a table/defaults/mnist/cwy-32/seed1/results.json"

subject="an unrelated text is no data"
mkdir -p "$project/data"
touch "$project/data/notes.txt" "$project/data/other.zip"
forget_calls
learning translation --seeds 1 --cells gru
exits 0
not_called '^orthornn train'
says "- translation, GRU: seed 1 (no data in $project/data; 'tools/fetch-data tatoeba' brings them)"
rm "$project/data"/*
mkdir -p "$project/data/tatoeba"
mv "$scratch/elsewhere/some digits" "$project/data/mnist"
touch "$project/data/tatoeba/spa-eng.zip"

subject="copying"
forget_calls
learning copying --seeds 2
exits 0
called '^orthornn train copying --delay 1000 --cell cayley --negative-signs 95 --hidden 190 --until-solved '
called '^orthornn train copying --delay 2000 --cell cwy --reflections 23 '
called '^orthornn train copying --delay 2000 --cell householder --hidden '
not_called '--rank-one-updates '
not_called '--seed 3 '
says "| Householder, rank-one updates | - | - | - |"
says "- copying-2000, Householder, rank-one updates: seed 1, 2 (some 25 minutes a training on an H200)"

subject="copying, a cell that the table leaves out"
forget_calls
learning copying --seeds 1 --cells householder-rank-one
exits 0
called '^orthornn train copying --delay 2000 --cell householder --rank-one-updates --hidden 190 --until-solved --device cpu --seed 1 '
not_called '--cell cwy'
says "| Householder, rank-one updates | 12,345 | 100 steps, 1.5 s (1 of 1) |"
says "| LSTM | 12,345 | 150 ± 71 steps"

subject="places with spaces"
learning mnist --seeds 1 --cells householder-rank-one --out "$scratch/a table"
exits 0
called "^orthornn train mnist --cell householder --rank-one-updates .* --out $scratch/a table/mnist/mnist/householder-rank-one/seed1 "
not_says "In brackets"

subject="all, on a GPU, some steps"
forget_calls
echo cuda:0 >"$scratch/device"
learning all --steps 5 --cells cwy-128,lstm,scornn,convlstm,convneru-zeros --out "$scratch/all"
exits 0
called '^orthornn train mnist --permuted --cell lstm --hidden 512 --steps 5 --precision tf32 --device cuda:0 --seed 3 '
called '^orthornn train mnist --cell cwy --reflections 128 --hidden 128 --steps 5 --device cuda:0 --seed 1 '
called '^orthornn train copying --delay 2000 --cell lstm --hidden 190 --until-solved --steps 5 --device cuda:0 --seed 2 '
called '^orthornn train translate --tied .* --cell cayley --negative-signs 512 --lr-orth 1e-4 --hidden 1024 --steps 5 '
called "^orthornn train translate .* --data $project/data/tatoeba$"
called "^orthornn train video --clips mnist --cell convneru --hidden-kernel zeros --steps 5 .* --data $project/data/mnist$"
says "| cell | parameters | perplexity | BLEU | chrF2 | seconds |"
says "| LSTM | 12,345,680 ± 1 | 4.02 ± 0.01 | 45.5 ± 0.0 | 64.0 ± 0.0 | 2.5 ± 1.0 |"
says "| ConvNERU, free, begins as zeros | 12,345 | 0.0200 ± 0.0000 | 0.700 ± 0.000 | 2.5 ± 1.0 |"
says "| LSTM | 12,345 | 99.2 ± 0.1 % right, 2.5 ± 1.0 s |"
says "- translation, GRU: seed 1, 2, 3 (not named by --cells)"

subject="the second GPU goes on as the first"
forget_calls
learning copying --steps 5 --seeds 4 --cells lstm --out "$scratch/all" --device cuda:1
exits 0
called '--device cuda:1 --seed 4 '
not_called '--seed 3 '
rm "$scratch/device"

subject="an interrupted training, now with other options"
echo 130 >"$scratch/expm"
learning copying --seeds 1 --cells exprnn --out "$scratch/anew"
exits 130
exists "$scratch/anew/copying/copying-1000/exprnn/seed1/best.h5"
rm "$scratch/expm"
forget_calls
learning copying --seeds 1 --cells exprnn --out "$scratch/anew" --steps 5
exits 1
complains "learning-table: '$scratch/anew/copying/copying-1000/exprnn/seed1' has an unfinished training with the options"
complains "go on with the former options, delete this folder, or choose another --out"
not_called '^orthornn train'
exists "$scratch/anew/copying/copying-1000/exprnn/seed1/best.h5"
rm -r "$scratch/anew/copying/copying-1000/exprnn/seed1"
learning copying --seeds 1 --cells exprnn --out "$scratch/anew" --steps 5
exits 0
called '--cell expm .*--steps 5'
not_called '--resume'

subject="mnist, a machine with a GPU and a program without CUDA"
forget_calls
run CAPABILITY=9.0 "$project/tools/learning-table" mnist --seeds 1 --cells lstm --out "$scratch/cpu"
exits 0
called '--cell lstm --hidden 512 --epochs 15 --device cpu --seed 1 '
not_called '--precision'

# waiting SIGNALS [COMMAND]: sends them, as a terminal does, to the process group of a script whose training waits for them.
waiting() {
  run bash -c 'set -m
    eval "${3:-}"
    "$1/tools/learning-table" translation --out "$SCRATCH/stopped" --cells gru & script=$!
    until [[ -e $SCRATCH/begun ]]; do sleep 0.05; done
    for name in $2; do kill "-$name" -- -$script; done
    until [[ -e $SCRATCH/signals ]]; do sleep 0.05; done
    kill -TERM -- -$script
    wait $script' - "$project" "$@"
  check "the training should get one signal, SIGTERM" [ "$(<"$scratch/signals")" = TERM ]
  rm -f "$scratch"/{begun,signals}
}

subject="a signal"
echo 130 >"$scratch/patient"
waiting TERM
exits 130
says "Interrupted"
check "stderr should not have what the program says of itself" bash -c '! grep -q "no room" "$1"' - "$scratch/errors"
exists "$scratch/stopped/translation/translation/gru/seed1/model.h5"

subject="a signal, and the training cannot be saved"
echo 1 >"$scratch/patient"
waiting TERM
exits 130
says "Interrupted"
complains "orthornn: interrupted, no room on the disk"

subject="a signal that is ignored, as by nohup"
echo 130 >"$scratch/patient"
waiting "HUP TERM" 'trap "" HUP'
exits 130
says "Interrupted"

finish
