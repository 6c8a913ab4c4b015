"""Checks a WhatsApp bridge as a client that knows only bridges/whatsapp/PROTOCOL.md.

usage: check_whatsapp_bridge.py COMMAND...

COMMAND starts a bridge: the fake (the example whatsapp_fake), or the real one with a stand-in for
WhatsApp. One list of checks holds both. Needs `websockets`.

The command gets BRIDGE_PORT=0, BRIDGE_HOST, BRIDGE_TOKEN, AUTH_DIR, BRIDGE_DIR and
BRIDGE_SUPERVISED=1 in its environment; the folders are empty. Its first line of standard output is
the bridge's `{"listening": "ws://127.0.0.1:…", "protocol": 2}`. The bridge begins linked and
connected, with any account. Then the command reads one JSON object a line from its standard input,
does what it says at WhatsApp, and answers with one line of JSON, `{}` if there is nothing to say.
It ends with 0 at the end of its input. These are the objects:

- {"phone": "person", "number": "4915…", "lid": "7749…", "name": "Ann"}: this person has WhatsApp,
  and the bridge can learn which number belongs to the LID;
- {"phone": "group", "id": "…@g.us", "member": true}: this group exists; the account is a member, or
  was removed;
- {"phone": "says", "from": number, …}: a person writes to the account; the answer is {"id": …}, the
  message's id. Further members: "text"; "chat" (a group; else the direct chat); "byLid": true (the
  direct chat has the LID as its JID, and the number beside it); "mention": true (the account is
  mentioned, and the text begins with the mention); "quote": id of an earlier message of anyone;
  "file": {"kind", "mime", "name", "data" in base64}, whose caption is "text"; "special" (no text):
  {"location": [52.5, 13.4]}, {"contact": "Ann"} or {"poll": "lunch?"}. In a group the person is
  named by the LID, and the number is known. While the account is offline, the message waits;
- {"phone": "noise", "from": number}: an edit, a deletion and a reaction of the person, a status
  update, a message that the account itself sent by the phone, and one older than the link;
- {"phone": "refuses", "code": …, "retryAfter": …}: WhatsApp refuses the next message in the way for
  which the bridge answers with this code of the protocol;
- {"phone": "loses"}: the next message arrives, but its confirmation does not: the bridge answers
  `unknown_outcome` within a second (the stand-in shortens the time limit). WhatsApp shows a message
  once, however often its id is sent;
- {"phone": "offline"}, {"phone": "online"}: the connection to WhatsApp breaks, and stays broken
  until it works again;
- {"phone": "replace"}: another program uses the keys, until "online"; the bridge does not try again
  by itself, so a "restart" follows;
- {"phone": "unlink"}: the person removes the device, a QR code follows; {"phone": "link"}: the
  person scans the QR code;
- {"phone": "restart"}: the bridge is ended in good order and started again on the same folders; the
  answer is its new line {"listening": …};
- {"phone": "seen"}: the answer is what people see:
  {"messages": [{"id", "chat", "text", "quote": id or null,
                 "file": null or {"kind", "mime", "name", "data" in base64}}, …],
   "reactions": {id of a message: emoji}, "read": [ids], "typing": [JIDs]}.
  "chat" is the JID that the client named. "complaints" is a list of what no client should do.
"""

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fake_process import FakeProcess

TOKEN = "a token of the checks"
ANN, BEN = "4915111111111", "4915222222222"
ANN_LID, BEN_LID = "774915111111111", "774915222222222"
ANN_CHAT = ANN + "@s.whatsapp.net"
GROUP, OTHER_GROUP = "120363000000000001@g.us", "120363000000000002@g.us"
PIECE = 512 * 1024
LIMIT = 60


