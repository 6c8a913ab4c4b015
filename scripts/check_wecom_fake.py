"""Drives the WeCom fake through the client of wecom-aibot-sdk-python: messages, files and replies.

usage: check_wecom_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import logging
import os
import sys
import tempfile

import aiohttp
from wecom_aibot_sdk import WSClient
from wecom_aibot_sdk.types import TemplateCard, WSClientOptions
from wecom_aibot_sdk.types.message import CardButton, CardTitle

from fake_process import FakeProcess, refused

GROUP = "wrGroup1"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
CHUNK = 512 * 1024
# Parameters that the client adds to the documented ones.
UPLOAD_EXTRAS = {
    "aibot_upload_media_chunk: unknown parameter total_chunks",
    "aibot_upload_media_finish: unknown parameter filename",
    "aibot_upload_media_finish: unknown parameter media_type",
}


class Fake(FakeProcess):
    def set(self, **settings):
        self.order(set=settings)

    def report(self):
        return self.order(sent=True)

    def last(self):
        return self.report()["sent"][-1]


class Quiet:
    """A logger that collects errors."""

    def __init__(self):
        self.errors = []

    def debug(self, message, *args):
        pass

    info = warn = debug

    def error(self, message, *args):
        self.errors.append(message)


class Session:
    """A client, its messages and its news."""

    def __init__(self, fake, secret=None, **options):
        self.logger = Quiet()
        self.client = WSClient(
            WSClientOptions(
                bot_id=fake.where["bot_id"],
                secret=secret or fake.where["secret"],
                ws_url=fake.where["ws_url"],
                logger=self.logger,
                reconnect_interval=10,
                **options,
            )
        )
        self.received, self.news = asyncio.Queue(), asyncio.Queue()
        for event in ("message", "event"):
            self.client.on(event, self.received.put)
        for event in ("authenticated", "disconnected"):
            self.client.on(event, self.collector(event))

    def collector(self, event):
        async def collect(_):
            await self.news.put(event)

        return collect

    async def start(self):
        await self.client.connect_async()
        assert await self.next_news() == "authenticated"
        return self

    async def next(self):
        return await asyncio.wait_for(self.received.get(), 30)

    async def next_news(self):
        return await asyncio.wait_for(self.news.get(), 30)


async def check_subscription(fake):
    wrong = Session(fake, "wrong")
    await wrong.client.connect_async()
    while not wrong.logger.errors:
        await asyncio.sleep(0.01)
    assert "invalid bot_id or secret" in wrong.logger.errors[0], wrong.logger.errors
    assert not wrong.client.is_authenticated
    await wrong.client.disconnect()
    beating = await Session(fake, heartbeat_interval=50).start()
    calls = await asyncio.to_thread(fake.order, calls="ping", count=3)
    assert all(call["body"] is None for call in calls["calls"])
    await beating.client.disconnect()


async def check_messages(fake, session):
    hello = fake.order(text="hello")
    frame = await session.next()
    assert (frame.headers["req_id"], frame.body["msgid"]) == (hello["req_id"], hello["message"])
    assert frame.body["text"] == {"content": "hello"} and frame.body["chattype"] == "single"
    assert frame.body["from"] == {"userid": fake.where["ann"]} and "chatid" not in frame.body
    fake.order(text="not for the bot", chat=GROUP)
    fake.order(text="hi", chat=GROUP, mention=True)
    frame = await session.next()
    assert (frame.body["chattype"], frame.body["chatid"]) == ("group", GROUP)
    assert frame.body["text"] == {"content": "@nanobot hi"}
    fake.order(text="what?", quote=hello["message"])
    quote = (await session.next()).body["quote"]
    assert quote == {"msgtype": "text", "text": {"content": "hello"}}
    fake.order(voice="spoken")
    assert (await session.next()).body["voice"] == {"content": "spoken"}
    fake.order(kind="tomorrow", content={"x": 1})
    assert (await session.next()).body["tomorrow"] == {"x": 1}
    fake.order(repeat=hello["number"])
    assert (await session.next()).body["msgid"] == hello["message"]


async def check_files(fake, session):
    async def content_of(file):
        return await session.client.download_file(file["url"], file["aeskey"])

    # Contents whose padding is one byte, a whole block, and several blocks away.
    for content in ("x" * 31, "x" * 32, "words" * 1000):
        fake.order(file=content, name="报告 1;\"2\".txt")
        file = (await session.next()).body["file"]
        assert await content_of(file) == (content.encode(), "报告 1;\"2\".txt")
    fake.order(image="a picture", name="a.png")
    assert await content_of((await session.next()).body["image"]) == (b"a picture", "a.png")
    fake.order(video="moves", name="a.mp4")
    assert await content_of((await session.next()).body["video"]) == (b"moves", "a.mp4")
    fake.order(text="look", mixed="another", name="b.png")
    text, image = (await session.next()).body["mixed"]["msg_item"]
    assert (text["text"], image["msgtype"]) == ({"content": "look"}, "image")
    assert await content_of(image["image"]) == (b"another", "b.png")
    other = {**file, "aeskey": image["image"]["aeskey"]}
    await refused(content_of(other), ValueError, "decrypt")
    fake.set(advance=300)
    await refused(content_of(file), aiohttp.ClientResponseError, "403")


async def check_replies(fake, session):
    fake.order(text="reply to this")
    frame = await session.next()
    client = session.client
    for text, finish in (("", False), ("grows", False), ("done", True), ("done", True)):
        answer = await client.reply_stream(frame, "stream_1", text, finish)
        assert (answer.errcode, answer.errmsg) == (0, "ok")
    shown = fake.last()
    assert (shown["text"], shown["history"], shown["streaming"]) == ("done", ["", "grows"], False)
    assert (shown["req_id"], shown["chat"]) == (frame.headers["req_id"], fake.where["ann"])
    # Several frames of one callback at once are sent in order.
    numbers = range(5)
    await asyncio.gather(*(client.reply_stream(frame, "stream_2", str(n), n == 4) for n in numbers))
    assert fake.last()["history"] == ["0", "1", "2", "3"]
    await client.reply_stream(frame, "stream_3", "old", False)
    fake.set(advance=360)
    late = client.reply_stream(frame, "stream_3", "too late", True)
    await refused(late, RuntimeError, "846608")
    body = {"msgtype": "markdown", "markdown": {"content": "**b**"}}
    await client.reply(frame, body)
    assert (fake.last()["kind"], fake.last()["text"]) == ("markdown", "**b**")
    fake.set(advance=86_400)
    await refused(client.reply(frame, body), RuntimeError, "846605")


async def check_sending(fake, session):
    client, ann = session.client, fake.where["ann"]
    body = {"msgtype": "markdown", "markdown": {"content": "**news**"}}
    await client.send_message(ann, body)
    shown = fake.last()
    assert (shown["command"], shown["text"], shown["chat"]) == ("aibot_send_msg", "**news**", ann)
    await client.send_message(GROUP, body)
    assert fake.last()["chat"] == GROUP
    fake.order(group="wrSilent", bot=True)
    for chat in ("nowhere", "wrSilent"):
        await refused(client.send_message(chat, body), RuntimeError, "93006")
    fake.order(fault="aibot_send_msg")
    await refused(client.send_message(ann, body), RuntimeError, "45009")
    fake.order(fault="aibot_send_msg", code=40201)
    await refused(client.send_message(ann, body), RuntimeError, "40201")


async def check_events(fake, session):
    client = session.client
    welcome = {"msgtype": "text", "text": {"content": "welcome"}}
    fake.order(enter=True)
    frame = await session.next()
    assert frame.body["event"] == {"eventtype": "enter_chat"}
    await client.reply_welcome(frame, welcome)
    assert (fake.last()["command"], fake.last()["text"]) == ("aibot_respond_welcome_msg", "welcome")
    fake.order(enter=True)
    late = await session.next()
    fake.set(advance=5)
    await refused(client.reply_welcome(late, welcome), RuntimeError, "846605")

    def card(title, task):
        buttons = [CardButton("Yes", "yes")]
        kind, title = "button_interaction", CardTitle(title)
        return TemplateCard(kind, title, button_list=buttons, task_id=task)

    fake.order(text="a card, please")
    await client.reply_template_card(await session.next(), card("Choose", "task_1"))
    shown = fake.last()
    assert (shown["kind"], shown["text"]) == ("template_card", "Choose")
    fake.order(press=shown["key"], button="yes")
    frame = await session.next()
    pressed = frame.body["event"]["template_card_event"]
    assert (pressed["event_key"], pressed["task_id"]) == ("yes", "task_1")
    await client.update_template_card(frame, card("Chosen", "task_1"), [fake.where["ann"]])
    assert fake.last()["text"] == "Chosen"
    fake.order(rate="feedback_1")
    event = (await session.next()).body["event"]
    assert (event["eventtype"], event["feedback_event"]["id"]) == ("feedback_event", "feedback_1")


async def check_uploads(fake, session):
    assert fake.report()["complaints"] == []
    client, ann = session.client, fake.where["ann"]
    with tempfile.TemporaryDirectory() as folder:

        def file(name, content):
            path = os.path.join(folder, name)
            with open(path, "wb") as target:
                target.write(content)
            return path

        await client.send_media_message(ann, file("a.bin", b"x" * (2 * CHUNK + 7)))
        expected = [{"name": "a.bin", "kind": "file", "size": 2 * CHUNK + 7}]
        assert (fake.last()["kind"], fake.last()["files"]) == ("file", expected)
        calls = fake.order(calls="aibot_upload_media_chunk", count=3)["calls"]
        assert [call["body"]["chunk_index"] for call in calls] == [0, 1, 2]
        fake.order(text="a picture, please")
        frame = await session.next()
        await client.reply_media(frame, file("a.png", PNG))
        assert fake.last()["files"] == [{"name": "a.png", "kind": "image", "size": len(PNG)}]
        media = (await client.upload_media(file("a.txt", b"words"))).media_id
        body = {"msgtype": "file", "file": {"media_id": media}}
        fake.set(advance=259_200)
        await refused(client.send_message(ann, body), RuntimeError, "40007")
        assert set(fake.report()["complaints"]) == UPLOAD_EXTRAS
        await refused(client.upload_media(file("b.txt", b"few")), RuntimeError, "40006")
        await refused(client.upload_media(file("b.png", b"no picture")), RuntimeError, "40005")


async def check_refusals(fake, session):
    """Sends what no client should send."""
    client, ann = session.client, fake.where["ann"]
    fake.order(text="go on")
    frame = await session.next()
    unknown = {"req_id": "unknown"}
    await client.reply_stream(frame, "stream_9", "done", True)
    fake.order(enter=True)
    event = await session.next()
    before = len(fake.report()["complaints"])
    markdown = {"msgtype": "markdown", "markdown": {"content": "x"}}
    wrong = [
        (client.reply_stream(unknown, "stream_1", "x", True), "846605"),
        (client.reply_stream(frame, "stream_9", "more", True), "40058"),
        (client.reply_stream(frame, "stream_8", "x" * 20_481, True), "40058"),
        (client.reply_welcome(frame, {"msgtype": "text", "text": {"content": "x"}}), "846605"),
        (client.reply_stream(event, "stream_1", "x", True), "846605"),
        (client.send_message("", markdown), "86201"),
        (client.send_message(ann, {"msgtype": "text"}), "40008"),
        (client.send_message(ann, {**markdown, "chat_type": 2}), "93006"),
        (client.reply(frame, markdown, "aibot_respond_fax"), "40058"),
    ]
    for call, code in wrong:
        await refused(call, RuntimeError, code)
    # The answer to an unreadable frame has no req_id, so the client does not recognise it.
    unreadable = {"msgtype": "image", "image": {"url": "http://x/"}}
    await refused(client.send_message(ann, unreadable), TimeoutError, "ack timeout")
    assert "missing field `body.image.media_id`" in fake.report()["complaints"][-1]
    assert len(fake.report()["complaints"]) == before + len(wrong) + 1
    await client.send_message(ann, {**markdown, "tomorrow": True})
    assert fake.report()["complaints"][-1] == "aibot_send_msg: unknown parameter tomorrow"


async def check_connections(fake, session):
    # The client comes back after the end of a connection.
    for end in ("cut", "close"):
        before = fake.report()["subscriptions"]
        fake.set(**{end: True})
        await asyncio.to_thread(fake.order, subscriptions=before + 1)
        assert await session.next_news() == "disconnected"
        assert await session.next_news() == "authenticated"
        fake.order(text=f"after {end}")
        assert (await session.next()).body["text"] == {"content": f"after {end}"}
    # A connection without a subscription is refused.
    fake.set(forget=True)
    body = {"msgtype": "markdown", "markdown": {"content": "x"}}
    await refused(session.client.send_message(fake.where["ann"], body), RuntimeError, "846609")
    fake.set(cut=True)
    assert await session.next_news() == "disconnected"
    assert await session.next_news() == "authenticated"
    # A second client takes over, and the first one stays away.
    rival = await Session(fake).start()
    event = (await session.next()).body["event"]
    assert event == {"eventtype": "disconnected_event"}
    assert await session.next_news() == "disconnected"
    fake.order(text="to the rival")
    assert (await rival.next()).body["text"] == {"content": "to the rival"}
    await asyncio.to_thread(fake.order, open=1)
    assert session.received.empty()
    # Messages without a connection are lost, unless they are kept.
    for keep in (False, True):
        await rival.client.disconnect()
        await asyncio.to_thread(fake.order, open=0)
        if keep:
            fake.set(keep=True)
        fake.order(text="missed")
        rival = await Session(fake).start()
        if not keep:
            fake.order(text="next")
        expected = "missed" if keep else "next"
        assert (await rival.next()).body["text"] == {"content": expected}
    await rival.client.disconnect()


async def run(binary):
    fake = Fake(binary)
    await check_subscription(fake)
    print("ok", check_subscription.__name__)
    session = await Session(fake).start()
    checks = [
        check_messages,
        check_files,
        check_replies,
        check_sending,
        check_events,
        check_uploads,
        check_refusals,
        check_connections,
    ]
    for check in checks:
        await check(fake, session)
        print("ok", check.__name__)
    await session.client.disconnect()
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    # Refusals are expected, and the client reports each.
    logging.disable(logging.CRITICAL)
    asyncio.run(run(sys.argv[1]))
