"""Runs a gateway at a Synapse and talks to it with matrix-nio, in clear and encrypted.

usage: check_matrix.py FOLDER-OF-THE-BINARIES
"""

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nio
from nio.crypto.attachments import decrypt_attachment

from fake_process import FakeProcess
from matrix_client import exchange_keys, good
from matrix_server import PASSWORD, Synapse

# Time limit for each step, in seconds.
LIMIT = 60
REPLIES = (nio.RoomMessage, nio.MegolmEvent)


class Gateway:
    """The gateway, with a home of its own."""

    def __init__(self, binaries, home, model, synapse, bot, ann):
        self.binary, self.home = binaries / "nanobot", home
        self.log = home / "out.log"
        section = {
            "enabled": True,
            "homeserver": synapse.url,
            "userId": bot,
            "password": PASSWORD,
            "allowFrom": [ann],
            "groupPolicy": "mention",
            "cryptoProgram": str(binaries / "nanobot-matrix-crypto"),
        }
        config = {
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.where["base_url"]}},
            "agents": {"defaults": {"provider": "custom", "model": "scripted-model"}},
            "gateway": {"port": 0},
            "channels": {"matrix": section},
        }
        (home / "config.json").write_text(json.dumps(config))
        self.process = None

    def start(self):
        environment = os.environ | {"NANOBOT_HOME": str(self.home), "NO_PROXY": "127.0.0.1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.binary, "gateway"], env=environment, stdout=log, stderr=log)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=LIMIT) == 0, "the gateway ended with an error"

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=LIMIT)


class Person:
    """A person with a client, and everything that it gets."""

    def __init__(self, synapse, user, bot, store):
        config = nio.AsyncClientConfig(encryption_enabled=True, store_sync_tokens=True)
        self.client = nio.AsyncClient(synapse.url, user, store_path=store, config=config)
        self.bot = bot
        # Events of the bot by room, and the users that typed.
        self.events, self.typed = {}, set()
        self.client.add_event_callback(self.on_event, REPLIES)
        self.client.add_event_callback(self.on_redaction, nio.RedactionEvent)
        self.client.add_ephemeral_callback(self.on_typing, nio.TypingNoticeEvent)

    async def on_event(self, room, event):
        if event.sender == self.bot:
            self.events.setdefault(room.room_id, []).append(event)

    async def on_redaction(self, room, redaction):
        events = self.events.get(room.room_id, [])
        events[:] = [event for event in events if event.event_id != redaction.redacts]

    async def on_typing(self, room, event):
        self.typed |= {(room.room_id, user) for user in event.users}

    async def log_in(self):
        good(await self.client.login(PASSWORD), nio.LoginResponse)
        await self.sync()

    async def sync(self):
        good(await self.client.sync(timeout=1000), nio.SyncResponse)
        await exchange_keys(self.client)

    async def until(self, what, probe):
        """Syncs until the probe returns a value."""
        give_up = time.monotonic() + LIMIT
        while not (found := probe()):
            assert time.monotonic() < give_up, f"no {what}; seen: {self.seen()}"
            await self.sync()
        return found

    def seen(self):
        return {room: [vars(event).get("body", type(event).__name__) for event in events]
                for room, events in self.events.items()}

    def joined(self, room):
        return self.bot in self.client.rooms[room].users if room in self.client.rooms else False

    def messages(self, room):
        """Returns the bot's messages, with the visible text of each."""
        texts, messages = {}, []
        for event in self.events.get(room, []):
            assert not isinstance(event, nio.MegolmEvent), f"cannot be decrypted: {event}"
            content = event.source["content"]
            relation = content.get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                texts[relation["event_id"]] = content["m.new_content"]["body"]
            else:
                messages.append(event)
        return [(event, texts.get(event.event_id, event.body)) for event in messages]

    def texts(self, room):
        return [text for _, text in self.messages(room)]

    def html(self, room):
        """Returns the HTML of the bot's last event."""
        content = self.events[room][-1].source["content"]
        return content.get("m.new_content", content).get("formatted_body", "")

    async def new_room(self, *, is_direct, is_encrypted=False):
        state = [nio.EnableEncryptionBuilder().as_dict()] if is_encrypted else []
        answer = await self.client.room_create(is_direct=is_direct, invite=[self.bot], initial_state=state)
        room = good(answer, nio.RoomCreateResponse).room_id
        await self.until("membership", lambda: self.joined(room))
        return room

    async def says(self, room, text, **content):
        content = {"msgtype": "m.text", "body": text, "m.mentions": {}} | content
        sent = await self.client.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
        return good(sent, nio.RoomSendResponse).event_id

    async def hears(self, room, words):
        """Waits for a message with these words, and returns it."""

        def find():
            return next((event for event, text in self.messages(room) if words in text), None)

        return await self.until(f"message with {words!r}", find)

    async def sends_file(self, room, name, data, is_encrypted):
        uploaded, keys = await self.client.upload(
            io.BytesIO(data), "text/csv", name, encrypt=is_encrypted, filesize=len(data))
        url = good(uploaded, nio.UploadResponse).content_uri
        place = {"file": keys | {"url": url}} if is_encrypted else {"url": url}
        info = {"mimetype": "text/csv", "size": len(data)}
        return await self.says(room, name, msgtype="m.file", filename=name, info=info, **place)

    async def reads_file(self, event):
        content = event.source["content"]
        file = content.get("file")
        answer = good(await self.client.download(file["url"] if file else content["url"]), nio.DownloadResponse)
        if not file:
            return answer.body
        return decrypt_attachment(answer.body, file["key"]["k"], file["hashes"]["sha256"], file["iv"])