class Bridge(FakeProcess):
    """The bridge as a process, and the people at WhatsApp."""

    def __init__(self, command, folder):
        environment = {
            **os.environ,
            "BRIDGE_PORT": "0",
            "BRIDGE_HOST": "127.0.0.1",
            "BRIDGE_TOKEN": TOKEN,
            "AUTH_DIR": os.path.join(folder, "keys"),
            "BRIDGE_DIR": os.path.join(folder, "state"),
            "BRIDGE_SUPERVISED": "1",
        }
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self.where = json.loads(self.process.stdout.readline())
        self.last_id = 0
        self.complaints = 0

    async def phone(self, what, **members):
        # Reading blocks, and the connections have to go on meanwhile.
        return await asyncio.to_thread(self.order, phone=what, **members)

    async def says(self, text, sender=ANN, **members):
        return (await self.phone("says", **{"from": sender, "text": text}, **members))["id"]

    async def restarted(self):
        """Restarts the bridge, and returns a client."""
        self.where = {**self.where, **await self.phone("restart")}
        return await Client.ready(self)

    async def seen(self):
        return await self.phone("seen")

    async def complained(self):
        """Returns the complaints since the last call."""
        complaints = (await self.seen()).get("complaints", [])
        new = complaints[self.complaints :]
        self.complaints = len(complaints)
        return new

    def new_id(self):
        self.last_id += 1
        return f"3EB0{self.last_id:018X}"


