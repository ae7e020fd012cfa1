#!/bin/sh
# Installs Waybill @VERSION@ for this user: downloads the archive for this machine, checks it against SHA256SUMS, and
# puts the programs into ~/.local/bin, or into the folder that is named.
#   sh install.sh [--to FOLDER] [--from URL]
set -eu
to=$HOME/.local/bin from='@URL@'
while [ $# -gt 0 ]; do
  case $1 in
    --to) to=$2; shift 2 ;;
    --from) from=$2; shift 2 ;;
    *) echo "install.sh: \"$1\" is no option: --to FOLDER, --from URL" >&2; exit 2 ;;
  esac
done
[ -n "$from" ] || { echo "install.sh: say where the release is: --from URL" >&2; exit 2; }
for tool in curl sha256sum tar; do
  command -v "$tool" >/dev/null || { echo "install.sh: needs $tool" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
curl --fail --silent --show-error --location --remote-name "$from/SHA256SUMS"
archive=$(sed -n "s/^[0-9a-f]* [ *]\(waybill-@VERSION@-$(uname -m)\.tar.*\)$/\1/p" SHA256SUMS)
[ -n "$archive" ] || { echo "install.sh: the release has no archive for $(uname -m)" >&2; exit 1; }
echo "Downloading $archive"
curl --fail --silent --show-error --location --remote-name "$from/$archive"
grep "  $archive\$" SHA256SUMS | sha256sum --check --quiet || {
  echo "install.sh: $archive is not what SHA256SUMS says; nothing was installed" >&2
  exit 1
}
tar --extract --file="$archive"
mkdir -p "$to"
cp -P "waybill-@VERSION@-$(uname -m)"/waybill* "$to/"
echo "Installed $("$to/waybill" --version) in $to"
case :$PATH: in *:"$to":*) ;; *) echo "Add it to the PATH: export PATH=\"$to:\$PATH\"" ;; esac
echo "Next: waybill, then in a second terminal waybill trigger orders/create"
