"""Uses imaplib and smtplib with the mail fake, and with a gateway through real mail servers.

usage: check_email.py FOLDER-OF-THE-BINARIES
"""

import email
import email.policy
import imaplib
import json
import os
import smtplib
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from email.message import EmailMessage
from email.utils import make_msgid
from pathlib import Path

BOT = "bot@mail.test"
ANN = "ann@mail.test"
MALLORY = "mallory@mail.test"
# Timeout for each operation, in seconds.
LIMIT = 60


class Helper:
    """A process that prints its addresses and then takes commands."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.where = json.loads(self.process.stdout.readline())

    def order(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        if self.process.wait(timeout=LIMIT) != 0:
            raise SystemExit("a helper ended with an error")


def refused(call, error, code):
    """Expects the call to fail with that code."""
    try:
        call()
    except error as problem:
        text = str(problem)
        assert str(code) in text, text
        return
    raise AssertionError(f"expected {error.__name__}: {code}")


def check_fake_mailbox(fake):
    where = fake.where
    uid = str(fake.order(mail="Subject: one\r\n\r\nbody\r\n")["uid"])
    box = imaplib.IMAP4("127.0.0.1", where["imap"])
    assert {"IMAP4REV1", "IDLE", "UIDPLUS"} <= set(box.capabilities), box.capabilities
    refused(lambda: box.login(where["user"], "wrong"), imaplib.IMAP4.error, "AUTHENTICATIONFAILED")
    assert box.login(where["user"], where["password"])[0] == "OK"
    assert box.select("Nowhere")[0] == "NO"
    assert box.select("INBOX") == ("OK", [b"1"])
    assert box.response("UIDVALIDITY") == ("UIDVALIDITY", [b"1"])
    assert box.uid("SEARCH", "UNSEEN UNDELETED")[1] == [uid.encode()]
    _, (header, _) = box.uid("FETCH", uid, "(UID RFC822.SIZE BODY.PEEK[HEADER]<0.99>)")
    assert header == (b"1 (UID 1 RFC822.SIZE 22 BODY[HEADER]<0> {16}", b"Subject: one\r\n\r\n"), header
    _, (body, _) = box.uid("FETCH", uid, "(UID BODY.PEEK[]<0.18>)")
    assert body[1] == b"Subject: one\r\n\r\nbo", body
    assert box.uid("STORE", uid, "+FLAGS.SILENT", r"(\Seen \Deleted)")[0] == "OK"
    assert box.uid("COPY", uid, "Done")[0] == "OK"
    assert box.uid("SEARCH", "UNSEEN UNDELETED UNKEYWORD Handled")[1] == [b""]
    state = fake.order()["mails"][0]
    assert (state["flags"], state["copies"]) == ([r"\Deleted", r"\Seen"], ["Done"]), state
    assert box.uid("EXPUNGE", uid)[0] == "OK"
    fake.order(mail="Subject: two\r\n\r\n")
    box.noop()
    assert box.untagged_responses["EXISTS"][-1] == b"1", box.untagged_responses
    fake.order(fault="UID SEARCH", answer="{tag} NO [SERVERBUG] broken\r\n")
    assert box.uid("SEARCH", "UNSEEN UNDELETED")[0] == "NO"
    refused(lambda: box.uid("SEARCH", "FROM x"), imaplib.IMAP4.error, "BAD")
    assert box.logout()[0] == "BYE"


def check_fake_sending(fake):
    where = fake.where
    with smtplib.SMTP("127.0.0.1", where["smtp"]) as smtp:
        refused(lambda: smtp.sendmail("a@x.test", ["b@x.test"], "x"), smtplib.SMTPSenderRefused, 503)
        refused(lambda: smtp.login(where["user"], "wrong"), smtplib.SMTPAuthenticationError, 535)
        assert smtp.login(where["user"], where["password"])[0] == 235
        fake.order(fault="RCPT", answer="550 5.1.1 nobody")
        refused(lambda: smtp.sendmail("a@x.test", ["c@x.test"], "x"), smtplib.SMTPRecipientsRefused, 550)
    with smtplib.SMTP("127.0.0.1", where["smtp"]) as smtp:
        smtp.login(where["user"], where["password"])
        assert smtp.sendmail("a@x.test", ["b@x.test"], "Subject: x\r\n\r\n.dot\r\n..two") == {}
    (sent,) = fake.order()["sent"]
    assert sent == {"from": "a@x.test", "to": ["b@x.test"], "raw": "Subject: x\r\n\r\n.dot\r\n..two\r\n"}, sent


def check_fake_tokens(fake):
    """Checks the token server, and logins with its tokens."""
    where = fake.where
    keys = ("client_id", "client_secret", "refresh_token")
    fields = {"grant_type": "refresh_token"} | {key: where[key] for key in keys}

    def ask(**changed):
        form = urllib.parse.urlencode(fields | changed).encode()
        with urllib.request.urlopen(where["token_url"], form, timeout=LIMIT) as answer:
            return json.load(answer)

    refused(lambda: ask(refresh_token="another"), urllib.error.HTTPError, 400)
    refused(lambda: ask(client_secret="another"), urllib.error.HTTPError, 401)
    given = ask()
    assert (given["token_type"], given["expires_in"]) == ("Bearer", 3600), given

    def shown(token):
        return f"user={where['user']}\x01auth=Bearer {token}\x01\x01"

    box = imaplib.IMAP4("127.0.0.1", where["imap"])
    assert "AUTH=XOAUTH2" in box.capabilities, box.capabilities
    answers = iter([shown("wrong").encode(), b""])
    refused(lambda: box.authenticate("XOAUTH2", lambda _: next(answers)), imaplib.IMAP4.error, "AUTHENTICATIONFAILED")
    assert box.authenticate("XOAUTH2", lambda _: shown(given["access_token"]).encode())[0] == "OK"
    assert box.select("inbox")[0] == "OK"
    assert box.uid("SEARCH", "UNSEEN UNDELETED SINCE 1-Jan-2020")[0] == "OK"
    box.logout()
    with smtplib.SMTP("127.0.0.1", where["smtp"]) as smtp:
        smtp.ehlo()

        def wrong(challenge=None):
            return "" if challenge else shown("wrong")

        refused(lambda: smtp.auth("XOAUTH2", wrong), smtplib.SMTPAuthenticationError, 535)
        assert smtp.auth("XOAUTH2", lambda challenge=None: shown(given["access_token"]))[0] == 235


class Person:
    """A person with a mailbox."""

    def __init__(self, where, address):
        self.where, self.address = where, address

    def mailbox(self):
        box = imaplib.IMAP4("127.0.0.1", self.where["imap"])
        box.login(self.address, self.where["password"])
        box.select("INBOX")
        return box

    def writes(self, text, sender=None, **headers):
        message = EmailMessage()
        message["From"] = sender or self.address
        message["To"] = BOT
        message["Message-ID"] = make_msgid(domain="mail.test")
        for name, value in headers.items():
            message[name.replace("_", "-")] = value
        message.set_content(text)
        return self.sends(message)

    def sends(self, message):
        context = ssl.create_default_context(cafile=self.where["ca_file"])
        with smtplib.SMTP("127.0.0.1", self.where["smtp"]) as smtp:
            smtp.starttls(context=context)
            smtp.login(self.address, self.where["password"])
            smtp.send_message(message, self.address, [BOT])
        return message

    def mails(self):
        box = self.mailbox()
        _, found = box.search(None, "ALL")
        fetched = [box.fetch(number, "(BODY.PEEK[])")[1][0][1] for number in found[0].split()]
        box.logout()
        return [email.message_from_bytes(raw, policy=email.policy.default) for raw in fetched]

    def waits_for(self, count):
        give_up = time.monotonic() + LIMIT
        while len(mails := self.mails()) < count:
            assert time.monotonic() < give_up, f"{self.address} has {len(mails)} mails instead of {count}"
            time.sleep(0.1)
        return mails


class Gateway:
    """The gateway, with a home of its own."""

    def __init__(self, binary, home, model, where):
        self.binary, self.home = binary, home
        config = {
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.where["base_url"]}},
            "agents": {"defaults": {"provider": "custom", "model": "scripted-model"}},
            "gateway": {"port": 0},
            "channels": {
                "sendProgress": True,
                "email": {
                    "enabled": True,
                    "consentGranted": True,
                    "imapHost": "127.0.0.1",
                    "imapPort": where["imaps"],
                    "imapUsername": BOT,
                    "imapPassword": where["password"],
                    "smtpHost": "127.0.0.1",
                    "smtpPort": where["smtp"],
                    "smtpUsername": BOT,
                    "smtpPassword": where["password"],
                    "caFile": where["ca_file"],
                    "authservId": "mx.mail.test",
                    "allowedAttachmentTypes": ["text/csv"],
                    "allowFrom": [ANN],
                },
            },
        }
        (home / "config.json").write_text(json.dumps(config))
        self.process = None

    def start(self):
        environment = os.environ | {"NANOBOT_HOME": str(self.home)}
        log = (self.home / "out.log").open("a")
        self.process = subprocess.Popen([self.binary, "gateway"], env=environment, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=LIMIT)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=LIMIT) == 0, (self.home / "out.log").read_text()


def check_thread(where, _gateway):
    ann = Person(where, ANN)
    question = ann.writes("What is **this**?", Subject="Grüße", References="<root@mail.test>")
    (answer,) = ann.waits_for(1)
    assert answer["Subject"] == "Re: Grüße"
    assert answer["In-Reply-To"] == question["Message-ID"]
    assert answer["References"].split() == ["<root@mail.test>", question["Message-ID"]]
    assert (answer["From"], answer["To"], answer["Auto-Submitted"]) == (BOT, ANN, "auto-replied")
    plain, html = (answer.get_body([kind]).get_content() for kind in ("plain", "html"))
    assert answer.get_content_type() == "multipart/alternative"
    assert "What is this?" in plain or "What is **this**?" in plain, plain
    assert "<b>this</b>" in html or "<strong>this</strong>" in html, html
    ann.writes("Go on.\n\nOn Monday it wrote:\n> You said", Subject="Re: Grüße", In_Reply_To=answer["Message-ID"])
    second = ann.waits_for(2)[1].get_body(["plain"]).get_content()
    assert "Go on." in second and "left out" in second and "> You said" not in second, second


def check_files(where, gateway):
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = ANN, BOT, "files"
    message.set_content("<p>See the <b>table</b></p>", subtype="html")
    message.add_attachment("a,b\n1,2\n", subtype="csv", filename="../t.csv")
    message.add_attachment(b"MZ", maintype="application", subtype="octet-stream", filename="x.exe")
    Person(where, ANN).sends(message)
    text = Person(where, ANN).waits_for(3)[2].get_body(["plain"]).get_content()
    assert "See the table" in text and "not kept: x.exe" in text, text
    (kept,) = [path for path in (gateway.home / "media").rglob("*") if path.is_file()]
    assert kept.read_text() == "a,b\n1,2\n" and kept.suffix == ".csv", kept


def check_others(where, _gateway):
    Person(where, MALLORY).writes("let me in")
    Person(where, MALLORY).writes("I am Ann", sender=ANN)
    Person(where, ANN).writes("I am away", Auto_Submitted="auto-replied")
    Person(where, ANN).writes("after all of them")
    mails = Person(where, ANN).waits_for(4)
    assert "after all of them" in mails[3].get_body(["plain"]).get_content()
    assert Person(where, MALLORY).mails() == []


def check_restart(where, gateway):
    """Kills the gateway and sends mail meanwhile: each mail is answered once."""
    gateway.kill()
    Person(where, ANN).writes("while you were away")
    gateway.start()
    texts = [mail.get_body(["plain"]).get_content() for mail in Person(where, ANN).waits_for(5)]
    assert sum("while you were away" in text for text in texts) == 1, texts
    Person(where, ANN).writes("and now")
    assert "and now" in Person(where, ANN).waits_for(6)[5].get_body(["plain"]).get_content()
    give_up = time.monotonic() + LIMIT
    box = Person(where, BOT).mailbox()
    # The mail that failed authentication stays unread, so that a person finds it.
    while len(unseen := box.search(None, "UNSEEN")[1][0].split()) != 1:
        assert time.monotonic() < give_up, f"{len(unseen)} mails are not marked"
        time.sleep(0.1)
        box.noop()
    assert b"I am Ann" in box.fetch(unseen[0], "(BODY.PEEK[])")[1][0][1]
    box.logout()
    gateway.stop()
    assert len(Person(where, ANN).mails()) == 6


def main(binaries):
    fake = Helper(str(binaries / "examples/mail_fake"))
    for check in (check_fake_mailbox, check_fake_sending, check_fake_tokens):
        check(fake)
        print("ok", check.__name__)
    fake.close()
    servers = Helper(sys.executable, "scripts/mail_servers.py")
    model = Helper(str(binaries / "examples/scripted_model"))
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(str(binaries / "nanobot"), Path(folder), model, servers.where)
        gateway.start()
        try:
            for check in (check_thread, check_files, check_others, check_restart):
                check(servers.where, gateway)
                print("ok", check.__name__)
        except BaseException:
            print((gateway.home / "out.log").read_text(), file=sys.stderr)
            raise
        finally:
            gateway.kill()
    model.close()
    servers.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
