#!/usr/bin/env bash
# Makes the packages of a release: an archive with the program, its manual pages, completions and
# systemd unit (for macOS: launchd agent), and SHA256SUMS.
#
#   scripts/dist.sh                    for this system, in target/packages
#   scripts/dist.sh --target TRIPLE    for another one, whose Rust target and linker are installed
#   scripts/dist.sh --deb              a Debian package, too; installs cargo-deb if it is missing
#   scripts/dist.sh --program FILE     with a program of this system that is already built, and
#                                      nanobot-documents and nanobot-matrix-crypto beside it
#   scripts/dist.sh --output FOLDER    in another folder
#
# Two runs in the same folder with the same compiler make equal archives. Dates in them are
# SOURCE_DATE_EPOCH (seconds since 1970), by default that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'dist: %s\n' "$1" >&2
    exit 1
}

target=
program=
packages=target/packages
deb=
while (($#)); do
    case "$1" in
        --target | --program | --output)
            [[ -n "${2-}" ]] || fail "$1 needs a value; see the head of scripts/dist.sh"
            case "$1" in
                --target) target=$2 ;;
                --program) program=$2 ;;
                --output) packages=$2 ;;
            esac
            shift
            ;;
        --deb) deb=1 ;;
        *) fail "unknown option $1; see the head of scripts/dist.sh" ;;
    esac
    shift
done
for tool in cargo rustc tar gzip sha256sum; do
    command -v "$tool" >/dev/null || fail "$tool is not installed"
done
tar --version | grep -q 'GNU tar' || fail 'GNU tar is needed, because the order and owners in the archive are fixed'

[[ -z "$target" || -z "$program" ]] || fail '--program is of this system; it cannot be combined with --target'
host="$(rustc -vV | sed -n 's/^host: //p')"
triple="${target:-$host}"
version="$(cargo metadata --locked --no-deps --format-version 1 | grep -o '"name":"nanobot","version":"[^"]*"' | cut -d'"' -f8)"
[[ -n "$version" ]] || fail 'cargo metadata names no version of nanobot'
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
built="${CARGO_TARGET_DIR:-target}"
name="nanobot-$version-$triple"
root="$packages/$name"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

parts=(--package nanobot --package nanobot-matrix-crypto-program)
if [[ -n "$target" ]]; then
    echo "dist: building nanobot $version for $target"
    cargo build --locked --profile dist --target "$target" "${parts[@]}"
    program="$built/$target/dist/nanobot"
elif [[ -z "$program" ]]; then
    echo "dist: building nanobot $version for this system"
    cargo build --locked --profile dist "${parts[@]}"
    program="$built/dist/nanobot"
fi
# What describes the program is written by the program. One for another system cannot run here.
describer=$program
if [[ "$triple" != "$host" ]]; then
    echo 'dist: building it for this system, too, to write the manual pages and completions'
    cargo build --locked --package nanobot
    describer="$built/debug/nanobot"
fi

echo "dist: collecting $root"
rm -rf "$root"
mkdir -p "$root/bin" "$root/share/man/man1" "$root/share/bash-completion/completions" \
    "$root/share/zsh/site-functions" "$root/share/fish/vendor_completions.d" \
    "$root/share/powershell" "$root/share/doc/nanobot"
install -m 755 "$program" "$root/bin/nanobot"
for other in nanobot-documents nanobot-matrix-crypto; do
    install -m 755 "$(dirname "$program")/$other" "$root/bin/$other"
done
"$describer" man --to "$root/share/man/man1" >/dev/null
"$describer" completions bash >"$root/share/bash-completion/completions/nanobot"
"$describer" completions zsh >"$root/share/zsh/site-functions/_nanobot"
"$describer" completions fish >"$root/share/fish/vendor_completions.d/nanobot.fish"
"$describer" completions powershell >"$root/share/powershell/nanobot.ps1"
case "$triple" in
    *-linux-*)
        mkdir -p "$root/lib/systemd/user"
        "$describer" gateway install-service --unit-for /usr/local/bin/nanobot \
            >"$root/lib/systemd/user/nanobot.service"
        ;;
    *-apple-darwin)
        mkdir -p "$root/share/launchd"
        "$describer" gateway install-service --agent-for /usr/local/bin/nanobot \
            >"$root/share/launchd/ai.nanobot.gateway.plist"
        ;;
esac
"$describer" gateway install-service --unit-for /usr/bin/nanobot >"$scratch/nanobot.service"
install -m 644 README.md LICENSE CHANGELOG.md "$root/share/doc/nanobot"
find "$root" -type d -exec chmod 755 {} +
find "$root" -type f ! -path '*/bin/*' -exec chmod 644 {} +

echo "dist: packing $packages/$name.tar.gz"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
    -C "$packages" -cf - "$name" | gzip -n >"$packages/$name.tar.gz"
made=("$name.tar.gz")

if [[ -n "$deb" ]]; then
    command -v dpkg-deb >/dev/null || fail 'dpkg-deb is not installed; a Debian package is made on Debian or Ubuntu'
    if ! command -v cargo-deb >/dev/null; then
        echo 'dist: installing cargo-deb'
        cargo install --quiet --locked cargo-deb
    fi
    # The assets in bins/nanobot/Cargo.toml name this folder.
    staged=.cache/deb
    rm -rf "$staged"
    mkdir -p "$staged"
    cp -a "$root/." "$staged"
    install -m 644 "$scratch/nanobot.service" "$staged/lib/systemd/user/nanobot.service"
    echo 'dist: packing the Debian package'
    cargo deb --locked --no-build --no-strip ${target:+--target "$target"} --package nanobot \
        --output "$scratch/packed/"
    package="$(cd "$scratch/packed" && echo *.deb)"
    dpkg-deb --contents "$scratch/packed/$package" >"$scratch/contents"
    for file in usr/bin/nanobot usr/bin/nanobot-documents usr/bin/nanobot-matrix-crypto usr/lib/systemd/user/nanobot.service usr/share/man/man1/nanobot.1; do
        grep -q "$file" "$scratch/contents" || fail "$package does not contain $file"
    done
    mv "$scratch/packed/$package" "$packages"
    rm -rf "$staged"
    made+=("$package")
fi

(cd "$packages" && sha256sum -- "${made[@]}" >SHA256SUMS)
for file in "${made[@]}" SHA256SUMS; do
    echo "dist: made $packages/$file"
done
