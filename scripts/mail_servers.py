"""Runs real mail servers on loopback: dovecot for IMAP, aiosmtpd for sending, which delivers into dovecot.

Every address at mail.test has a mailbox with the password PASSWORD. Like a provider's, the submission
server requires a login and adds a header with the authentication results of the sender. The assistant's
mailbox also accepts access tokens, which the provider's token server issues for a refresh token.

Prints one line of JSON with the ports and the certificate of its authority. Ends when its input is closed.
"""

import asyncio
import base64
import json
import logging
import os
import pwd
import shutil
import smtplib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import namedtuple
from email.parser import BytesHeaderParser
from email.utils import parseaddr
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

PASSWORD = "Secret_of_mail.test_1"
REFRESH_TOKEN = "refresh-token-of-mail.test"
CLIENT_ID = "client-of-mail.test"
BOT = "bot@mail.test"
HOST = "localhost"
# Timeout for the start of a server on a busy machine, in seconds.
PATIENCE = 60
# Sockets that reserve ports for the servers.
RESERVED = []

CONFIG = """
protocols = imap lmtp
base_dir = {base}/run
state_dir = {base}/state
log_path = {base}/dovecot.log
default_internal_user = {internal}
default_internal_group = {internal_group}
default_login_user = {login}
first_valid_uid = 1
first_valid_gid = 1
ssl = yes
ssl_cert = <{base}/server.pem
ssl_key = <{base}/server.key
mail_location = maildir:{base}/mail/%n
auth_mechanisms = plain login xoauth2
postmaster_address = postmaster@mail.test
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {base}/oauth2.conf
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={base}/mail/%n allow_all_users=yes
}}
namespace inbox {{
  inbox = yes
  mailbox Done {{
    auto = create
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {imap}
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {imaps}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""

OAUTH = """
introspection_mode = get
introspection_url = http://127.0.0.1:{port}/introspect?token=
username_attribute = email
active_attribute = active
active_value = true
"""


def free_ports(count):
    """Returns ports that the system does not assign to other processes.

    They stay bound while this runs, but our own servers can listen there: Linux allows several sockets
    with SO_REUSEADDR to share a port, if only one of them listens. On other systems they are released.
    """
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    if sys.platform == "linux":
        RESERVED.extend(sockets)
    else:
        for each in sockets:
            each.close()
    return ports


def make_certificates(base):
    """Creates a certificate authority, and a certificate for this host."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=base, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", f"/CN={HOST}")
    extensions = f"basicConstraints=CA:FALSE\nsubjectAltName=DNS:{HOST},IP:127.0.0.1\n"
    (base / "extensions").write_text(extensions)
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions", "-days", "2"]
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signing)


class Dovecot:
    """A dovecot server in the foreground."""

    def __init__(self, base, provider):
        self.imap, self.imaps, self.lmtp = free_ports(3)
        me = pwd.getpwuid(os.getuid())
        is_root = me.pw_uid == 0
        owner = pwd.getpwnam("nobody") if is_root else me
        internal = "dovecot" if is_root else me.pw_name
        values = {
            "base": base,
            "password": PASSWORD,
            "internal": internal,
            "internal_group": "dovecot" if is_root else _group(me.pw_gid),
            "login": "dovenull" if is_root else me.pw_name,
            "uid": owner.pw_uid,
            "gid": owner.pw_gid,
            "imap": self.imap,
            "imaps": self.imaps,
            "lmtp": self.lmtp,
        }
        base.chmod(0o755)
        mail = base / "mail"
        mail.mkdir()
        if is_root:
            os.chown(mail, owner.pw_uid, owner.pw_gid)
        (base / "oauth2.conf").write_text(OAUTH.format(port=provider.server_port))
        config = base / "dovecot.conf"
        config.write_text(CONFIG.format(**values))
        self.log = base / "dovecot.log"
        self.process = subprocess.Popen(["dovecot", "-F", "-c", config], stderr=subprocess.PIPE, text=True)

    def wait(self):
        give_up = time.monotonic() + PATIENCE
        for port in (self.imap, self.imaps, self.lmtp):
            while not _listens(port):
                if self.process.poll() is not None:
                    raise SystemExit(f"dovecot did not start: {self.process.stderr.read()}")
                if time.monotonic() > give_up:
                    raise SystemExit(f"dovecot does not listen: {self.log.read_text()}")
                time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)