class Client:
    """A client of version 2, or of version 1 without a protocol."""

    def __init__(self, socket):
        self.socket = socket
        self.inbox, self.messages = [], []
        self.requests = 0

    @classmethod
    async def open(cls, bridge, protocol=2, token=TOKEN):
        # The protocol limits frames to 1 MiB.
        client = cls(await connect(bridge.where["listening"], max_size=1 << 20, proxy=None))
        auth = {"type": "auth", "token": token}
        await client.send(**auth, **({"protocol": protocol} if protocol else {}))
        return client

    @classmethod
    async def ready(cls, bridge, is_connected=True):
        """Returns the client once it is admitted and, by default, the account is connected."""
        client = await cls.open(bridge)
        client.greeting = await client.next()
        assert client.greeting["type"] == "ready", client.greeting
        if is_connected and client.greeting["status"] != "connected":
            await client.connected()
        return client

    async def connected(self):
        await self.status(lambda status: status["status"] == "connected" and status["account"]["id"])

    async def status(self, is_expected):
        """Returns the next status that is as expected."""
        while True:
            status = await self.next("status")
            if is_expected(status):
                return status

    async def send(self, **frame):
        await self.socket.send(json.dumps(frame))

    async def send_text(self, text):
        await self.socket.send(text)

    async def receive(self):
        frame = await asyncio.wait_for(self.socket.recv(), LIMIT)
        assert isinstance(frame, str), "a binary frame"
        return json.loads(frame)

    async def next(self, *types):
        """Returns the next frame of one of these types; others wait."""
        for place, frame in enumerate(self.inbox):
            if not types or frame["type"] in types:
                return self.inbox.pop(place)
        while True:
            frame = await self.receive()
            if not types or frame["type"] in types:
                return frame
            self.inbox.append(frame)

    async def message(self):
        self.messages.append(await self.next("message"))
        return self.messages[-1]

    async def request(self, kind, **members):
        """Returns the answer to a request."""
        self.requests += 1
        request = f"request {self.requests}"
        await self.send(type=kind, requestId=request, **members)
        while True:
            frame = await self.receive()
            if frame.get("requestId") == request:
                return frame
            self.inbox.append(frame)

    async def refused(self, codes, kind, **members):
        answer = await self.request(kind, **members)
        assert answer["type"] == "error" and answer["code"] in codes.split(), (codes, answer)
        assert isinstance(answer["error"], str) and answer["error"], answer
        return answer

    async def ack(self, *messages):
        await self.send(type="ack", seq=[message["seq"] for message in messages])

    async def fence(self):
        """Returns once everything that was sent before is handled."""
        await self.upload("fence", b"")

    async def upload(self, reference, content):
        for offset in range(0, max(len(content), 1), PIECE):
            piece = content[offset : offset + PIECE]
            data = base64.b64encode(piece).decode()
            answer = await self.request("upload", ref=reference, offset=offset, data=data)
            size = offset + len(piece)
            assert (answer["type"], answer["ref"], answer["size"]) == ("uploaded", reference, size), answer

    async def fetch(self, reference):
        """Returns a file and the number of its pieces."""
        content, count = b"", 0
        while True:
            answer = await self.request("fetch", ref=reference, offset=len(content))
            assert (answer["type"], answer["offset"]) == ("chunk", len(content)), answer
            piece = base64.b64decode(answer["data"], validate=True)
            assert len(piece) <= PIECE
            content, count = content + piece, count + 1
            if answer["last"]:
                assert answer["size"] == len(content)
                return content, count
            assert piece

    async def send_message(self, bridge, text="", **members):
        message = bridge.new_id()
        answer = await self.request("send", id=message, text=text, **members)
        expected = {"type": "sent", "to": members["to"], "id": message, "repeated": False}
        assert answer == {**expected, "requestId": answer["requestId"]}, answer
        return message

    async def close(self):
        await self.socket.close()

    async def ended(self):
        """Returns the code with which the bridge closes the connection."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed as end:
            return end.rcvd.code if end.rcvd else None


def with_file(kind, mime, name, content):
    return {"kind": kind, "mime": mime, "name": name, "data": base64.b64encode(content).decode()}


async def check_admission(bridge):
    assert bridge.where["protocol"] == 2
    assert bridge.where["listening"].startswith("ws://127.0.0.1:"), bridge.where
    silent = Client(await connect(bridge.where["listening"], proxy=None))
    for token in ("wrong", "", TOKEN + "x"):
        assert await (await Client.open(bridge, token=token)).ended() == 4003
    first = await Client.ready(bridge)
    ready = first.greeting
    assert (ready["protocol"], ready["status"]) == (2, "connected"), ready
    assert isinstance(ready["version"], str) and ready["account"]["id"], ready
    status = await first.next("status")
    assert (status["status"], status["account"]) == ("connected", ready["account"]), status
    assert await (await Client.open(bridge)).ended() == 4009
    await first.fence()
    await (await first.socket.ping())
    await first.close()
    # The place of the first one is free again.
    await (await Client.ready(bridge)).close()
    assert await silent.ended() == 4001


async def check_messages(bridge):
    client = await Client.ready(bridge)
    hello = await bridge.says("hello")
    message = await client.message()
    assert isinstance(message["seq"], int) and isinstance(message["timestamp"], int), message
    assert (message["id"], message["sender"], message["pn"]) == (hello, ANN_CHAT, ""), message
    assert (message["content"], message["pushName"]) == ("hello", "Ann"), message
    assert (message["isGroup"], message["mentionsBot"]) == (False, False), message
    assert not message.get("media") and not message.get("quoted") and "lost" not in message, message
    await bridge.says("by LID", byLid=True)
    message = await client.message()
    assert (message["sender"], message["pn"]) == (ANN_LID + "@lid", ANN_CHAT), message
    await bridge.says("to all", sender=BEN, chat=GROUP)
    message = await client.message()
    assert (message["sender"], message["pn"], message["isGroup"]) == (GROUP, "", True), message
    assert message["participant"] == BEN_LID + "@lid", message
    assert message["participantPn"] == BEN + "@s.whatsapp.net", message
    assert (message["pushName"], message["mentionsBot"]) == ("Ben", False), message
    await bridge.says("you there", chat=GROUP, mention=True, quote=message["id"])
    message = await client.message()
    assert message["mentionsBot"] is True and message["content"].endswith("you there"), message
    quoted = message["quoted"]
    assert (quoted["content"], quoted["fromBot"]) == ("to all", False), quoted
    assert quoted["participant"] == BEN_LID + "@lid", quoted
    sent = await client.send_message(bridge, "an answer", to=ANN_CHAT)
    await bridge.says("why?", quote=sent)
    quoted = (await client.message())["quoted"]
    assert (quoted["id"], quoted["content"], quoted["fromBot"]) == (sent, "an answer", True), quoted
    specials = [
        ({"location": [52.5, 13.4]}, "[Location: 52.5, 13.4]"),
        ({"contact": "Ann"}, "[Contact: Ann]"),
        ({"poll": "lunch?"}, "[Poll: lunch?]"),
    ]
    for special, line in specials:
        await bridge.phone("says", **{"from": ANN}, special=special)
        message = await client.message()
        assert message["content"] == line, message
    await bridge.phone("noise", **{"from": ANN})
    long = "長い\n😀 " * 5000
    await bridge.says(long)
    message = await client.message()
    assert message["content"] == long
    seqs = [message["seq"] for message in client.messages]
    assert len(seqs) == 9 and seqs == sorted(set(seqs)), seqs
    await client.ack(*client.messages)
    await client.fence()
    await client.close()


async def check_journal(bridge):
    client = await Client.ready(bridge)
    for number in range(70):
        await bridge.says(f"number {number}")
    messages = [await client.message() for _ in range(64)]
    expected = [f"number {number}" for number in range(70)]
    assert [message["content"] for message in messages] == expected[:64]
    await client.fence()
    assert not [frame for frame in client.inbox if frame["type"] == "message"], "more than 64 ahead"
    # Any may be confirmed first.
    await client.ack(messages[2], messages[0])
    more = [await client.message() for _ in range(2)]
    assert [message["content"] for message in more] == expected[64:66]
    seqs = [message["seq"] for message in messages + more]
    assert seqs == sorted(set(seqs)), seqs
    await client.fence()
    await client.close()
    # What was not confirmed is repeated in its order, with the same seq.
    again = await Client.ready(bridge)
    repeated = [await again.message() for _ in range(64)]
    assert [message["content"] for message in repeated] == [expected[1]] + expected[3:66]
    assert repeated[:62] == [messages[1]] + messages[3:], "a repeated message differs"
    await again.ack(*repeated)
    rest = [await again.message() for _ in range(4)]
    assert [message["content"] for message in rest] == expected[66:]
    await again.fence()
    await again.close()
    # The restart repeats these, too.
    client = await bridge.restarted()
    assert [await client.message() for _ in range(4)] == rest
    await client.ack(*rest)
    # Nothing is repeated now, and seqs go on.
    await client.fence()
    await client.close()
    client = await Client.ready(bridge)
    await bridge.says("the next")
    message = await client.message()
    assert message["content"] == "the next" and message["seq"] > rest[-1]["seq"], message
    await client.ack(message)
    await client.fence()
    await client.close()


async def check_received_files(bridge):
    client = await Client.ready(bridge)
    content = bytes(range(256)) * 4800
    document = with_file("document", "application/pdf", "a report.pdf", content)
    await bridge.says("read this", file=document)
    message = await client.message()
    [media] = message["media"]
    assert (media["kind"], media["mime"], media["name"]) == ("document", "application/pdf", "a report.pdf")
    assert media["size"] == len(content) and message["content"] == "read this", message
    received, pieces = await client.fetch(media["ref"])
    assert received == content and pieces > 1
    for kind, mime in (("image", "image/jpeg"), ("voice", "audio/ogg; codecs=opus"), ("video", "video/mp4")):
        await bridge.says("", file=with_file(kind, mime, "", b"a few bytes"))
        message = await client.message()
        [media] = message["media"]
        assert (media["kind"], message["content"]) == (kind, ""), message
        assert media["mime"].split(";")[0] == mime.split(";")[0], media
        assert await client.fetch(media["ref"]) == (b"a few bytes", 1)
        await client.ack(message)
        # The file is kept for a while.
        assert await client.fetch(media["ref"]) == (b"a few bytes", 1)
    await client.close()
    # The first message was not confirmed, so its file is still there.
    client = await Client.ready(bridge)
    message = await client.message()
    assert (await client.fetch(message["media"][0]["ref"]))[0] == content
    await client.ack(message)
    await client.fence()
    await client.close()


async def check_sending(bridge):
    client = await Client.ready(bridge)
    heard = await bridge.says("say something", sender=BEN, chat=GROUP)
    message = await client.message()
    await client.ack(message)
    quote = {"id": heard, "participant": message["participant"], "content": message["content"]}
    first = await client.send_message(bridge, "something", to=GROUP, quote=quote)
    shown = (await bridge.seen())["messages"][-1]
    expected = {"id": first, "chat": GROUP, "text": "something", "quote": heard, "file": None}
    assert shown == expected, shown
    # The same id is answered, and not sent again.
    answer = await client.request("send", id=first, to=GROUP, text="something", quote=quote)
    assert (answer["type"], answer["id"], answer["repeated"]) == ("sent", first, True), answer
    assert len([0 for shown in (await bridge.seen())["messages"] if shown["id"] == first]) == 1
    by_lid = await client.send_message(bridge, "長い😀", to=ANN_LID + "@lid")
    shown = (await bridge.seen())["messages"][-1]
    assert (shown["id"], shown["text"]) == (by_lid, "長い😀"), shown
    await client.send_message(bridge, "x" * 65_536, to=ANN_CHAT)
    content = bytes(range(256)) * 4800
    await client.upload("u1", content)
    media = {"ref": "u1", "kind": "document", "mime": "application/pdf", "name": "報告.pdf"}
    await client.send_message(bridge, "the report", to=ANN_CHAT, media=media)
    shown = (await bridge.seen())["messages"][-1]
    file = shown["file"]
    assert (file["kind"], file["mime"], file["name"]) == ("document", "application/pdf", "報告.pdf"), file
    assert base64.b64decode(file["data"]) == content and shown["text"] == "the report"
    for kind, mime in (("image", "image/png"), ("voice", "audio/ogg; codecs=opus"), ("video", "video/mp4")):
        await client.upload("u2", b"a few bytes")
        await client.send_message(bridge, to=ANN_CHAT, media={"ref": "u2", "kind": kind, "mime": mime, "name": ""})
        file = (await bridge.seen())["messages"][-1]["file"]
        assert (file["kind"], base64.b64decode(file["data"])) == (kind, b"a few bytes"), file
    await client.close()
    # The bridge knows the id after a restart, too.
    client = await bridge.restarted()
    answer = await client.request("send", id=first, to=GROUP, text="something", quote=quote)
    assert answer["repeated"] is True, answer
    await client.close()


async def check_signs(bridge):
    client = await Client.ready(bridge)
    heard = await bridge.says("look", sender=BEN, chat=GROUP)
    message = await client.message()
    await client.ack(message)
    target = {"to": GROUP, "id": heard, "participant": message["participant"]}
    await client.send(type="typing", to=GROUP, active=True)
    await client.send(type="read", **target)
    await client.fence()
    seen = await bridge.seen()
    assert (seen["typing"], seen["read"][-1]) == ([GROUP], heard), seen
    await client.send(type="typing", to=GROUP, active=False)
    await client.fence()
    assert (await bridge.seen())["typing"] == []
    for emoji in ("👀", "✅"):
        answer = await client.request("react", **target, fromBot=False, emoji=emoji)
        assert answer["type"] == "sent" and answer["id"] and answer["to"] == GROUP, answer
        assert (await bridge.seen())["reactions"][heard] == emoji
    await client.request("react", **target, fromBot=False, emoji="")
    assert heard not in (await bridge.seen())["reactions"]
    sent = await client.send_message(bridge, "mine", to=GROUP)
    await client.request("react", to=GROUP, id=sent, fromBot=True, emoji="👍")
    assert (await bridge.seen())["reactions"][sent] == "👍"
    await client.close()


async def check_failures(bridge):
    client = await Client.ready(bridge)
    members = {"to": ANN_CHAT, "text": "try"}
    for code in ("rate_limited", "forbidden", "not_found"):
        message = bridge.new_id()
        pause = {"retryAfter": 5} if code == "rate_limited" else {}
        await bridge.phone("refuses", code=code, **pause)
        answer = await client.refused(code, "send", id=message, **members)
        # The bridge may know the pause better than WhatsApp, which seldom names one.
        assert code != "rate_limited" or answer["retryAfter"] > 0, answer
        # Nothing was sent, so the id is new.
        answer = await client.request("send", id=message, **members)
        assert (answer["type"], answer["repeated"]) == ("sent", False), answer
    message = bridge.new_id()
    await bridge.phone("loses")
    await client.refused("unknown_outcome", "send", id=message, **members)
    answer = await client.request("send", id=message, **members)
    assert (answer["type"], answer["id"], answer["repeated"]) == ("sent", message, False), answer
    shown = [shown for shown in (await bridge.seen())["messages"] if shown["id"] == message]
    assert len(shown) == 1, shown
    await client.refused("not_found", "send", id=bridge.new_id(), to="4915999999999@s.whatsapp.net", text="x")
    await client.refused("not_found forbidden", "send", id=bridge.new_id(), to="120363999999999999@g.us", text="x")
    await client.refused("forbidden", "send", id=bridge.new_id(), to=OTHER_GROUP, text="x")
    await client.close()


async def check_status(bridge):
    client = await Client.ready(bridge)
    await client.next("status")
    members = {"to": ANN_CHAT, "text": "x"}
    await bridge.phone("offline")
    status = await client.status(lambda status: status["status"] == "disconnected")
    assert status["retry"] is True and isinstance(status["reason"], str), status
    await client.refused("not_connected", "send", id=bridge.new_id(), **members)
    heard = await bridge.says("said while offline")
    # A client that comes meanwhile is told the same.
    await client.close()
    client = await Client.ready(bridge, is_connected=False)
    assert client.greeting["status"] in ("disconnected", "connecting"), client.greeting
    assert client.greeting["account"]["id"], client.greeting
    await bridge.phone("online")
    await client.connected()
    message = await client.message()
    assert message["id"] == heard, message
    await client.ack(message)
    await client.send_message(bridge, "online", to=ANN_CHAT)
    await bridge.phone("replace")
    status = await client.status(lambda status: status.get("reason") == "replaced")
    assert (status["status"], status["retry"]) == ("disconnected", False), status
    await client.refused("not_connected", "send", id=bridge.new_id(), **members)
    await client.close()
    await bridge.phone("online")
    client = await bridge.restarted()
    await bridge.phone("unlink")
    status = await client.status(lambda status: status["status"] == "unlinked")
    assert status["reason"] == "logged_out" and "account" not in status, status
    qr = (await client.next("qr"))["qr"]
    assert isinstance(qr, str) and qr
    await client.refused("unlinked", "send", id=bridge.new_id(), **members)
    await client.close()
    client = await Client.ready(bridge, is_connected=False)
    assert client.greeting["status"] == "unlinked" and "account" not in client.greeting, client.greeting
    assert (await client.next("status"))["status"] == "unlinked"
    assert (await client.next("qr"))["qr"] == qr
    await bridge.phone("link")
    await client.connected()
    await client.send_message(bridge, "linked", to=ANN_CHAT)
    await client.close()


async def check_version_1(bridge):
    old = await Client.open(bridge, protocol=None)
    await old.send(type="send", to=ANN_CHAT, text="from an old client")
    answer = await old.next("sent", "error")
    assert answer == {"type": "sent", "to": ANN_CHAT}, answer
    shown = (await bridge.seen())["messages"][-1]
    assert (shown["chat"], shown["text"]) == (ANN_CHAT, "from an old client"), shown
    heard = await bridge.says("look", file=with_file("image", "image/png", "", b"a picture"))
    message = await old.message()
    assert (message["id"], message["sender"], message["isGroup"]) == (heard, ANN_CHAT, False), message
    assert message["content"].endswith("look") and not message.get("media"), message
    # It confirms nothing, so a client of version 2 gets the message, too, while the old one stays.
    client = await Client.ready(bridge)
    message = await client.message()
    assert (message["id"], len(message["media"])) == (heard, 1), message
    heard = await bridge.says("for both")
    for each in (old, client):
        message = await each.message()
        assert (message["id"], message["content"]) == (heard, "for both"), message
    await client.ack(*client.messages)
    await client.fence()
    await client.close()
    await old.close()


async def check_refusals(bridge):
    """Sends what no client should send."""
    client = await Client.ready(bridge)
    for text in ("", "no json", "[]", "5", "null"):
        await client.send_text(text)
        answer = await client.next("error")
        assert answer["code"] == "invalid" and "requestId" not in answer, answer
    send = {"id": bridge.new_id(), "to": ANN_CHAT, "text": "x"}
    media = {"ref": "u9", "kind": "image", "mime": "image/png", "name": ""}
    wrong = [
        ("invalid", "fly", {}),
        ("invalid", "send", {**send, "to": None}),
        ("invalid", "send", {**send, "to": "ann"}),
        ("invalid", "send", {**send, "to": "status@broadcast"}),
        ("invalid", "send", {**send, "text": 5}),
        ("invalid", "send", {**send, "text": ""}),
        ("invalid", "send", {**send, "id": ""}),
        ("invalid", "send", {**send, "id": "3EB0123"}),
        ("invalid", "send", {**send, "id": "3EB0" + "a" * 18}),
        ("invalid", "send", {**send, "id": "3EB0" + "A" * 29}),
        ("too_large invalid", "send", {**send, "text": "x" * 65_537}),
        ("invalid", "send", {**send, "quote": "this"}),
        ("invalid", "send", {**send, "media": []}),
        ("invalid", "send", {**send, "media": {**media, "kind": "hologram"}}),
        ("not_found", "send", {**send, "media": media}),
        ("not_found", "fetch", {"ref": "m999999-0", "offset": 0}),
        ("invalid", "fetch", {"ref": 5, "offset": 0}),
        ("invalid", "fetch", {"ref": "m1-0", "offset": -1}),
        ("invalid", "upload", {"ref": "u9", "offset": 0, "data": "no base64!"}),
        ("invalid not_found", "upload", {"ref": "u9", "offset": 5, "data": "eA=="}),
        ("too_large invalid", "upload", {"ref": "u8", "offset": 0, "data": "AAAA" * (PIECE // 3 + 1)}),
        ("invalid", "react", {"to": ANN_CHAT, "id": "x"}),
    ]
    before = (await bridge.seen())["messages"]
    for codes, kind, members in wrong:
        await client.refused(codes, kind, **members)
    assert (await bridge.seen())["messages"] == before
    # A confirmation of nothing and unknown members do no harm.
    await client.send(type="ack", seq=[999_999_999])
    await client.request("upload", ref="u7", offset=0, data="eA==", tomorrow=True)
    await client.fence()
    await client.send_text(json.dumps({"type": "typing", "to": "x" * (1 << 20), "active": True}))
    assert await client.ended() == 1009
    await (await Client.ready(bridge)).close()


# Checks that do what no client should do.
RUDE = (check_admission, check_refusals)


async def run(command):
    with tempfile.TemporaryDirectory() as folder:
        bridge = Bridge(command, folder)
        for number, lid, name in ((ANN, ANN_LID, "Ann"), (BEN, BEN_LID, "Ben")):
            await bridge.phone("person", number=number, lid=lid, name=name)
        await bridge.phone("group", id=GROUP, member=True)
        await bridge.phone("group", id=OTHER_GROUP, member=False)
        checks = [
            check_admission,
            check_messages,
            check_journal,
            check_received_files,
            check_sending,
            check_signs,
            check_failures,
            check_status,
            check_version_1,
            check_refusals,
        ]
        for check in checks:
            await asyncio.wait_for(check(bridge), 2 * LIMIT)
            complaints = await bridge.complained()
            assert check in RUDE or not complaints, complaints
            print("ok", check.__name__, flush=True)
        bridge.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    asyncio.run(run(sys.argv[1:]))