async def check_direct(ann, gateway):
    room = await ann.new_room(is_direct=True)
    await ann.says(room, "hello")
    await ann.hears(room, "You said: hello")
    await ann.says(room, "What is **this**?")
    await ann.hears(room, "What is")
    await ann.until("bold words", lambda: "<strong>this</strong>" in ann.html(room))
    # The assistant types while a tool runs.
    await ann.says(room, 'call exec {"command": "sleep 3"}')
    await ann.until("typing", lambda: (room, ann.bot) in ann.typed)
    await ann.until("an answer", lambda: len(ann.texts(room)) >= 3)
    return room


async def check_group(ann, carol):
    room = await ann.new_room(is_direct=False)
    good(await ann.client.room_invite(room, carol.client.user_id), nio.RoomInviteResponse)
    good(await carol.client.join(room), nio.JoinResponse)
    await ann.until("third member", lambda: len(ann.client.rooms[room].users) == 3)
    await ann.says(room, "not for the assistant")
    mention = {"m.mentions": {"user_ids": [ann.bot]}}
    root = await ann.says(room, "a question", **mention)
    await ann.hears(room, "a question")
    thread = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True, "m.in_reply_to": {"event_id": root}}
    await ann.says(room, "in a thread", **mention, **{"m.relates_to": thread})
    answer = await ann.hears(room, "in a thread")
    relation = answer.source["content"]["m.relates_to"]
    assert (relation["rel_type"], relation["event_id"]) == ("m.thread", root), relation
    assert not any("not for the assistant" in text for text in ann.texts(room)), ann.texts(room)


async def check_files(ann, gateway, room, is_encrypted):
    name = "secret.csv" if is_encrypted else "clear.csv"
    data = f"a,b\n1,{name}\n".encode()
    await ann.sends_file(room, name, data, is_encrypted)
    await ann.hears(room, ".csv")
    kept = [path for path in (gateway.home / "media").rglob("*") if path.is_file()]
    assert data in [path.read_bytes() for path in kept], kept
    sent = gateway.home / "workspace" / f"out-{name}"
    sent.write_bytes(data * 3)
    order = json.dumps({"content": f"here is {name}", "media": [str(sent)]})
    await ann.says(room, f"call message {order}")

    def find():
        files = [event for event, _ in ann.messages(room) if event.source["content"]["msgtype"] == "m.file"]
        return files[-1] if files else None

    event = await ann.until("a file", find)
    content = event.source["content"]
    assert ("file" in content) == is_encrypted, content
    assert content.get("filename", content["body"]) == sent.name, content
    assert await ann.reads_file(event) == data * 3


