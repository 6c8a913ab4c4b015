#!/bin/sh
# Installs what tests need: bubblewrap for commands in a sandbox, and the mail servers for e-mail:
# dovecot from Debian, and aiosmtpd from PyPI into .cache/. Idempotent and non-interactive. Needs root or sudo to install missing packages.
set -eu
cd "$(dirname "$0")/.."
venv=.cache/mail-venv
if ! command -v bwrap >/dev/null || ! command -v dovecot >/dev/null || [ ! -x /usr/lib/dovecot/lmtp ] || [ ! -x /usr/lib/dovecot/imap ] || ! command -v openssl >/dev/null; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        bubblewrap dovecot-imapd dovecot-lmtpd openssl >/dev/null
fi
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import aiosmtpd' 2>/dev/null || "$venv/bin/pip" install --quiet 'aiosmtpd==1.4.6'
