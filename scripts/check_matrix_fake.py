"""Drives the Matrix fake through matrix-nio: rooms, messages, media, faults and encryption.

usage: check_matrix_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import io
import json
import logging
import sys
import tempfile

import nio
from nio.crypto import ENCRYPTION_ENABLED

from fake_process import FakeProcess
from matrix_client import exchange_keys, good

ROOM = "!room:fake.test"
SECRET_ROOM = "!secret:fake.test"


class Fake(FakeProcess):
    def set(self, **settings):
        self.order(set=settings)

    def report(self):
        return self.order(sent=True)

    def last(self):
        return self.report()["sent"][-1]


def new_client(fake, account, store, token=True):
    config = nio.AsyncClientConfig(max_limit_exceeded=2, max_timeouts=2, encryption_enabled=ENCRYPTION_ENABLED)
    client = nio.AsyncClient(fake.where["url"], account["user"], store_path=store, config=config)
    if token:
        client.restore_login(account["user"], account["device"], account["token"])
    return client


def wrong(response, code):
    assert isinstance(response, nio.ErrorResponse) and response.status_code == code, response


class Session:
    """A client, and the events that it gets."""

    def __init__(self, client):
        self.client, self.events = client, []
        client.add_event_callback(lambda room, event: self.events.append(event), nio.Event)
        client.add_ephemeral_callback(lambda room, event: self.events.append(event), nio.EphemeralEvent)

    async def sync(self, timeout=0, **options):
        """Syncs, and returns the new events; encrypted ones are decrypted if that is possible."""
        self.events.clear()
        response = await self.client.sync(timeout=timeout, **options)
        good(response, nio.SyncResponse)
        await exchange_keys(self.client)
        return list(self.events)

    async def bodies(self, **options):
        events = await self.sync(**options)
        return [event.body for event in events if isinstance(event, nio.RoomMessageText)]

    async def say(self, room, text, **content):
        content = {"msgtype": "m.text", "body": text} | content
        sent = await self.client.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
        return good(sent, nio.RoomSendResponse).event_id


async def check_login(fake, store):
    account = fake.where["bot"]
    client = new_client(fake, account, store, token=False)
    good(await client.login_info(), nio.LoginInfoResponse)
    wrong(await client.login("wrong"), "M_FORBIDDEN")
    answer = good(await client.login(account["password"], device_name="a check"), nio.LoginResponse)
    who = good(await client.whoami(), nio.WhoamiResponse)
    assert (who.user_id, who.device_id) == (account["user"], answer.device_id)
    devices = good(await client.devices(), nio.DevicesResponse).devices
    assert {"a check"} <= {device.display_name for device in devices}, devices
    fake.set(revoke=True)
    wrong(await client.whoami(), "M_UNKNOWN_TOKEN")
    wrong(await client.sync(timeout=0), "M_UNKNOWN_TOKEN")
    wrong(await client.login(account["password"]), "M_FORBIDDEN")
    fake.set(restore=True)
    good(await client.whoami(), nio.WhoamiResponse)
    fake.set(expire=True)
    expired = await client.whoami()
    wrong(expired, "M_UNKNOWN_TOKEN")
    assert expired.soft_logout, expired
    again = nio.AsyncClient(fake.where["url"], account["user"], device_id=account["device"])
    answer = good(await again.login(account["password"]), nio.LoginResponse)
    assert answer.device_id == account["device"], answer
    account["token"] = answer.access_token
    await again.close()
    good(await client.login(account["password"]), nio.LoginResponse)
    token = client.access_token
    good(await client.logout(), nio.LogoutResponse)
    client.access_token = token
    wrong(await client.whoami(), "M_UNKNOWN_TOKEN")
    await client.close()


async def check_rooms(fake, bot):
    direct, ann = fake.where["direct"], fake.where["ann"]["user"]
    await bot.sync(full_state=True)
    rooms = bot.client.rooms
    assert set(rooms) == {direct} and rooms[direct].member_count == 2, rooms
    assert rooms[direct].user_name(ann) == "ann"
    fake.order(invite=ROOM)
    await bot.sync()
    invited = bot.client.invited_rooms[ROOM]
    assert (invited.inviter, invited.name) == (ann, ROOM), invited
    good(await bot.client.join(ROOM), nio.JoinResponse)
    wrong(await bot.client.join("!nowhere:fake.test"), "M_NOT_FOUND")
    await bot.sync()
    assert ROOM in bot.client.rooms and not bot.client.invited_rooms
    members = good(await bot.client.joined_members(ROOM), nio.JoinedMembersResponse).members
    assert {member.user_id for member in members} == {ann, bot.client.user_id}
    assert good(await bot.client.joined_rooms(), nio.JoinedRoomsResponse).rooms == sorted([direct, ROOM])
    state = good(await bot.client.room_get_state_event(ROOM, "m.room.name"), nio.RoomGetStateEventResponse)
    assert state.content == {"name": ROOM}
    wrong(await bot.client.room_put_state(ROOM, "m.room.topic", {"topic": "x"}), "M_FORBIDDEN")
    fake.order(power=50, room=ROOM)
    good(await bot.client.room_put_state(ROOM, "m.room.topic", {"topic": "x"}), nio.RoomPutStateResponse)
    good(await bot.client.room_get_state(ROOM), nio.RoomGetStateResponse)
    fake.order(invite="!other:fake.test")
    good(await bot.client.join("!other:fake.test"), nio.JoinResponse)
    good(await bot.client.room_leave("!other:fake.test"), nio.RoomLeaveResponse)
    assert fake.order(membership="!other:fake.test") == {"membership": "leave"}
    wrong(await bot.client.join("!other:fake.test"), "M_FORBIDDEN")
    await bot.sync()


async def check_messages(fake, bot):
    direct = fake.where["direct"]
    first = fake.order(text="hello")
    assert await bot.bodies() == ["hello"]
    assert await bot.bodies() == []
    fake.order(acknowledged=first["number"])
    fake.order(repeat=first["number"])
    assert await bot.bodies() == ["hello"]
    # A long poll ends with the next message.
    waiting = asyncio.create_task(bot.bodies(timeout=60_000))
    await asyncio.to_thread(fake.order, waiting=1)
    fake.order(text="a question", room=ROOM, mention=True)
    assert await waiting == ["a question"]
    assert bot.events[0].source["content"]["m.mentions"] == {"user_ids": [bot.client.user_id]}
    # A long timeline is cut at its start, and can be paged through.
    for number in range(15):
        fake.order(text=str(number))
    response = good(await bot.client.sync(timeout=0), nio.SyncResponse)
    timeline = response.rooms.join[direct].timeline
    assert timeline.limited and [event.body for event in timeline.events] == [str(n) for n in range(5, 15)]
    page = good(
        await bot.client.room_messages(direct, timeline.prev_batch, limit=6), nio.RoomMessagesResponse
    )
    bodies = [getattr(event, "body", None) for event in page.chunk]
    assert bodies == ["4", "3", "2", "1", "0", "hello"], bodies
    found = good(await bot.client.room_get_event(direct, first["event"]), nio.RoomGetEventResponse)
    assert found.event.body == "hello"
    fake.order(redact=first["number"])
    await bot.sync()
    assert [type(event) for event in bot.events] == [nio.RedactionEvent]
    fake.order(type="m.reaction", content={"m.relates_to": {
        "rel_type": "m.annotation", "event_id": first["event"], "key": "👍"}})
    await bot.sync()
    assert bot.events[0].key == "👍"
    odd = {"type": "m.room.message", "origin_server_ts": 1, "event_id": "$odd", "sender": "ann", "content": 5}
    fake.order(raw=odd)
    response = good(await bot.client.sync(timeout=0), nio.SyncResponse)
    [event] = response.rooms.join[direct].timeline.events
    assert (type(event), event.event_id) == (nio.BadEvent, "$odd"), event


async def check_sending(fake, bot):
    client = bot.client
    sent = await bot.say(ROOM, "*b*", format="org.matrix.custom.html", formatted_body="<b>b</b>")
    last = fake.last()
    assert (last["event"], last["text"], last["html"]) == (sent, "*b*", "<b>b</b>")
    edit = {"m.new_content": {"msgtype": "m.text", "body": "new"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": sent}}
    await bot.say(ROOM, "* new", **edit)
    last = fake.last()
    assert (last["event"], last["text"], last["history"]) == (sent, "new", ["*b*"])
    thread = {"rel_type": "m.thread", "event_id": sent, "is_falling_back": True,
              "m.in_reply_to": {"event_id": sent}}
    await bot.say(ROOM, "threaded", **{"m.relates_to": thread})
    last = fake.last()
    assert (last["thread"], last["reply"]) == (sent, None)
    # The same transaction is one message.
    content = {"msgtype": "m.text", "body": "once"}
    twice = [await client.room_send(ROOM, "m.room.message", content, tx_id="tx") for _ in range(2)]
    assert twice[0].event_id == twice[1].event_id
    assert [sent["text"] for sent in fake.report()["sent"]].count("once") == 1
    good(await client.room_redact(ROOM, sent, "a reason"), nio.RoomRedactResponse)
    assert fake.report()["sent"][0]["redacted"]
    good(await client.room_typing(ROOM, True), nio.RoomTypingResponse)
    assert fake.order(typing=ROOM) == {"typing": True}
    good(await client.room_typing(ROOM, False), nio.RoomTypingResponse)
    assert fake.order(typing=ROOM) == {"typing": False}
    last = fake.last()["event"]
    good(await client.room_read_markers(ROOM, last, last), nio.RoomReadMarkersResponse)
    assert fake.order(receipts=ROOM)["receipts"] == [["m.read", last], ["m.fully_read", last]]
    good(await client.update_receipt_marker(ROOM, last), nio.UpdateReceiptMarkerResponse)
    good(await client.set_displayname("Nanobot"), nio.ProfileSetDisplayNameResponse)
    profile = good(await client.get_profile(), nio.ProfileGetResponse)
    assert profile.displayname == "Nanobot"
    await bot.sync()
    assert client.rooms[ROOM].user_name(client.user_id) == "Nanobot"


async def check_media(fake, bot):
    client = bot.client
    config = good(await client.content_repository_config(), nio.ContentRepositoryConfigResponse)
    assert config.upload_size == 50 << 20
    data = b"\0\1words" * 100
    uploaded, _ = await client.upload(io.BytesIO(data), "application/x-words", "a.bin", filesize=len(data))
    url = good(uploaded, nio.UploadResponse).content_uri
    await bot.say(ROOM, "a.bin", msgtype="m.file", url=url, info={"mimetype": "application/x-words"})
    expected = {"name": "a.bin", "kind": "m.file", "mime": "application/x-words", "size": len(data)}
    assert fake.last()["files"] == [expected], fake.last()
    fake.set(strict_media=True)
    file = good(await client.download(url), nio.DownloadResponse)
    assert (file.body, file.content_type) == (data, "application/x-words")
    wrong(await client.download("mxc://fake.test/nothing"), "M_NOT_FOUND")
    await bot.sync()
    fake.order(file="content", name="报告.txt")
    [event] = await bot.sync()
    assert (event.body, event.source["content"]["filename"]) == ("报告.txt", "报告.txt")
    assert good(await client.download(event.url), nio.DownloadResponse).body == b"content"
    fake.set(limit=10)
    too_large, _ = await client.upload(io.BytesIO(data), "text/plain", "a.txt", filesize=len(data))
    wrong(too_large, "M_TOO_LARGE")


async def check_faults(fake, bot):
    # The client waits as long as it is told, and tries again.
    fake.order(fault="send", seconds=1)
    await bot.say(ROOM, "after a pause")
    assert fake.last()["text"] == "after a pause"
    fake.order(fault="send", code="M_FORBIDDEN")
    content = {"msgtype": "m.text", "body": "x"}
    wrong(await bot.client.room_send(ROOM, "m.room.message", content), "M_FORBIDDEN")
    wrong(await bot.client.room_messages("!other:fake.test", "s1"), "M_FORBIDDEN")
    await bot.sync()
    waiting = asyncio.create_task(bot.sync(timeout=600_000))
    await asyncio.to_thread(fake.order, waiting=1)
    fake.set(end_syncs=True)
    assert await waiting == []


async def check_encryption(fake, bot, ann):
    """Lets two clients talk in an encrypted room: the fake only carries their keys."""
    direct = fake.where["direct"]
    fake.order(add_room=SECRET_ROOM)
    fake.order(encrypt=SECRET_ROOM)
    for session in (bot, ann, bot, ann):
        await session.sync(full_state=True)
    assert bot.client.rooms[SECRET_ROOM].encrypted
    await ann.say(SECRET_ROOM, "a secret")
    assert await bot.bodies() == ["a secret"]
    [event] = bot.events
    assert event.decrypted and event.source["type"] == "m.room.message"
    await bot.say(SECRET_ROOM, "an answer")
    last = fake.last()
    assert (last["type"], last["text"]) == ("m.room.encrypted", ""), last
    assert "an answer" in await ann.bodies()
    # Each one-time key is given out once.
    data = {"one_time_keys": {bot.client.user_id: {bot.client.device_id: "signed_curve25519"}}}
    claimed = []
    for _ in range(2):
        answer = await ann.client.send(
            "POST", "/_matrix/client/v3/keys/claim", json.dumps(data),
            {"Authorization": f"Bearer {ann.client.access_token}", "Content-Type": "application/json"},
        )
        claimed.append((await answer.json())["one_time_keys"][bot.client.user_id][bot.client.device_id])
    assert claimed[0] != claimed[1] and all(len(keys) == 1 for keys in claimed), claimed
    await ann.say(direct, "in clear")
    assert "in clear" in await bot.bodies()


async def check_complaints(fake, bot):
    """Sends what no client should send."""
    assert fake.report()["complaints"] == [], fake.report()["complaints"]
    client, token = bot.client, bot.client.access_token
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    send = f"/_matrix/client/v3/rooms/{ROOM}/send/m.room.message/"
    secret = f"/_matrix/client/v3/rooms/{SECRET_ROOM}/send/m.room.message/c1"
    text = {"msgtype": "m.text", "body": "x"}
    unknown_filter = '/_matrix/client/v3/sync?filter={"room":{"timelime":{}}}'
    table = [
        ("GET", "/_matrix/client/v3/nothing", None, 404, "unknown call"),
        ("GET", "/_matrix/client/v3/sync?since=x", None, 400, "x is no position"),
        ("GET", "/_matrix/client/v3/sync?waits=1", None, 200, "unknown parameter waits"),
        ("GET", unknown_filter, None, 200, "filter.room: unknown key timelime"),
        ("PUT", send + "1", [], 400, "M_BAD_JSON"),
        ("PUT", send + "2", text | {"body": "x" * 66_000}, 413, "M_TOO_LARGE"),
        ("PUT", send + "3", text | {"x": 1.5}, 400, "numbers must be integers"),
        ("PUT", send + "4", {"msgtype": "m.odd", "body": "x"}, 200, "msgtype"),
        ("PUT", send + "tx", text, 200, "another content"),
        ("PUT", secret, text, 200, "clear m.room.message in an encrypted room"),
        ("PUT", f"/_matrix/client/v3/rooms/{ROOM}/typing/{client.user_id}", {"typing": 1}, 400, "typing"),
    ]
    for number, (method, path, body, status, words) in enumerate(table):
        data = None if body is None else json.dumps(body)
        answer = await client.send(method, path, data, head)
        assert answer.status == status, (path, await answer.text())
        complaints = fake.report()["complaints"]
        assert len(complaints) == number + 1 and words in complaints[-1], (path, complaints)
    answer = await client.send("GET", "/_matrix/client/v3/account/whoami", None, {})
    assert answer.status == 401 and (await answer.json())["errcode"] == "M_MISSING_TOKEN"


async def run(binary):
    fake = Fake(binary)
    with tempfile.TemporaryDirectory() as folder:
        await check_login(fake, folder)
        print("ok", check_login.__name__)
        bot = Session(new_client(fake, fake.where["bot"], folder))
        ann = Session(new_client(fake, fake.where["ann"], folder))
        checks = [check_rooms, check_messages, check_sending, check_media, check_faults]
        for check in checks:
            await check(fake, bot)
            print("ok", check.__name__)
        await check_encryption(fake, bot, ann)
        print("ok", check_encryption.__name__)
        await check_complaints(fake, bot)
        print("ok", check_complaints.__name__)
        for session in (bot, ann):
            await session.client.close()
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    # Refusals are expected, and the client reports each.
    logging.disable(logging.CRITICAL)
    asyncio.run(run(sys.argv[1]))
