"""Drives the Telegram fake through python-telegram-bot and checks both sides' observations.

usage: check_telegram_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import io
import socket
import sys

from telegram import (
    Bot,
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputMediaPhoto,
    InputMediaVideo,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.ext import Updater

from fake_process import FakeProcess, refused

PERSON = 7
GROUP = -1001234567890
OLD_GROUP = -42
CHANNEL = -1009876543210


class Fake(FakeProcess):
    def bot(self, token=None):
        base = self.where["api_base"]
        return Bot(token or self.where["token"], base_url=f"{base}/bot", base_file_url=f"{base}/file/bot")

    def sent(self):
        return self.order(sent=True)["sent"]


async def check_start(fake, bot):
    assert bot.username == "nanobot_test_bot"
    assert (await bot.get_webhook_info()).url == ""
    assert await bot.delete_webhook(drop_pending_updates=False)
    commands = (BotCommand("new", "A new conversation"),)
    assert await bot.set_my_commands(commands)
    assert await bot.get_my_commands() == commands
    await refused(bot.set_my_commands([("Bad-Name", "x")]), BadRequest, "BOT_COMMAND_INVALID")


async def check_updates(fake, bot):
    hello = fake.order(text="hello @nanobot_test_bot")
    fake.order(text="in a topic", chat=GROUP, topic=5)
    fake.order(text="a picture", photo="JPEG", reply_to=hello["message"])
    fake.order(edit=hello["message"], text="hello again")
    updates = await bot.get_updates(timeout=0)
    message, topic, photo, edited = updates
    assert message.message.parse_entities() == {message.message.entities[0]: "@nanobot_test_bot"}
    assert (topic.message.message_thread_id, topic.message.chat.is_forum) == (5, True)
    assert photo.message.caption == "a picture"
    assert photo.message.reply_to_message.text == "hello @nanobot_test_bot"
    assert edited.edited_message.text == "hello again"
    picture = await photo.message.photo[-1].get_file()
    assert bytes(await picture.download_as_bytearray()) == b"JPEG"
    assert await bot.get_updates(timeout=0) == updates, "nothing was confirmed yet"
    assert await bot.get_updates(offset=edited.update_id, timeout=0) == (edited,)
    assert await bot.get_updates(offset=edited.update_id + 1, timeout=0) == ()
    assert fake.order(sent=True)["acknowledged"] == edited.update_id + 1
    poll = asyncio.create_task(bot.get_updates(offset=edited.update_id + 1, timeout=10))
    await asyncio.sleep(0.2)
    fake.order(text="late")
    (late,) = await poll
    assert late.message.text == "late"
    poll = asyncio.create_task(bot.get_updates(offset=late.update_id + 1, timeout=10))
    await asyncio.sleep(0.2)
    async with fake.bot() as second:
        assert await second.get_updates(offset=late.update_id + 1, timeout=0) == ()
    await refused(poll, Conflict, "terminated by other getUpdates")


async def check_messages(fake, bot):
    sent = await bot.send_message(
        GROUP, "<b>one</b> &lt;", parse_mode="HTML", message_thread_id=5, reply_parameters=ReplyParameters(1)
    )
    assert (sent.text, sent.entities[0].type, sent.message_thread_id) == ("one <", "bold", 5)
    assert (await bot.edit_message_text("two", GROUP, sent.message_id)).text == "two"
    await refused(bot.edit_message_text("two", GROUP, sent.message_id), BadRequest, "message is not modified")
    await refused(bot.send_message(PERSON, "<b>x", parse_mode="HTML"), BadRequest, "can't parse entities")
    await refused(bot.send_message(PERSON, "a<br>b", parse_mode="HTML"), BadRequest, 'unsupported start tag "br"')
    await refused(bot.send_message(PERSON, "\U0001f600" * 2049), BadRequest, "too long")
    await refused(bot.send_message(PERSON, " "), BadRequest, "text is empty")
    await refused(bot.send_message(99, "x"), BadRequest, "chat not found")
    assert await bot.send_chat_action(PERSON, "typing")
    assert await bot.set_message_reaction(PERSON, 1, "\U0001f440")
    await bot.send_photo(PERSON, io.BytesIO(b"PNG"), caption="c", filename="p.png")
    await bot.send_document(PERSON, io.BytesIO(b"text"), filename="d.txt")
    await bot.send_voice(PERSON, io.BytesIO(b"ogg"), filename="v.ogg")
    await bot.send_audio(PERSON, io.BytesIO(b"mp3"), filename="a.mp3")
    first, *files = fake.sent()
    assert (first["text"], first["history"], first["thread"], first["reply_to"]) == ("two", ["one <"], 5, 1)
    seen = [(sent["file"]["kind"], sent["file"]["name"], sent["file"]["size"]) for sent in files]
    assert seen == [("photo", "p.png", 3), ("document", "d.txt", 4), ("voice", "v.ogg", 3), ("audio", "a.mp3", 3)], seen
    assert await bot.delete_message(GROUP, first["message"])
    assert fake.sent()[0]["deleted"]


async def check_albums(fake, bot):
    before = len(fake.sent())
    album = [InputMediaPhoto(b"PNG", filename="p.png"), InputMediaVideo(b"MP4", filename="v.mp4")]
    first, second = await bot.send_media_group(PERSON, album)
    assert first.media_group_id == second.media_group_id != None
    assert (first.photo[-1].file_size, second.video.file_name) == (3, "v.mp4")
    mixed = [InputMediaPhoto(b"PNG"), InputMediaDocument(b"text", filename="d.txt")]
    await refused(bot.send_media_group(PERSON, mixed), BadRequest, "can't mix")
    await bot.send_sticker(PERSON, io.BytesIO(b"TGS"))
    await bot.send_video_note(PERSON, io.BytesIO(b"MP4"))
    await bot.send_animation(PERSON, io.BytesIO(b"GIF"), filename="a.gif")
    await refused(bot.send_photo(PERSON, b"0" * (10 * 1024 * 1024 + 1)), BadRequest, "too big for a photo")
    kinds = [sent["file"]["kind"] for sent in fake.sent()[before:]]
    assert kinds == ["photo", "video", "sticker", "video_note", "animation"], kinds


async def check_drafts(fake, bot):
    shown = lambda: fake.order(sent=True)["drafts"]
    before = len(fake.sent())
    assert await bot.send_message_draft(PERSON, 1, "<b>once</b> upon", parse_mode="HTML") is True
    (draft,) = shown()
    assert (draft["draft"], draft["text"], draft["entities"][0]["type"]) == (1, "once upon", "bold"), draft
    marks = [MessageEntity(MessageEntity.ITALIC, 0, 4)]
    assert await bot.send_message_draft(PERSON, 1, "once upon a time", entities=marks)
    (draft,) = shown()
    assert (draft["text"], draft["entities"][0]["type"]) == ("once upon a time", "italic"), draft
    assert await bot.send_message_draft(PERSON, 2, "")
    assert [(draft["draft"], draft["text"]) for draft in shown()] == [(2, "")]
    await refused(bot.send_message_draft(GROUP, 1, "x"), BadRequest, "TEXTDRAFT_PEER_INVALID")
    await refused(bot.send_message_draft(PERSON, 0, "x"), BadRequest, "TEXTDRAFT_ID_INVALID")
    await refused(bot.send_message_draft(PERSON, 1, "\U0001f600" * 2049), BadRequest, "too long")
    await refused(bot.send_message_draft(PERSON, 1, "<b>x", parse_mode="HTML"), BadRequest, "can't parse entities")
    assert len(fake.sent()) == before, "a draft is no message"
    await bot.send_message(PERSON, "all of it")
    assert shown() == [], "the message replaces it"
    assert await bot.send_message_draft(PERSON, 3, "again")
    fake.order(advance=29)
    assert len(shown()) == 1
    fake.order(advance=1)
    assert shown() == [], "it has expired"


async def check_people(fake, bot):
    last = (await bot.get_updates(offset=-1, timeout=0))[0]
    fake.order(text="", note="MP4")
    fake.order(text="", sticker="WEBP")
    fake.order(text="from nobody", chat=GROUP, anonymous=True)
    fake.order(text="news", chat=CHANNEL, post=True)
    note, sticker, nobody, post = await bot.get_updates(offset=last.update_id + 1, timeout=0)
    assert note.message.video_note.length == 240
    assert (sticker.message.sticker.emoji, sticker.message.sticker.is_animated) == ("\U0001f44d", False)
    assert (nobody.message.sender_chat.id, nobody.message.from_user.is_bot) == (GROUP, True)
    assert (post.channel_post.sender_chat.type, post.channel_post.from_user) == ("channel", None)


async def check_chats(fake, bot):
    fake.order(close=5, chat=GROUP)
    await refused(bot.send_message(GROUP, "x", message_thread_id=5), BadRequest, "TOPIC_CLOSED")
    fake.order(text="hello", chat=OLD_GROUP)
    fake.order(migrate=OLD_GROUP, to=GROUP)
    moved = await refused(bot.send_message(OLD_GROUP, "x"), ChatMigrated, "")
    assert moved.new_chat_id == GROUP
    fake.order(block=PERSON)
    await refused(bot.send_message(PERSON, "x"), Forbidden, "bot was blocked by the user")


async def check_webhook(fake, bot):
    last = (await bot.get_updates(offset=-1, timeout=0))[0]
    assert await bot.get_updates(offset=last.update_id + 1, timeout=0) == ()
    await refused(bot.set_webhook("http://bot.test/"), BadRequest, "HTTPS URL must be provided")
    await refused(bot.set_webhook("https://bot.test:4711/"), BadRequest, "only on ports")
    # The socket stays bound, so that the system does not assign the port again. Linux lets the
    # updater listen there.
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port = reserved.getsockname()[1]
    updates = asyncio.Queue()
    fake.order(post_to=f"127.0.0.1:{port}")
    async with Updater(fake.bot(), updates) as updater:
        await updater.start_webhook(
            listen="127.0.0.1",
            port=port,
            url_path="hook",
            webhook_url="https://bot.test/hook",
            secret_token="s3cret-_",
            max_connections=1,
            allowed_updates=["message"],
        )
        fake.order(text="posted")
        fake.order(text="posted too")
        for text in ("posted", "posted too"):
            assert (await asyncio.wait_for(updates.get(), 30)).message.text == text
        info = await bot.get_webhook_info()
        assert (info.url, info.max_connections, info.allowed_updates) == ("https://bot.test/hook", 1, ("message",))
        await refused(bot.get_updates(timeout=0), Conflict, "webhook is active")
        await updater.stop()
    assert await bot.delete_webhook()
    assert await bot.get_updates(timeout=0) == ()


async def check_buttons(fake, bot):
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
    question = await bot.send_message(PERSON, "really?", reply_markup=keyboard)
    assert question.reply_markup == keyboard
    fake.order(press=question.message_id, data="y")
    query = (await bot.get_updates(offset=-1, timeout=0))[0].callback_query
    assert (query.data, query.message.text) == ("y", "really?")
    assert await query.answer()
    await refused(query.answer(), BadRequest, "query is too old")
    await query.edit_message_reply_markup(None)


async def check_faults(fake, bot):
    fake.order(fault="sendMessage", retry_after=3)
    problem = await refused(bot.send_message(PERSON, "x"), RetryAfter, "flood control")
    assert problem._retry_after.total_seconds() == 3
    fake.order(fault="sendMessage")
    await refused(bot.send_message(PERSON, "x"), NetworkError, "bad gateway")
    await refused(fake.bot("1:wrong").initialize(), InvalidToken, "")


async def main(binary):
    fake = Fake(binary)
    async with fake.bot() as bot:
        for check in (check_start, check_updates, check_messages, check_albums, check_drafts, check_buttons, check_faults, check_people, check_webhook, check_chats):
            await check(fake, bot)
            print("ok", check.__name__)
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    asyncio.run(main(sys.argv[1]))
