"""Drives the DingTalk fake through dingtalk-stream's clients of Stream mode, messages and AI cards.

usage: check_dingtalk_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import json
import logging
import queue
import sys
import threading

import dingtalk_stream
import requests
from dingtalk_stream import AckMessage, AICardReplier, card_replier, chatbot, stream

from fake_process import FakeProcess

GROUP = "cidGroup1=="
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
PERMISSION = "Forbidden.AccessDenied.AccessTokenPermissionDenied"


class Fake(FakeProcess):
    def __init__(self, binary):
        super().__init__(binary)
        # The client reads DINGTALK_OPENAPI_ENDPOINT when it is imported, before the fake runs, so
        # its copies of the address are replaced. The host of the older API is part of its code:
        # requests to it are redirected.
        for module in (stream, chatbot, card_replier):
            module.DINGTALK_OPENAPI_ENDPOINT = self.where["base_url"]
        endpoint = self.where["base_url"] + "/v1.0/gateway/connections/open"
        dingtalk_stream.DingTalkStreamClient.OPEN_CONNECTION_API = endpoint
        original, older = requests.post, self.where["oapi_url"]
        requests.post = lambda url, *rest, **options: original(
            url.replace("https://oapi.dingtalk.com", older), *rest, **options
        )

    def client(self, secret=None):
        credential = dingtalk_stream.Credential(self.where["client_id"], secret or self.where["client_secret"])
        quiet = logging.getLogger("quiet")
        quiet.setLevel(logging.CRITICAL)
        return dingtalk_stream.DingTalkStreamClient(credential, logger=quiet)

    def set(self, **settings):
        self.order(set=settings)

    def report(self):
        return self.order(sent=True)

    def sent(self):
        return self.report()["sent"]


class Messages(dingtalk_stream.ChatbotHandler):
    """A handler that collects messages, and refuses them on demand."""

    def __init__(self):
        super().__init__()
        self.logger = logging.getLogger("quiet")
        self.received = queue.Queue()
        self.status = AckMessage.STATUS_OK

    async def process(self, callback):
        self.received.put(callback)
        return self.status, "OK"

    def next(self):
        callback = self.received.get(timeout=30)
        return dingtalk_stream.ChatbotMessage.from_dict(callback.data)


class Cards(dingtalk_stream.CallbackHandler):
    def __init__(self):
        super().__init__()
        self.received = queue.Queue()

    async def process(self, callback):
        self.received.put(dingtalk_stream.CardCallbackMessage.from_dict(callback.data))
        return AckMessage.STATUS_OK, {"cardData": {}}


class Events(dingtalk_stream.EventHandler):
    def __init__(self):
        super().__init__()
        self.received = queue.Queue()

    async def process(self, event):
        self.received.put(event)
        return AckMessage.STATUS_OK, "OK"


class Session:
    """A client of Stream mode in a thread."""

    def __init__(self, fake):
        self.client = fake.client()
        self.messages, self.cards, self.events = Messages(), Cards(), Events()
        self.client.register_callback_handler(dingtalk_stream.ChatbotMessage.TOPIC, self.messages)
        topic = dingtalk_stream.CallbackHandler.TOPIC_CARD_CALLBACK
        self.client.register_callback_handler(topic, self.cards)
        self.client.register_all_event_handler(self.events)
        threading.Thread(target=lambda: asyncio.run(self.client.start()), daemon=True).start()


def call(fake, client, verb, path, body, status=200):
    """Makes a call that the client has no method for."""
    headers = {"x-acs-dingtalk-access-token": client.get_access_token()}
    response = requests.request(verb, fake.where["base_url"] + path, headers=headers, json=body)
    assert response.status_code == status, f"{response.status_code} {response.text}"
    return response.json()


def group_message(fake, client, key, values, status=200, **changes):
    body = {"robotCode": fake.where["client_id"], "openConversationId": GROUP, "msgKey": key}
    body = {**body, "msgParam": json.dumps(values), **changes}
    return call(fake, client, "POST", "/v1.0/robot/groupMessages/send", body, status)


def private_message(fake, client, users, text, status=200):
    values = json.dumps({"title": "T", "text": text})
    body = {"robotCode": fake.where["client_id"], "userIds": users, "msgKey": "sampleMarkdown", "msgParam": values}
    return call(fake, client, "POST", "/v1.0/robot/oToMessages/batchSend", body, status)


def check_credentials(fake, session):
    assert fake.client("wrong").get_access_token() is None
    assert fake.client("wrong").open_connection() is None
    first = fake.client().get_access_token()
    assert fake.client().get_access_token() == first
    fake.set(advance=7000)
    assert fake.client().get_access_token() != first
    client = fake.client()
    client.get_access_token()
    fake.set(revoke=True)
    refused = group_message(fake, client, "sampleText", {"content": "lost"}, 400)
    assert refused["code"] == "InvalidAuthentication"
    client.reset_access_token()
    group_message(fake, client, "sampleText", {"content": "found"})
    assert fake.sent()[-1]["text"] == "found"
    fake.order(fault="connection.open")
    assert client.open_connection() is None


def check_messages(fake, session):
    hello = fake.order(text="hello")
    message = session.messages.next()
    assert (message.message_id, message.text.content) == (hello["message"], "hello")
    assert (message.conversation_type, message.conversation_id) == ("1", fake.where["direct"])
    assert (message.sender_staff_id, message.robot_code) == (fake.where["ann"], fake.where["client_id"])
    fake.order(acknowledged=hello["number"])
    fake.order(text="not for the robot", chat=GROUP)
    mention = fake.order(text="hi", chat=GROUP, mention=True)
    message = session.messages.next()
    assert (message.conversation_type, message.text.content) == ("2", " hi")
    assert message.is_in_at_list and len(message.at_users) == 1
    fake.order(acknowledged=mention["number"])
    quoting = fake.order(text="what?", quote=hello["message"])
    quoted = session.messages.next().text.extensions["repliedMsg"]
    assert (quoted["msgType"], quoted["content"]["text"]) == ("text", "hello")
    fake.order(acknowledged=quoting["number"])
    fake.order(audio="#!AMR")
    message = session.messages.next()
    assert (message.message_type, message.extensions["content"]["recognition"]) == ("audio", "spoken")
    fake.order(kind="tomorrow", content={"x": 1})
    assert session.messages.next().message_type == "tomorrow"


def check_files(fake, session):
    def content_of(code):
        address = session.messages.get_image_download_url(code)
        return address, requests.get(address)

    fake.order(picture="a picture")
    message = session.messages.next()
    (code,) = message.get_image_list()
    address, response = content_of(code)
    assert (response.text, response.headers["content-type"]) == ("a picture", "image/png")
    fake.order(text="look", rich="another")
    message = session.messages.next()
    assert message.get_text_list() == ["look"]
    (code,) = message.get_image_list()
    assert content_of(code)[1].text == "another"
    fake.order(file="words")
    content = session.messages.next().extensions["content"]
    assert content["fileName"] == "a file.txt"
    assert content_of(content["downloadCode"])[1].text == "words"
    fake.set(advance=600)
    assert requests.get(address).status_code == 403
    assert session.messages.get_image_download_url("unknown") == ""


def check_delivery(fake, session):
    fake.set(acknowledge=200)
    # Refused messages and those that the client cannot read are delivered again.
    session.messages.status = AckMessage.STATUS_SYSTEM_EXCEPTION
    lost = fake.order(text="refused at first")
    first = session.messages.next()
    fake.order(refusals=lost["number"])
    session.messages.status = AckMessage.STATUS_OK
    assert session.messages.next().message_id == first.message_id
    fake.order(acknowledged=lost["number"])
    strange = fake.order(payload="no JSON")
    fake.order(deliveries=strange["number"], count=3)
    fake.set(acknowledge=5000)
    event = fake.order(event="user_add_org", content={"userId": ["bob"]})
    received = session.events.received.get(timeout=30)
    assert (received.headers.event_type, received.data) == ("user_add_org", {"userId": ["bob"]})
    fake.order(acknowledged=event["number"])
    fake.set(ping=True)
    fake.order(answered_pings=1)
    # After a disconnect frame and after the end of a connection the client comes back.
    for end in ("disconnect", "close"):
        before = fake.report()["connections"]
        fake.set(**{end: True})
        pushed = fake.order(text=f"after {end}")
        fake.order(acknowledged=pushed["number"])
        while session.messages.next().message_id != pushed["message"]:
            pass
        assert fake.report()["connections"] > before


def check_replies(fake, session):
    fake.order(text="reply to this")
    message = session.messages.next()
    handler = session.messages
    assert handler.reply_text("a reply", message)["errcode"] == 0
    assert handler.reply_markdown("T", "**a** reply", message)["errcode"] == 0
    kinds = [(sent["kind"], sent["text"], sent["chat"]) for sent in fake.sent()[-2:]]
    direct = fake.where["direct"]
    assert kinds == [("session.text", "a reply", direct), ("session.markdown", "**a** reply", direct)]
    fake.set(advance=5400)
    assert handler.reply_text("too late", message)["errcode"] == 300001
    client = fake.client()
    ann = fake.where["ann"]
    answer = private_message(fake, client, [ann, "nobody"], "to Ann")
    assert answer["invalidStaffIdList"] == ["nobody"] and answer["processQueryKey"] == fake.sent()[-1]["key"]
    fake.set(control=True)
    assert private_message(fake, client, [ann], "too much")["flowControlledStaffIdList"] == [ann]
    fake.set(control=False)
    assert fake.sent()[-1]["text"] == "to Ann"
    fake.order(fault="robot.group")
    limited = group_message(fake, client, "sampleText", {"content": "x"}, 403)
    assert limited["code"] == "Forbidden.AccessDenied.QpsLimitForApi"
    picture = client.upload_to_dingtalk(PNG)
    group_message(fake, client, "sampleImageMsg", {"photoURL": picture})
    assert fake.sent()[-1]["files"] == [{"name": "image.png", "kind": "image", "size": len(PNG)}]
    file = client.upload_to_dingtalk(b"words", "file", "a.txt", "text/plain")
    values = {"mediaId": file, "fileName": "b.txt", "fileType": "txt"}
    group_message(fake, client, "sampleFile", values)
    assert fake.sent()[-1]["files"] == [{"name": "b.txt", "kind": "file", "size": 5}]
    try:
        client.upload_to_dingtalk(b"<html>", "file", "a.html", "text/html")
        raise AssertionError("a web page is accepted")
    except Exception as problem:
        assert "40005" in str(problem), problem


def check_cards(fake, session):
    for chat in (fake.where["direct"], GROUP):
        fake.order(text="a card, please", chat=chat, mention=True)
        replier = AICardReplier(session.client, session.messages.next())
        card = replier.create_and_deliver_card(fake.where["template"], {"content": ""})
        shown = fake.sent()[-1]
        assert (shown["card"], shown["chat"], shown["streaming"]) == (card, chat, True)
        replier.streaming(card, "content", "grows", append=False, finished=False, failed=False)
        replier.streaming(card, "content", " longer", append=True, finished=False, failed=False)
        assert fake.sent()[-1]["text"] == "grows longer"
        replier.streaming(card, "content", "all", append=False, finished=True, failed=False)
        replier.streaming(card, "content", "too late", append=False, finished=False, failed=False)
        shown = fake.sent()[-1]
        assert (shown["text"], shown["streaming"]) == ("all", False)
        assert shown["history"] == ["", "grows", "grows longer"]
        replier.finish(card, {"content": "replaced"})
        assert fake.sent()[-1]["text"] == "replaced"
        pressed = fake.order(press=card, params={"choice": "y"})
        callback = session.cards.received.get(timeout=30)
        assert callback.card_instance_id == card
        assert callback.content["cardPrivateData"]["params"] == {"choice": "y"}
        answer = fake.order(answer=pressed["number"])["answer"]
        assert answer["response"] == {"cardData": {}}
    async_card = asyncio.run(stream_asynchronously(fake, session, replier))
    assert (fake.sent()[-1]["card"], fake.sent()[-1]["failed"]) == (async_card, True)
    fake.set(deny="Card.Streaming.Write")
    body = {"outTrackId": card, "guid": "g", "key": "content", "content": "x"}
    denied = call(fake, fake.client(), "PUT", "/v1.0/card/streaming", body, 403)
    assert denied["code"] == PERMISSION
    assert denied["accessdenieddetail"]["requiredScopes"] == ["Card.Streaming.Write"]
    fake.set(grant="Card.Streaming.Write")


async def stream_asynchronously(fake, session, replier):
    card = await replier.async_create_and_deliver_card(fake.where["template"], {"content": "x"})
    await replier.async_streaming(card, "content", "y", append=False, finished=False, failed=False)
    await replier.async_fail(card, {"content": "failed"})
    return card


def check_refusals(fake, session):
    """Sends what no client should send."""
    assert fake.report()["complaints"] == []
    client = fake.client()
    values = {"title": "T", "text": "x"}
    wrong = [
        ("sampleMarkdown", {"title": "T"}, {}, "invalidParameter.msgParam"),
        ("sampleMarkdown", {**values, "text": "x" * 20_001}, {}, "msgParam.tooLong"),
        ("sampleLetter", values, {}, "invalidParameter.msgKey"),
        ("sampleMarkdown", values, {"robotCode": "other"}, "robotCode.notExist"),
        ("sampleMarkdown", values, {"msgParam": values}, "invalidParameter"),
        ("sampleMarkdown", values, {"msgKey": None}, "MissingmsgKey"),
        ("sampleImageMsg", {"photoURL": "@unknown"}, {}, "invalidParameter.mediaId"),
    ]
    for key, content, changes, code in wrong:
        assert group_message(fake, client, key, content, 400, **changes)["code"] == code, code
    assert len(fake.report()["complaints"]) == len(wrong)
    group_message(fake, client, "sampleMarkdown", values, tomorrow=True)
    gone = group_message(fake, client, "sampleMarkdown", values, 400, openConversationId="cidNowhere")
    assert gone["code"] == "openConversationId.notExist"
    assert fake.report()["complaints"][-1] == "robot.group: unknown parameter tomorrow"


def main(binary):
    # Refusals are expected, and the client reports each.
    logging.disable(logging.CRITICAL)
    fake = Fake(binary)
    fake.order(group=GROUP, robot=True)
    session = Session(fake)
    fake.order(connections=1)
    checks = [
        check_credentials,
        check_messages,
        check_files,
        check_replies,
        check_cards,
        check_delivery,
        check_refusals,
    ]
    for check in checks:
        check(fake, session)
        print("ok", check.__name__)
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
