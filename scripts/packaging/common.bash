# What scripts/package-deb and scripts/package-tar have in common. A script that sources this file has a function
# `usage`, is in the project's folder, and has set `output` and `compression` to their defaults.
# shellcheck shell=bash

# Waybill is one binary, and is what the name says under which it is started.
parts=(waybill-ingress waybill-orders waybill-payments waybill-privacy waybill-endpoints)
binaries=target/release

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# read_arguments ARGUMENTS..: sets `binaries`, `output` and `compression`.
read_arguments() {
  while (($#)); do
    case $1 in
      -h | --help) usage; exit ;;
      --binaries | --output | --compression)
        (($# > 1)) || die "$1 needs a value"
        printf -v "${1#--}" '%s' "$2"
        shift 2
        ;;
      *) die "\"$1\" is no option; see --help" ;;
    esac
  done
}

# find_machine: says for which machine the binary is, in `machine` as `uname -m` names it and in `architecture` as
# Debian does, and with which programs to `strip` and to `run` it here.
find_machine() {
  local elf
  elf=$(od -An -tx1 -j18 -N1 "$binaries/waybill")
  case $elf in
    *3e) machine=x86_64 architecture=amd64 ;;
    *b7) machine=aarch64 architecture=arm64 ;;
    *) die "$binaries/waybill is neither for x86_64 nor for aarch64" ;;
  esac
  strip=strip run=()
  if [[ $machine != "$(uname -m)" ]]; then
    strip=$machine-linux-gnu-strip run=("qemu-$machine" -L "/usr/$machine-linux-gnu")
  fi
  command -v "$strip" >/dev/null || die "needs $strip (Debian package binutils, or binutils-aarch64-linux-gnu)"
}

# prepare: checks that there is something to package, and sets `version`, SOURCE_DATE_EPOCH and `tree`, a folder that
# is removed at the end, besides what find_machine sets.
prepare() {
  [[ -x $binaries/waybill ]] || die "$binaries/waybill is not there: cargo build --release"
  find_machine
  version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
  [[ -n $version ]] || die "Cargo.toml has no version"
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
  tree=$(mktemp -d)
  chmod 0755 "$tree"
  trap 'rm -rf -- "$tree"' EXIT
}

# strip_into FOLDER: copies the binary without its symbols, and links its other names to it.
strip_into() {
  local part
  install -d -m 0755 "$1"
  "$strip" --strip-all -o "$1/waybill" "$binaries/waybill"
  chmod 0755 "$1/waybill"
  for part in "${parts[@]}"; do ln --symbolic waybill "$1/$part"; done
}

# install_units FOLDER: the units, and what those of single queues have besides.
install_units() {
  local folder
  install -D -m 0644 --target-directory="$1" deploy/systemd/*.service
  for folder in deploy/systemd/*.service.d; do
    install -D -m 0644 --target-directory="$1/${folder##*/}" "$folder"/*.conf
  done
}