def _group(gid):
    import grp

    return grp.getgrgid(gid).gr_name


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Provider(ThreadingHTTPServer):
    """Issues access tokens for the assistant's mailbox, and introspects them for the servers."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ProviderHandler)
        self.valid = set()
        self.given = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def give(self):
        """Issues a token that replaces the earlier ones."""
        self.given += 1
        token = f"access-token-{self.given}"
        self.valid = {token}
        return token


class ProviderHandler(BaseHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        expected = {"grant_type": "refresh_token", "refresh_token": REFRESH_TOKEN, "client_id": CLIENT_ID}
        if form == expected:
            self.answer(200, {"access_token": self.server.give(), "expires_in": 3600, "token_type": "Bearer"})
        else:
            self.answer(400, {"error": "invalid_grant"})

    def do_GET(self):
        token = dict(parse_qsl(urlsplit(self.path).query)).get("token")
        is_valid = token in self.server.valid
        self.answer(200, {"active": is_valid, "email": BOT if is_valid else ""})


class Deliver:
    """Delivers mails into the recipients' mailboxes."""

    def __init__(self, lmtp, provider):
        self.lmtp = lmtp
        self.provider = provider

    async def auth_XOAUTH2(self, server, arguments):
        shown = base64.b64decode(arguments[1]).decode()
        if any(shown == f"user={BOT}\x01auth=Bearer {token}\x01\x01" for token in self.provider.valid):
            return AuthResult(success=True, auth_data=Login(AuthLogin(BOT.encode())))
        # The client acknowledges the reasons with an empty line before the actual refusal.
        await server.challenge_auth(b'{"status": "401"}')
        return AuthResult(success=False, handled=False)

    async def handle_DATA(self, _server, session, envelope):
        content = self.report(session, envelope) + envelope.content
        try:
            await asyncio.to_thread(self.deliver, envelope, content)
        except smtplib.SMTPException as error:
            return f"451 4.3.0 {error}"
        return "250 2.0.0 kept"

    def report(self, session, envelope):
        """Returns a provider's authentication results for the sender."""
        written = parseaddr(BytesHeaderParser().parsebytes(envelope.content).get("From", ""))[1]
        known = session.auth_data.login.decode() if session.auth_data else ""
        outcome = "pass" if written == known == envelope.mail_from else "fail"
        domain = written.rpartition("@")[2]
        line = f"mx.mail.test; dkim={outcome} header.d={domain}; spf={outcome} smtp.mailfrom={envelope.mail_from}"
        return f"Authentication-Results: {line}\r\n".encode()

    def deliver(self, envelope, content):
        with smtplib.LMTP("127.0.0.1", self.lmtp) as lmtp:
            lmtp.sendmail(envelope.mail_from, envelope.rcpt_tos, content)


AuthLogin = namedtuple("AuthLogin", "login")


class Login:
    """The credentials of a login."""

    def __init__(self, data):
        self.login = data.login


def authenticate(_server, _session, _envelope, _mechanism, data):
    if data.password.decode() != PASSWORD:
        return AuthResult(success=False, handled=False)
    return AuthResult(success=True, auth_data=Login(data))


def smtp_server(lmtp, provider, context, implicit):
    """Creates an SMTP server with implicit TLS, or with STARTTLS."""
    (port,) = free_ports(1)
    options = {
        "hostname": "127.0.0.1",
        "port": port,
        "authenticator": authenticate,
        "auth_required": True,
        "auth_require_tls": not implicit,
        "data_size_limit": 1_000_000,
        "ready_timeout": PATIENCE,
    }
    if implicit:
        options["ssl_context"] = context
    else:
        options |= {"tls_context": context, "require_starttls": True}
    controller = Controller(Deliver(lmtp, provider), **options)
    controller.start()
    return controller


def main():
    # Invalid use by the clients here is intentional.
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if shutil.which("dovecot") is None:
        raise SystemExit("dovecot is not installed: scripts/install-test-servers.sh")
    with tempfile.TemporaryDirectory(prefix="mail-") as folder:
        base = Path(folder)
        make_certificates(base)
        provider = Provider()
        dovecot = Dovecot(base, provider)
        try:
            dovecot.wait()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(base / "server.pem", base / "server.key")
            starttls, implicit = (smtp_server(dovecot.lmtp, provider, context, implicit) for implicit in (False, True))
            where = {
                "host": HOST,
                "imap": dovecot.imap,
                "imaps": dovecot.imaps,
                "smtp": starttls.port,
                "smtps": implicit.port,
                "password": PASSWORD,
                "token_url": f"http://127.0.0.1:{provider.server_port}/token",
                "client_id": CLIENT_ID,
                "refresh_token": REFRESH_TOKEN,
                "ca_file": str(base / "ca.pem"),
            }
            print(json.dumps(where), flush=True)
            sys.stdin.read()
            starttls.stop()
            implicit.stop()
        finally:
            dovecot.stop()


if __name__ == "__main__":
    main()