async def check_restart(ann, gateway, rooms):
    """Writes while the gateway is down: everything is answered once."""
    gateway.stop()
    for number, room in enumerate(rooms):
        await ann.says(room, f"while you were away {number}")
    gateway.start()
    for number, room in enumerate(rooms):
        await ann.hears(room, f"while you were away {number}")
        await ann.says(room, f"and now {number}")
        await ann.hears(room, f"and now {number}")
    # After a kill, too.
    gateway.kill()
    for number, room in enumerate(rooms):
        await ann.says(room, f"after a kill {number}")
    gateway.start()
    for number, room in enumerate(rooms):
        await ann.hears(room, f"after a kill {number}")
        for words in ("hello", "while you were away", "and now", "after a kill"):
            # A reply that was growing at the kill is removed after the start.
            await ann.until(
                f"single answer to {words!r}",
                lambda: sum(f"You said: {words}" in text for text in ann.texts(room)) == 1)


async def check_identity(ann):
    """Reads the assistant's device as the homeserver shows it: signed by an identity of the account."""
    head = {"Authorization": f"Bearer {ann.client.access_token}"}
    body = json.dumps({"device_keys": {ann.bot: []}})
    answer = await (await ann.client.send("POST", "/_matrix/client/v3/keys/query", body, head)).json()
    (signing,) = answer["self_signing_keys"][ann.bot]["keys"]
    (device,) = answer["device_keys"][ann.bot].values()
    assert signing in device["signatures"][ann.bot], answer


async def check_encrypted(ann, gateway):
    room = await ann.new_room(is_direct=True, is_encrypted=True)
    assert ann.client.rooms[room].encrypted
    await ann.says(room, "hello")
    event = await ann.hears(room, "You said: hello")
    assert event.decrypted, event
    await check_files(ann, gateway, room, True)
    return room


async def check_nothing_is_clear(ann, room):
    """Reads the encrypted room as the homeserver has it."""
    path = f"/_matrix/client/v3/rooms/{room}/messages?dir=b&limit=1000"
    head = {"Authorization": f"Bearer {ann.client.access_token}"}
    answer = await ann.client.send("GET", path, None, head)
    events = (await answer.json())["chunk"]
    kinds = {event["type"] for event in events if event["sender"] == ann.bot}
    assert kinds - {"m.room.redaction", "m.reaction"} == {"m.room.member", "m.room.encrypted"}, kinds
    assert not any(key in event["content"] for event in events for key in ("body", "url", "file"))


async def run(binaries, folder):
    synapse = Synapse(folder)
    bot, ann, carol = (synapse.register(name) for name in ("bot", "ann", "carol"))
    model = FakeProcess(str(binaries / "examples/scripted_model"))
    home, stores = folder / "home", [folder / "ann", folder / "carol"]
    for path in (home, *stores):
        path.mkdir()
    gateway = Gateway(binaries, home, model, synapse, bot, ann)
    people = [Person(synapse, user, bot, str(store)) for user, store in zip((ann, carol), stores)]
    ann, carol = people
    gateway.start()
    try:
        for person in people:
            await person.log_in()
        direct = await check_direct(ann, gateway)
        print("ok", check_direct.__name__)
        await check_group(ann, carol)
        print("ok", check_group.__name__)
        await check_files(ann, gateway, direct, False)
        print("ok", check_files.__name__)
        await check_identity(ann)
        print("ok", check_identity.__name__)
        secret = await check_encrypted(ann, gateway)
        print("ok", check_encrypted.__name__)
        await check_restart(ann, gateway, [direct, secret])
        print("ok", check_restart.__name__)
        await check_nothing_is_clear(ann, secret)
        print("ok", check_nothing_is_clear.__name__)
        gateway.stop()
    except BaseException:
        for log in (gateway.log, synapse.log):
            print(log.read_text(), file=sys.stderr)
        raise
    finally:
        gateway.kill()
        for person in people:
            await person.client.close()
        synapse.stop()
    model.close()


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    # The client reports every event that it cannot decrypt yet.
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(sys.argv[1]).resolve(), Path(folder)))


if __name__ == "__main__":
    main()
