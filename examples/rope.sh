#!/bin/sh
# A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
# Run, beside config.json: sh rope.sh http://127.0.0.1:8000
set -eu
server=${1:-http://127.0.0.1:8000}
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT

ask() { # STATUS PATH FILE CURL-OPTION…: write an answer, which must have this status, to a file.
  expected=$1 path=$2 file=$made/$3
  shift 3
  status=$(curl -sS -m 60 -o "$file" -w '%{http_code}' "$@" "$server$path")
  [ "$status" = "$expected" ] || { echo "$path: $status $(cat "$file")" >&2; exit 1; }
}

number() { # FILE BYTE: print a float32.
  od -An -t f4 --endian=little -j "$2" -N 4 "$made/$1"
}

check() { # NAME VALUE FORMULA
  awk -v value="$2" "BEGIN {
    printf \"$1: %.6f\\n\", value
    error = value - $3
    if (error * error > 1e-12) { print \"expected \" $3 > \"/dev/stderr\"; exit 1 }
  }"
}

# From the config to the cosines in the layout of the model: a row of 64 for each position.
json='Content-Type: application/json' text='Accept: text/plain'
ask 200 /rope/config model -H "$json" -H "$text" -d @config.json
grep '^layout: ' "$made/model"
link=$(sed -n 's/^default.cos: //p' "$made/model")
ask 200 "$link" cos.npy --etag-save "$made/etag"
# A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
value=$(number cos.npy $((128 + 4 * (131071 * 64 + 31))))
check 'cos[131071][31]' "$value" 'cos(131071 * 500000 ^ (-62 / 64) / 32)'
ask 304 "$link" nothing --etag-compare "$made/etag"
echo 'unchanged: 304'

# One row of a table of 512 GiB, and a misspelled parameter.
first=$((128 + 4 * 1000000000 * 64))
ask 206 "$link&seq_len=2147483648" row -r "$first-$((first + 255))"
check 'cos[1000000000][0]' "$(number row 0)" 'cos(1e9)'
ask 422 '/rope?head_dim=64&seqlen=8' problem
echo "problem: $(sed 's/.*"status":422,"detail":"\([^"]*\)".*/\1/' "$made/problem")"

# The first 64 rows of an engine that interleaves the channels of a model with halves.
{
  printf '{"to": "%s", "shape": [64, 64], "x": [' "$link"
  od -An -v -w256 -t f4 --endian=little -j 128 -N $((4 * 64 * 64)) "$made/cos.npy" |
    awk '{ for (i = 0; i < 64; i++) { printf "%s%s", comma, $(int(i / 2) + 1); comma = "," } }'
  printf ']}'
} > "$made/mine.json"
ask 200 /diagnose report -H "$json" -H "$text" -d "@$made/mine.json"
echo "diagnosis: $(head -n 1 "$made/report")"
