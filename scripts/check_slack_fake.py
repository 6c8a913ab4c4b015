"""Drives the Slack fake through slack-sdk's web and Socket Mode clients, and checks both sides.

usage: check_slack_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import sys

from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import RawTextObject, RichTextBlock, RichTextElementParts, RichTextSectionElement, SectionBlock, TableBlock
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from fake_process import FakeProcess

ROOM = "C0ROOM"
DIRECT = "D0ANN"


class Fake(FakeProcess):
    def web(self, token=None):
        return AsyncWebClient(token=token or self.where["bot_token"], base_url=self.where["api_base"] + "/")

    async def order(self, **order):
        # Some orders wait for actions of the clients in this process.
        return await asyncio.to_thread(super().order, **order)

    async def sent(self):
        return (await self.order(sent=True))["sent"]


async def refused(call, code):
    """Expects a call to fail with that error code."""
    try:
        await call
    except SlackApiError as problem:
        assert problem.response["error"] == code, f"{problem.response['error']} is not {code}"
        return problem
    raise AssertionError(f"expected {code}")


class Socket:
    """A Socket Mode client that collects requests, and acknowledges unless disabled."""

    def __init__(self, fake):
        self.requests = asyncio.Queue()
        self.acknowledges = True
        web = fake.web()
        self.client = SocketModeClient(app_token=fake.where["app_token"], web_client=web)
        self.client.socket_mode_request_listeners.append(self.take)

    async def take(self, client, request):
        if self.acknowledges:
            await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        await self.requests.put(request)

    async def next(self):
        return await asyncio.wait_for(self.requests.get(), 30)


async def check_identity(fake, web):
    me = await web.auth_test()
    assert (me["user_id"], me["team_id"], me["user"]) == ("U0BOT", "T0TEAM", "nanobot")
    await refused(fake.web("xoxb-wrong").auth_test(), "invalid_auth")
    await refused(web.apps_connections_open(app_token=fake.where["bot_token"]), "not_allowed_token_type")
    await refused(fake.web(fake.where["app_token"]).auth_test(), "not_allowed_token_type")


async def check_events(fake, web):
    socket = Socket(fake)
    await socket.client.connect()
    hello = await fake.order(text="hello")
    await web.reactions_add(channel=DIRECT, timestamp=hello["ts"], name="eyes")
    assert (await fake.order(reactions=hello["ts"], channel=DIRECT))["reactions"] == ["eyes"]
    request = await socket.next()
    event = request.payload["event"]
    assert (request.type, event["type"], event["channel_type"]) == ("events_api", "message", "im")
    assert (event["text"], event["user"], event["ts"], event["channel"]) == ("hello", "U0ANN", hello["ts"], DIRECT)
    await fake.order(acknowledged=hello["number"])
    mention = await fake.order(text="<@U0BOT> hi", channel=ROOM)
    events = [(await socket.next()).payload["event"] for _ in range(2)]
    assert [event["type"] for event in events] == ["app_mention", "message"]
    assert "channel_type" not in events[0] and events[0]["ts"] == events[1]["ts"] == mention["ts"]
    answer = await fake.order(text="in the thread", channel=ROOM, thread=mention["ts"])
    event = (await socket.next()).payload["event"]
    assert (event["thread_ts"], event["parent_user_id"]) == (mention["ts"], "U0ANN")
    await fake.order(acknowledged=answer["number"])
    # An unacknowledged request is sent again, in another envelope.
    socket.acknowledges = False
    lost = await fake.order(text="lost")
    first = await socket.next()
    socket.acknowledges = True
    second = await socket.next()
    assert first.envelope_id != second.envelope_id
    assert (first.payload["event_id"], first.retry_attempt) == (second.payload["event_id"], 0)
    assert (second.retry_attempt, second.retry_reason) == (1, "timeout")
    await fake.order(acknowledged=lost["number"])
    slash = await fake.order(slash="/nanobot", channel=ROOM, text="new")
    request = await socket.next()
    assert (request.type, request.accepts_response_payload) == ("slash_commands", True)
    assert (request.payload["command"], request.payload["text"]) == ("/nanobot", "new")
    await fake.order(acknowledged=slash["number"])
    # After a disconnect request the client reconnects by itself, and gets the messages sent
    # meanwhile.
    await fake.order(disconnect="refresh_requested")
    await fake.order(text="after the farewell")
    assert (await socket.next()).payload["event"]["text"] == "after the farewell"
    assert (await fake.order(sent=True))["connections"] >= 2
    await socket.client.close()


async def check_messages(fake, web):
    posted = await web.chat_postMessage(
        channel=ROOM, text="*one*", metadata={"event_type": "part", "event_payload": {"key": "k"}}
    )
    ts = posted["ts"]
    assert (posted["channel"], posted["message"]["text"]) == (ROOM, "*one*")
    assert (await web.chat_update(channel=ROOM, ts=ts, text="two"))["text"] == "two"
    await web.chat_postMessage(channel=ROOM, text="below", thread_ts=ts)
    replies = await web.conversations_replies(channel=ROOM, ts=ts, include_all_metadata=True)
    assert [message["text"] for message in replies["messages"]] == ["two", "below"]
    assert replies["messages"][0]["metadata"]["event_payload"] == {"key": "k"}
    history = await web.conversations_history(channel=ROOM, limit=1)
    assert [message["text"] for message in history["messages"]] == ["two"]
    assert "metadata" not in history["messages"][0] and history["has_more"]
    root = history["messages"][0]
    assert (root["thread_ts"], root["reply_count"], root["latest_reply"]) == (ts, 1, replies["messages"][1]["ts"])
    assert replies["messages"][1]["parent_user_id"] == "U0BOT"
    # A message without an event is in the history all the same, after the earlier ones.
    untold = await fake.order(text="nobody is told", channel=ROOM, untold=True)
    answer = await fake.order(text="of this neither", channel=ROOM, thread=ts, untold=True, file="content")
    later = await web.conversations_history(channel=ROOM, oldest=ts, limit=200)
    assert [(message["ts"], message["user"]) for message in later["messages"]] == [(untold["ts"], "U0ANN")]
    later = await web.conversations_replies(channel=ROOM, ts=ts, oldest=replies["messages"][1]["ts"])
    assert [message["ts"] for message in later["messages"]] == [ts, answer["ts"]]
    assert (later["messages"][1]["subtype"], later["messages"][1]["files"][0]["size"]) == ("file_share", 7)
    await web.reactions_add(channel=ROOM, timestamp=ts, name="eyes")
    await refused(web.reactions_add(channel=ROOM, timestamp=ts, name="eyes"), "already_reacted")
    await web.reactions_remove(channel=ROOM, timestamp=ts, name="eyes")
    await refused(web.reactions_remove(channel=ROOM, timestamp=ts, name="eyes"), "no_reaction")
    await web.reactions_add(channel=ROOM, timestamp=ts, name="white_check_mark")
    await refused(web.chat_postMessage(channel="C0NOWHERE", text="x"), "channel_not_found")
    await refused(web.chat_postMessage(channel=ROOM, text="x" * 40001), "msg_too_long")
    await refused(web.chat_update(channel=ROOM, ts="1.1", text="x"), "message_not_found")
    await refused(web.chat_postMessage(channel=ROOM, text="x", thread_ts="1.1"), "thread_not_found")
    opened = await web.conversations_open(users="U0ANN")
    assert opened["channel"]["id"] == DIRECT
    channels = (await web.conversations_list(types="public_channel"))["channels"]
    assert [channel["id"] for channel in channels] == [ROOM]
    people = (await web.users_list())["members"]
    assert [(person["id"], person["profile"]["display_name"]) for person in people] == [("U0ANN", "ann")]
    first, below = await fake.sent()
    assert (first["text"], first["history"], first["reactions"]) == ("two", ["*one*"], ["white_check_mark"])
    assert below["thread"] == ts
    await web.chat_delete(channel=ROOM, ts=below["ts"])
    assert (await fake.sent())[1]["deleted"]


async def check_files(fake, web):
    await web.files_upload_v2(channel=ROOM, filename="a.txt", content="text", title="a.txt")
    last = (await fake.sent())[-1]
    assert (last["channel"], last["file"]) == (ROOM, {"name": "a.txt", "size": 4})
    socket = Socket(fake)
    await socket.client.connect()
    await fake.order(text="a file", file="content")
    (file,) = (await socket.next()).payload["event"]["files"]
    assert (file["name"], file["mimetype"], file["size"]) == ("f.txt", "text/plain", 7)
    session = socket.client.aiohttp_client_session
    for headers, content in [({"Authorization": f"Bearer {web.token}"}, "content"), ({}, "<!DOCTYPE html><p>Log in</p>")]:
        async with session.get(file["url_private_download"], headers=headers) as response:
            assert await response.text() == content
    await socket.client.close()


async def check_buttons(fake, web):
    button = {"type": "button", "action_id": "choice-1", "value": "y", "text": {"type": "plain_text", "text": "Yes"}}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "*really?*"}}
    blocks = [section, {"type": "actions", "elements": [button]}]
    question = await web.chat_postMessage(channel=ROOM, text="really?", blocks=blocks)
    socket = Socket(fake)
    await socket.client.connect()
    pressed = await fake.order(press=question["ts"], channel=ROOM, value="y")
    request = await socket.next()
    assert (request.type, request.payload["type"]) == ("interactive", "block_actions")
    (action,) = request.payload["actions"]
    assert (action["value"], request.payload["user"]["id"]) == ("y", "U0ANN")
    assert request.payload["message"]["blocks"] == blocks
    await fake.order(acknowledged=pressed["number"])
    await socket.client.close()


async def check_tables(fake, web):
    cell = RawTextObject(text="x")
    settings = [{"align": "right", "is_wrapped": True}]
    rich = RichTextBlock(elements=[RichTextSectionElement(elements=[RichTextElementParts.Text(text="x")])])
    table = TableBlock(rows=[[cell.to_dict()], [rich.to_dict()]], column_settings=settings)
    section = SectionBlock(text="*look*")
    posted = await web.chat_postMessage(channel=ROOM, text="x", blocks=[section, table])
    assert (await fake.sent())[-1]["blocks"] == [section.to_dict(), table.to_dict()]
    await web.chat_update(channel=ROOM, ts=posted["ts"], text="x", blocks=[table])
    assert [block["type"] for block in (await fake.sent())[-1]["blocks"]] == ["table"]


async def check_faults(fake, web):
    await fake.order(fault="chat.postMessage", retry_after=3)
    problem = await refused(web.chat_postMessage(channel=ROOM, text="x"), "ratelimited")
    assert (problem.response.status_code, problem.response.headers["Retry-After"]) == (429, "3")
    await fake.order(fault="chat.postMessage", error="internal_error")
    await refused(web.chat_postMessage(channel=ROOM, text="x"), "internal_error")
    assert (await fake.order(sent=True))["complaints"] == []
    # From here on: requests that no client should send.
    twice = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]
    await refused(web.chat_postMessage(channel=ROOM, text="x", blocks=twice), "invalid_blocks")
    await refused(web.chat_postMessage(channel=ROOM, text="x", no_such="argument"), "invalid_arguments")
    await refused(web.api_call("conversations.history", json={"channel": ROOM}), "invalid_arguments")
    await refused(web.api_call("chat.shout"), "unknown_method")
    cell = {"type": "raw_text", "text": "x"}
    table = {"type": "table", "rows": [[cell]]}
    await refused(web.chat_postMessage(channel=ROOM, text="x", blocks=[table, table]), "invalid_attachments")
    empty = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": []}]}
    wrong = [[[empty]], [[cell]] * 101, [[cell] * 21], [[{**cell, "text": ""}]], [[{**cell, "text": "x" * 5001}] * 2]]
    for rows in wrong:
        await refused(web.chat_postMessage(channel=ROOM, text="x", blocks=[{**table, "rows": rows}]), "invalid_blocks")
    assert len((await fake.order(sent=True))["complaints"]) == 10


async def main(binary):
    fake = Fake(binary)
    web = fake.web()
    for check in (check_identity, check_events, check_messages, check_files, check_buttons, check_tables, check_faults):
        await check(fake, web)
        print("ok", check.__name__)
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    asyncio.run(main(sys.argv[1]))
