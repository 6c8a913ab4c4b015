"""Drives the QQ fake through botpy's clients of the gateway and of messages.

usage: check_qq_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import logging
import queue
import sys
from urllib.parse import urlsplit

import aiohttp
import botpy
from botpy import gateway, http, robot
from botpy.errors import AuthenticationFailedError, SequenceNumberError, ServerError

from fake_process import FakeProcess, refused

GROUP = "6062000000000000000000000000C0DE"
CHANNEL = "4200000000000000001"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
TOKEN_URL = "https://bots.qq.com/app/getAppAccessToken"


class Fake(FakeProcess):
    def __init__(self, binary):
        super().__init__(binary)
        where = urlsplit(self.where["base_url"])
        http.Route.SCHEME, http.Route.DOMAIN = where.scheme, where.netloc
        token_url = self.where["token_url"]

        original_post = aiohttp.ClientSession.post

        def post(session, url, **options):
            # The host of tokens is part of the client's code: requests to it are redirected.
            return original_post(session, token_url if url == TOKEN_URL else url, **options)

        aiohttp.ClientSession.post = post
        # The client's own forms need an older aiohttp; they differ from its forms in retries only.
        http._FormData = aiohttp.FormData
        # The client's interval of heartbeats is part of its code, too.
        original = gateway.BotWebSocket._send_heart
        gateway.BotWebSocket._send_heart = lambda client, interval: original(client, 0.1)

    def set(self, **settings):
        self.order(set=settings)

    async def wait(self, **order):
        """Waits for the client, which runs meanwhile."""
        return await asyncio.to_thread(self.order, **order)

    def report(self):
        return self.order(sent=True)

    def sent(self):
        return self.report()["sent"]


class Events(botpy.Client):
    """A client that collects events."""

    def __init__(self, **options):
        wanted = "public_messages direct_message public_guild_messages".split()
        intents = botpy.Intents(**dict.fromkeys(wanted, True))
        super().__init__(intents=intents, bot_log=None, **options)
        self.received = queue.Queue()
        names = "c2c_message_create group_at_message_create direct_message_create at_message_create"
        for name in (names + " friend_add group_add_robot").split():
            setattr(self, "on_" + name, self.collector(name))

    def collector(self, name):
        async def collect(event):
            self.received.put((name, event))

        return collect

    async def next(self, name):
        found, event = await asyncio.to_thread(self.received.get, timeout=30)
        assert found == name, f"{found} instead of {name}"
        return event


class Session:
    """A client of the gateway, and one for calls."""

    def __init__(self, fake):
        self.events = Events()
        app, secret = fake.where["app_id"], fake.where["client_secret"]
        self.http = http.BotHttp(timeout=10, app_id=app, secret=secret)
        self.api = botpy.BotAPI(http=self.http)
        start = self.events.start(app, secret)
        self.running = asyncio.create_task(start)


async def check_credentials(fake, session):
    wrong = robot.Token(fake.where["app_id"], "wrong")
    await refused(wrong.update_access_token(), RuntimeError, "100016")
    first = robot.Token(fake.where["app_id"], fake.where["client_secret"])
    await first.update_access_token()
    again = robot.Token(fake.where["app_id"], fake.where["client_secret"])
    await again.update_access_token()
    assert again.access_token == first.access_token
    me = await session.api.me()
    assert (me["id"], me["username"]) == (fake.where["bot"], "nanobot")
    address = await session.api.get_ws_url()
    limit = address["session_start_limit"]
    assert (address["shards"], limit["remaining"], limit["max_concurrency"]) == (1, 999, 1)
    fake.set(advance=7150)
    await again.update_access_token()
    assert again.access_token != first.access_token
    fake.set(revoke=True)
    await refused(session.api.me(), AuthenticationFailedError, "token not exist or expire")
    session.http._token.access_token = None
    assert (await session.api.me())["id"] == fake.where["bot"]


async def check_events(fake, session):
    events = session.events
    pushed = fake.order(text="hello", file="words")
    message = await events.next("c2c_message_create")
    assert (message.id, message.content) == (pushed["message"], "hello")
    assert message.author.user_openid == fake.where["openid"]
    assert message.event_id.startswith("C2C_MESSAGE_CREATE:")
    (file,) = message.attachments
    assert (file.filename, file.content_type, file.size) == ("a file.txt", "file", 5)
    async with aiohttp.ClientSession() as plain, plain.get(file.url) as response:
        assert await response.text() == "words"
    await fake.wait(acknowledged=pushed["number"])
    fake.order(text="not for the bot", group=GROUP)
    pushed = fake.order(text="hi", group=GROUP, mention=True, quote=pushed["message"])
    message = await events.next("group_at_message_create")
    assert (message.content, message.group_openid) == (" hi", GROUP)
    assert message.author.member_openid == fake.where["openid"]
    assert message.message_reference.message_id is not None
    fake.order(text="hi", dms=True)
    message = await events.next("direct_message_create")
    assert (message.guild_id, message.author.username) == (fake.where["dms"], "Ann")
    assert message.direct_message and message.src_guild_id != message.guild_id
    fake.order(text="hi", channel=CHANNEL, mention=True)
    message = await events.next("at_message_create")
    assert (message.channel_id, message.author.id) == (CHANNEL, fake.where["user_id"])
    assert message.content == f"<@!{fake.where['bot']}> hi" and message.mentions[0].bot
    fake.order(event="FRIEND_ADD", data={"openid": "A", "timestamp": 1})
    assert (await events.next("friend_add")).openid == "A"
    fake.order(event="GROUP_ADD_ROBOT", data={"group_openid": GROUP, "op_member_openid": "B"})
    assert (await events.next("group_add_robot")).op_member_openid == "B"


async def check_messages(fake, session):
    openid = fake.where["openid"]
    fake.order(text="reply to this")
    message = await session.events.next("c2c_message_create")
    message._api = session.api
    answer = await message.reply(content="a reply", msg_seq=1)
    (sent,) = fake.sent()
    assert (sent["id"], sent["text"], sent["chat"]) == (answer["id"], "a reply", openid)
    assert (sent["reply"], sent["seq"], sent["type"]) == (message.id, 1, 0)
    await refused(message.reply(content="again", msg_seq=1), ServerError, "消息被去重")
    await message.reply(msg_type=2, markdown={"content": "**a** reply"}, msg_seq=2)
    assert (fake.sent()[-1]["text"], fake.sent()[-1]["type"]) == ("**a** reply", 2)
    for place, upload, send in (
        ({"openid": openid}, session.api.post_c2c_file, session.api.post_c2c_message),
        ({"group_openid": GROUP}, session.api.post_group_file, session.api.post_group_message),
    ):
        media = await upload(file_type=1, url="https://a.example/b.png", **place)
        await send(msg_type=7, media=media, **place)
        sent = fake.sent()[-1]
        assert (sent["type"], sent["files"][0]["url"]) == (7, "https://a.example/b.png")
        assert sent["chat"] in place.values() and sent["reply"] is None
    for seq in (3, 4):
        await message.reply(content="more", msg_seq=seq)
    too_many = message.reply(content="too many", msg_seq=5)
    await refused(too_many, ServerError, "被动回复时间或次数超限")
    fake.set(limit_active=1)
    active = session.api.post_group_message(GROUP, content="too many")
    await refused(active, ServerError, "主动消息超过频控")
    fake.order(fault="user.send")
    limited = session.api.post_c2c_message(openid, content="x")
    await refused(limited, SequenceNumberError, "消息发送超频")
    fake.order(text="later")
    message = await session.events.next("c2c_message_create")
    message._api = session.api
    fake.set(advance=3601)
    session.http._token.access_token = None
    await refused(message.reply(content="too late"), ServerError, "msg_id已过期")
    fake.set(limit_active=100)


async def check_guilds(fake, session):
    dms = fake.where["dms"]
    fake.order(text="hi", dms=True)
    message = await session.events.next("direct_message_create")
    message._api = session.api
    await message.reply(content="a reply")
    answer = await message.reply(content="a picture", file_image=PNG)
    sent = fake.sent()[-1]
    assert (sent["id"], sent["chat"], sent["text"]) == (answer["id"], dms, "a picture")
    assert sent["files"][0]["size"] == len(PNG) and sent["reply"] == message.id
    fake.order(text="hi", channel=CHANNEL, mention=True)
    message = await session.events.next("at_message_create")
    message._api = session.api
    await message.reply(content="here")
    assert [sent["chat"] for sent in fake.sent()[-3:]] == [dms, dms, CHANNEL]
    fake.set(refuse_urls=True)
    await refused(message.reply(content="https://a.example"), ServerError, "url")
    fake.set(refuse_urls=False)


async def check_sessions(fake, session):
    events = session.events
    # After the end of a connection the client resumes, and gets what it missed.
    resumes = 0
    for end in ({"close": 4009}, {"cut": True}):
        fake.set(**end)
        pushed = fake.order(text=f"after {end}")
        resumes += 1
        await fake.wait(resumes=resumes)
        assert (await events.next("c2c_message_create")).content == f"after {end}"
        await fake.wait(acknowledged=pushed["number"])
    # botpy waits for the end of the connection after opcode 7, and resumes then.
    fake.set(reconnect=True)
    fake.set(cut=True)
    pushed = fake.order(text="after opcode 7")
    await fake.wait(resumes=resumes + 1)
    assert (await events.next("c2c_message_create")).id == pushed["message"]
    assert fake.report()["identifies"] == 1
    # A session that is no longer known begins anew; what was pushed meanwhile is lost.
    fake.set(invalidate=True)
    fake.set(cut=True)
    await fake.wait(identifies=2)
    pushed = fake.order(text="in a new session")
    assert (await events.next("c2c_message_create")).id == pushed["message"]
    fake.set(close=4006)
    # It tries to resume, learns that it cannot, and identifies.
    await fake.wait(identifies=3)
    fake.order(repeat=pushed["number"])
    assert (await events.next("c2c_message_create")).id == pushed["message"]
    await fake.wait(heartbeats=1)


async def check_refusals(fake, session):
    """Sends what no client should send."""
    openid, api = fake.where["openid"], session.api
    assert fake.report()["complaints"] == []
    fake.set(limit_text=10)
    wrong = [
        ({"content": ""}, "消息为空"),
        ({"content": "x" * 11}, "消息长度超限"),
        ({"msg_type": 2, "content": "x"}, "消息类型与内容不匹配"),
        ({"msg_type": 3, "ark": {}}, "消息类型无效"),
        ({"msg_type": "0", "content": "x"}, "请求参数错误"),
    ]
    for options, words in wrong:
        await refused(api.post_c2c_message(openid, **options), ServerError, words)
    assert len(fake.report()["complaints"]) == len(wrong)
    await refused(api.post_c2c_message("NOBODY", content="x"), ServerError, "无好友关系")
    await refused(api.post_group_file(GROUP, 9, "https://a.example"), ServerError, "file_type")
    unknown = api.post_c2c_message(openid, content="x", msg_id="ROBOT1.0_unknown")
    await refused(unknown, ServerError, "msg_id无效")


async def run(fake):
    fake.order(text="creates the group", group=GROUP)
    session = Session(fake)
    await fake.wait(ready=1)
    checks = [
        check_credentials,
        check_events,
        check_messages,
        check_guilds,
        check_sessions,
        check_refusals,
    ]
    for check in checks:
        await check(fake, session)
        print("ok", check.__name__)
    session.running.cancel()
    await session.http.close()
    await session.events.close()


def main(binary):
    # Refusals are expected, and the client reports each.
    logging.disable(logging.CRITICAL)
    fake = Fake(binary)
    asyncio.run(run(fake))
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
