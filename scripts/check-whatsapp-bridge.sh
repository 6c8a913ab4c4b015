#!/bin/sh
# Checks the WhatsApp bridge: its tests, some of which run it with the real Baileys and without a
# network, and the list of checks that holds the fake, too, with a stand-in for WhatsApp.
# Needs node 20, npm, python3 with venv, and package indexes. Everything is installed below .cache/.
set -eu
cd "$(dirname "$0")/.."
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    if [ -n "${CI:-}" ]; then
        echo 'node and npm are missing, and in CI nothing may be skipped' >&2
        exit 1
    fi
    echo 'SKIPPED: node and npm are missing'
    exit 0
fi
export PYTHONDONTWRITEBYTECODE=1
bridge=.cache/whatsapp-bridge
venv=.cache/whatsapp-fake-venv
mkdir -p "$bridge"
if ! cmp -s bridges/whatsapp/package-lock.json "$bridge/installed-lock.json"; then
    cp bridges/whatsapp/package.json bridges/whatsapp/package-lock.json "$bridge"
    # The flags with which users install it, as the README says.
    (cd "$bridge" \
        && npm ci --silent --omit=dev --omit=peer --ignore-scripts --no-audit --no-fund)
    cp "$bridge/package-lock.json" "$bridge/installed-lock.json"
fi
# The modules are found above the files that use them.
rm -rf "$bridge/index.js" "$bridge/src" "$bridge/test"
for part in package.json index.js src test; do
    cp -R "bridges/whatsapp/$part" "$bridge"
done
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import websockets' 2>/dev/null || "$venv/bin/pip" install --quiet 'websockets==16.0'
tests='node --test --test-concurrency=4 --test-timeout=120000'
output=$(cd "$bridge" && $tests test/*.test.js 2>&1) || {
    printf '%s\n' "$output"
    exit 1
}
printf '%s\n' "$output" | grep -E '(tests|pass|fail) [0-9]+$'
exec "$venv/bin/python" scripts/check_whatsapp_bridge.py node "$bridge/test/stand-in.js"
