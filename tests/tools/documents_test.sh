#!/usr/bin/env bash
# Checks of the documents: their width, what they link to, and what they name.
set -euo pipefail
# shellcheck source=tests/tools/script_checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/script_checks.sh"

: >"$scratch/output"
: >"$scratch/errors"
status=0

# Prose is at most 110 characters wide. Tables, code and a word that cannot break, such as a link, may be wider.
# wide_prose FILE: prints the lines that are too wide, each with its number.
wide_prose() {
  LC_ALL=C.UTF-8 awk '/^ *(```|~~~)/ { code = !code } { print code || /^ *\|/ ? "" : $0 }' "$1" |
    LC_ALL=C.UTF-8 grep -nE '^.{111,}$' | grep -vE '^[0-9]+: *([-*] |[0-9]+\. )?[^ ]+$'
}
while IFS= read -r document; do
  subject=${document#"$root/"}
  wide_prose "$document" >"$scratch/output" || true
  check "no line of prose should be wider than 110 characters; the lines below are" [ ! -s "$scratch/output" ]
done < <(find "$root" -name '*.md' -not -path "$root/build*" -not -path "$root/.git/*")
: >"$scratch/output"

without_code() { awk '/^ *(```|~~~)/ { code = !code; next } !code' "$1"; }

# anchors_of FILE: prints what a link may name after '#', one heading a line, without punctuation.
anchors_of() {
  without_code "$1" | grep '^#' |
    LC_ALL=C.UTF-8 sed -E 's/^#+ +//; s/\[([^]]*)\]\([^)]*\)/\1/g; s/.*/\L&/; s/[^[:alnum:]_ -]//g; s/ /-/g'
}

# What the documents link to, and the measured results that they name between backquotes, exist.
results=$root/tools/bench-results
headings=0
while IFS= read -r document; do
  subject=${document#"$root/"}
  folder=$(dirname "$document")
  while IFS= read -r link; do
    target=${link%%#*} target=${target:+$folder/$target}
    check "link to '$link', which should exist" [ -e "${target:-$document}" ]
    [[ $link == *'#'* && -e ${target:-$document} ]] || continue
    headings=$((headings + 1))
    check "link to '$link', which should be a heading" \
      grep -qxF -- "${link#*#}" <(anchors_of "${target:-$document}")
  done < <(without_code "$document" | grep -oP '[^][]\]\(\K(?!https?:)[^)\s]+')
  [[ $folder == "$results"* ]] || continue
  while IFS= read -r name; do
    check "'$name' should be a file of measured results" bash -c 'compgen -G "$1/$3" >/dev/null || compgen -G "$2/$3" >/dev/null' - "$folder" "$results" "$name"
  done < <(grep -oP '(?<=`)[\w./*-]+\.(csv|json)(?=`)' "$document" | grep -vxE 'metrics\.csv|(.*/)?compare\.json|table\.json|results?\.json')
done < <(find "$root" -name '*.md' -not -path "$root/build*" -not -path "$root/.git/*")

subject="documents"
check "they should link to headings" [ "$headings" -gt 0 ]

# The files and folders that these pages name between backquotes exist.
exists_in_project() { compgen -G "$root/$1" >/dev/null; }
while IFS= read -r document; do
  subject=${document#"$root/"}
  while IFS= read -r name; do
    check "'$name' should exist" exists_in_project "$name"
  done < <(grep -oP '(?<=`)(cmake|cuda|docs|include|src|tasks|tests|tools)(/[\w.*-]+)*/?(?=`)' "$document" | sort -u)
done < <(find "$root/docs" "$root/CONTRIBUTING.md" -name '*.md')

# A comment cites docs/math.md by the number of a section, which the page has. A citation may go over the end of a line.
subject="citations of docs/math.md"
sections=$(grep -oP '^##+ \K\d+(\.\d+)*' "$root/docs/math.md")
citations=0
while IFS= read -r file; do
  while IFS= read -r citation; do
    citations=$((citations + 1))
    place="${file#"$root/"} cites '$citation'"
    check "$place, which should be as 'docs/math.md, section 1.6'" grep -qE '^docs/math\.md, sections? [0-9]' <<<"$citation"
    while IFS= read -r section; do
      check "$place, but docs/math.md has no section $section" grep -qxF -- "$section" <<<"$sections"
    done < <(grep -oP 'sections? \K.*' <<<"$citation" | grep -oE '[0-9]+(\.[0-9]+)*')
  done < <(sed -E 's,^ *//+ ?, ,' "$file" | tr -s '\n ' ' ' |
    grep -oP '[\w./]*math\.md(,? sections? \d+(\.\d+)*((,| and| to) \d+(\.\d+)*)*)?')
done < <(grep -rlF 'math.md' --include='*.'{h,hpp,c,cpp,cu,cuh,py} "$root"/{cuda,include,src,tasks,tests,tools})
check "the sources should cite it" [ "$citations" -gt 0 ]

subject="files of measured results"
while IFS= read -r file; do
  name=$(basename "$file")
  check "'${file#"$root/"}' should be named by a README" grep -rqF --include='*.md' -- "$name" "$root/README.md" "$root/docs" "$root/tools" "$root/tasks" "$root/src"
done < <(find "$results" -name '*.csv' -o -name '*.json')

finish
