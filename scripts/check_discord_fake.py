"""Drives the Discord fake through discord.py and checks both sides' observations.

usage: check_discord_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import io
import logging
import sys

import discord
import yarl
from discord import app_commands
from discord.gateway import DiscordWebSocket

from fake_process import FakeProcess, refused

LIMIT = 60


class Fake(FakeProcess):
    def __init__(self, binary):
        super().__init__(binary)
        discord.http.Route.BASE = self.where["api_base"]
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(self.where["gateway"])

    def seen(self):
        return self.order(seen=True)


class Bot(discord.Client):
    """Records incoming messages, and has one command and one button."""

    def __init__(self):
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
        # Longer than the library's pause before a new session.
        super().__init__(intents=intents, heartbeat_timeout=8)
        self.tree = app_commands.CommandTree(self)
        self.inbox = asyncio.Queue()
        self.resumed = asyncio.Queue()

        @self.tree.command(name="model", description="Choose a model")
        async def model(interaction, arguments: str = ""):
            await interaction.response.send_message(f"model {arguments}", ephemeral=True)

    async def on_message(self, message):
        if message.author != self.user:
            await self.inbox.put(message)

    async def on_resumed(self):
        await self.resumed.put(None)

    async def next(self):
        return await asyncio.wait_for(self.inbox.get(), LIMIT)


class Choice(discord.ui.View):
    """A button that removes itself when pressed."""

    @discord.ui.button(label="Yes", custom_id="yes")
    async def yes(self, interaction, _button):
        await interaction.response.edit_message(view=None)


async def until(probe, what):
    """Waits until the probe returns a result from the fake."""
    for _ in range(LIMIT * 20):
        found = probe()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


async def check_start(fake, bot):
    assert (str(bot.user.id), bot.user.name) == (fake.where["bot"], "nanobot_test")
    assert str(bot.application_id) == fake.where["application"]
    guild = bot.get_guild(int(fake.where["guild"]))
    assert [str(channel.id) for channel in guild.text_channels] == fake.where["channels"]
    assert len(await bot.tree.sync()) == 1
    (command,) = fake.seen()["commands"]
    assert (command["name"], command["options"][0]["name"]) == ("model", "arguments")


async def check_messages(fake, bot):
    room = fake.where["channels"][0]
    fake.order(text=f"hello <@{fake.where['bot']}>", channel=room)
    message = await bot.next()
    assert (message.content, message.author.name, message.mentions) == (f"hello <@{bot.user.id}>", "ann", [bot.user])
    assert (str(message.channel.id), message.guild.name) == (room, "test")
    sent = await message.reply("hello yourself", mention_author=False)
    fake.order(text="again", channel=room, reply_to=str(sent.id), file="PNG")
    answer = await bot.next()
    assert (answer.reference.message_id, answer.type) == (sent.id, discord.MessageType.reply)
    assert answer.reference.resolved == sent
    assert await answer.attachments[0].read() == b"PNG"
    thread = fake.order(thread=room)["thread"]
    fake.order(text="in the thread", channel=thread)
    inside = await bot.next()
    assert (str(inside.channel.id), str(inside.channel.parent_id)) == (thread, room)
    fake.order(text="between us")
    direct = await bot.next()
    assert isinstance(direct.channel, discord.DMChannel) and direct.author.name == "ann"
    return message


async def check_sending(fake, bot, message):
    channel = message.channel
    none = discord.AllowedMentions(everyone=False, roles=False, users=True)
    sent = await channel.send("@everyone <@7> <@&8>", allowed_mentions=none)
    await sent.edit(content="edited")
    assert (await channel.fetch_message(sent.id)).content == "edited"
    await channel.send(file=discord.File(io.BytesIO(b"bytes"), "f.bin"), reference=message)
    first = await bot.http.send_message(channel.id, params=once("once"))
    second = await bot.http.send_message(channel.id, params=once("once"))
    assert first["id"] == second["id"]
    await refused(channel.send("x" * 2001), discord.HTTPException, "2000 or fewer")
    await refused(channel.send(" "), discord.HTTPException, "empty message")
    await refused(bot.http.send_message(99, params=once("x")), discord.NotFound, "unknown channel")
    await channel.typing()
    await message.add_reaction("\U0001f440")
    await message.remove_reaction("\U0001f440", bot.user)
    await refused(message.add_reaction("no"), discord.HTTPException, "unknown emoji")
    await refused(message.edit(content="mine now"), discord.Forbidden, "another user")
    later = [known.id async for known in channel.history(limit=None, after=message, oldest_first=True)]
    assert later == sorted(later) and sent.id in later and message.id not in later
    newest = [known.id async for known in channel.history(limit=2)]
    assert newest == later[:-3:-1]
    earlier = [known.id async for known in channel.history(limit=1, before=sent)]
    assert earlier == [later[later.index(sent.id) - 1]]
    await refused(bot.http.logs_from(channel.id, 101), discord.HTTPException, "limit=101")
    await sent.delete()
    await refused(sent.edit(content="gone"), discord.NotFound, "unknown message")
    _, text, file, one = fake.seen()["sent"]
    assert (text["text"], text["history"], text["pings"], text["deleted"]) == (
        "edited", ["@everyone <@7> <@&8>"], ["7"], True
    )
    assert (file["files"], file["reply_to"]) == ([{"name": "f.bin", "size": 5}], str(message.id))
    assert one["text"] == "once"


def once(text):
    """Returns a message with an enforced nonce."""
    payload = {"content": text, "nonce": "n-1", "enforce_nonce": True}
    return discord.http.MultipartParameters(payload=payload, multipart=None, files=None)


async def check_interactions(fake, bot, message):
    fake.order(command="model", arguments="large", channel=str(message.channel.id))
    (answer,) = await until(lambda: fake.seen()["answers"], "an answer to the command")
    assert (answer["kind"], answer["private"], answer["data"]["content"]) == (4, True, "model large")
    question = await message.channel.send("really?", view=Choice())
    fake.order(press="Yes", message=str(question.id), channel=str(message.channel.id))
    changed = await until(lambda: fake.seen()["answers"][1:], "an answer to the button")
    assert changed[0]["kind"] == 7
    assert fake.seen()["sent"][-1]["buttons"] == []


async def check_gateway(fake, bot):
    for order in ("reconnect", "hang_up", "stall"):
        fake.order(order=order)
        fake.order(text=f"said during {order}")
        assert (await bot.next()).content == f"said during {order}"
        await asyncio.wait_for(bot.resumed.get(), LIMIT)
    assert (fake.seen()["identifies"], fake.seen()["resumes"]) == (1, 3)
    fake.order(order="invalidate")
    await until(lambda: fake.seen()["identifies"] == 2, "a new session")
    await bot.wait_until_ready()
    fake.order(text="in the new session")
    assert (await bot.next()).content == "in the new session"
    assert fake.seen()["complaints"] == []


async def check_faults(fake, bot, message):
    fake.order(fault="createMessage", retry_after=0.2)
    assert (await message.channel.send("after a pause")).content == "after a pause"
    await refused(discord.Client(intents=discord.Intents.none()).login("wrong"), discord.LoginFailure, "token")
    fake.order(order="close", code=4014)


async def main(binary):
    logging.getLogger("discord").setLevel(logging.ERROR)
    fake = Fake(binary)
    bot = Bot()
    running = asyncio.create_task(bot.start(fake.where["token"]))
    for _ in range(LIMIT * 20):
        if bot.is_ready() or running.done():
            break
        await asyncio.sleep(0.05)
    if running.done():
        await running
    await check_start(fake, bot)
    print("ok check_start")
    message = await check_messages(fake, bot)
    print("ok check_messages")
    await check_sending(fake, bot, message)
    print("ok check_sending")
    await check_interactions(fake, bot, message)
    print("ok check_interactions")
    await check_gateway(fake, bot)
    print("ok check_gateway")
    await check_faults(fake, bot, message)
    await refused(asyncio.wait_for(running, LIMIT), discord.PrivilegedIntentsRequired, "privileged intents")
    print("ok check_faults")
    await bot.close()
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    asyncio.run(main(sys.argv[1]))
