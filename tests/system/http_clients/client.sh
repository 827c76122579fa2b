#!/bin/bash
# client.sh "COMMAND OPTION…" URL: send the requests of standard input with curl or wget.
set -u
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
while IFS= read -r line; do
  mapfile -t fields < <(tr '\t' '\n' <<< "$line")
  mapfile -t headers < <(tr '|' '\n' <<< "${fields[2]}" | sed '/./!d; s/^/--header=/')
  : > "$answer"
  if [[ $1 == wget* ]]; then
    # It takes parts for a download to continue, and only from a place to the end.
    headers=("${headers[@]/#--header=Range: bytes=128-*/--start-pos=128}")
    data=(--method="${fields[0]}" ${fields[3]:+--body-data="${fields[3]}"})
    status=$($1 --quiet --tries=1 --timeout=60 --server-response --output-document="$answer" \
      "${data[@]}" "${headers[@]}" "$2${fields[1]}" 2>&1 | awk '/^ *HTTP\//{print $2}')
  else
    data=(--request "${fields[0]}" ${fields[3]:+--data-binary "${fields[3]}"})
    status=$($1 --silent --show-error --max-time 60 --output "$answer" --write-out '%{http_code}' \
      "${data[@]}" "${headers[@]/#--header=/-H}" "$2${fields[1]}")
  fi
  printf '{"status": %d, "body": "%s"}\n' "$status" "$(od -An -v -tx1 "$answer" | tr -d ' \n')"
done
