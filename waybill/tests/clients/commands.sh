#!/usr/bin/env bash
# Posts bodies that are refused before they are read: commands.sh KIND HOST:PORT ROUNDS.
set -u
kind=$1 address=$2 rounds=$3
kib=1024
paths=(/api/webhooks/payment /api/webhooks/storefront /api/webhooks/storefront /api/webhooks/payment /nowhere /livez
  /api/webhooks/payment /api/commerce/checkout)
sizes=($((16 * kib * kib)) $((2 * kib * kib + 1)) $((kib * kib)) $((2 * kib * kib + 1)) $((512 * kib)) $((512 * kib))
  $((kib * kib)) $((512 * kib)))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for which in "${!sizes[@]}"; do head --bytes="${sizes[which]}" /dev/zero >"$folder/$which"; done

for ((turn = 0; turn < rounds; turn++)); do
  which=$((turn % ${#paths[@]}))
  url=http://$address${paths[which]} encoding=()
  if ((which == 6)); then encoding=(--header 'Content-Encoding: gzip'); fi
  case $kind in
    curl) # asks before it sends
      said=$(curl --silent --show-error --max-time 30 --output /dev/null --write-out '%{http_code}' "${encoding[@]}" \
        --data-binary "@$folder/$which" "$url" 2>&1) || said="lost $said" ;;
    curl-at-once)
      said=$(curl --silent --show-error --max-time 30 --output /dev/null --write-out '%{http_code}' "${encoding[@]}" \
        --header 'Expect:' --data-binary "@$folder/$which" "$url" 2>&1) || said="lost $said" ;;
    wget)
      said=$(wget --tries=1 --timeout=30 --output-document=/dev/null --server-response "${encoding[@]}" \
        --post-file="$folder/$which" "$url" 2>&1)
      said=$(awk '$1 ~ /^HTTP\// { status = $2 } END { print status ? status : "lost" }' <<<"$said") ;;
  esac
  printf '%s %s\n' "$which" "${said//$'\n'/ }"
done
