"""Drives the Feishu fake through lark-oapi's clients of the open API and the long connection.

usage: check_feishu_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import io
import json
import queue
import sys
import threading

import lark_oapi
from lark_oapi.api.cardkit.v1 import (
    Card,
    ContentCardElementRequest,
    ContentCardElementRequestBody,
    CreateCardRequest,
    CreateCardRequestBody,
    SettingsCardRequest,
    SettingsCardRequestBody,
    UpdateCardRequest,
    UpdateCardRequestBody,
)
from lark_oapi.api.im.v1 import (
    CreateFileRequest,
    CreateFileRequestBody,
    CreateImageRequest,
    CreateImageRequestBody,
    CreateMessageReactionRequest,
    CreateMessageReactionRequestBody,
    CreateMessageRequest,
    CreateMessageRequestBody,
    DeleteMessageReactionRequest,
    DeleteMessageRequest,
    Emoji,
    GetMessageRequest,
    GetMessageResourceRequest,
    ListMessageReactionRequest,
    PatchMessageRequest,
    PatchMessageRequestBody,
    ReplyMessageRequest,
    ReplyMessageRequestBody,
    UpdateMessageRequest,
    UpdateMessageRequestBody,
)
from lark_oapi.core.cache import LocalCache
from lark_oapi.core.exception import ObtainAccessTokenException
from lark_oapi.core.token.manager import TokenManager
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse
from lark_oapi.ws import client as long_connection
from lark_oapi.ws.exception import ClientException, ServerException

from fake_process import FakeProcess

GROUP = "oc_group"
TOPICS = "oc_topics"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Fake(FakeProcess):
    def client(self, secret=None):
        builder = lark_oapi.Client.builder().domain(self.where["base_url"])
        builder = builder.app_id(self.where["app_id"]).app_secret(secret or self.where["app_secret"])
        return builder.log_level(lark_oapi.LogLevel.CRITICAL).build()

    def set(self, **settings):
        self.order(set=settings)

    def sent(self):
        return self.order(sent=True)["sent"]


def done(response):
    """Expects a call to succeed, and returns its data if the call has any."""
    assert response.success(), f"{response.code} {response.msg}"
    return getattr(response, "data", None)


def refused(response, code, status=400):
    """Expects a call to fail with that code."""
    assert response.code == code, f"{response.code} {response.msg} is not {code}"
    assert response.raw.status_code == status, f"{response.raw.status_code} is not {status}"
    assert response.get_log_id()
    return response


class Socket:
    """A client of the long connection in a thread. It collects events, and refuses on demand."""

    def __init__(self, fake):
        self.events = queue.Queue()
        self.refuses = False
        handler = lark_oapi.EventDispatcherHandler.builder("", "")
        handler = handler.register_p2_im_message_receive_v1(self.take)
        handler = handler.register_p2_card_action_trigger(self.press)
        self.client = long_connection.Client(
            fake.where["app_id"],
            fake.where["app_secret"],
            event_handler=handler.build(),
            domain=fake.where["base_url"],
            log_level=lark_oapi.LogLevel.CRITICAL,
        )
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        # The module has one event loop, which belongs to the thread that runs the client.
        asyncio.set_event_loop(long_connection.loop)
        self.client.start()

    def take(self, event):
        self.events.put(event)
        if self.refuses:
            raise RuntimeError("not now")

    def press(self, event):
        self.events.put(event)
        card = {"elements": [{"tag": "markdown", "content": "pressed"}]}
        answer = {"toast": {"type": "info", "content": "thank you"}, "card": {"type": "raw", "data": card}}
        return P2CardActionTriggerResponse(answer)

    def next(self):
        return self.events.get(timeout=30)

    def message(self):
        return self.next().event.message


def check_credentials(fake, api):
    info = lark_oapi.BaseRequest.builder().http_method(lark_oapi.HttpMethod.GET).uri("/open-apis/bot/v3/info")
    info = info.token_types({lark_oapi.AccessTokenType.TENANT}).build()
    response = api.request(info)
    assert response.success() and json.loads(response.raw.content)["bot"]["open_id"] == fake.where["bot"]
    fake.set(revoke=True)
    refused(text(api, "lost"), 99991663)
    TokenManager.cache = LocalCache()
    done(text(api, "found"))
    # Tokens end after two hours. A token of less than half an hour is replaced by another one.
    first = TokenManager.get_self_tenant_token(api._config)
    for seconds, is_same in [(3600, True), (2400, False)]:
        fake.set(advance=seconds)
        TokenManager.cache = LocalCache()
        assert (TokenManager.get_self_tenant_token(api._config) == first) == is_same
    TokenManager.cache = LocalCache()
    try:
        fake.client("wrong").request(info)
        raise AssertionError("a wrong secret is accepted")
    except ObtainAccessTokenException as problem:
        assert problem.code == 10014
    finally:
        TokenManager.cache = LocalCache()


def check_endpoint(fake, api):
    def connect(secret, problem, code):
        async def attempt():
            client = long_connection.Client(fake.where["app_id"], secret, domain=fake.where["base_url"])
            await client._connect()

        try:
            asyncio.run(attempt())
            raise AssertionError(f"{code} is missing")
        except problem as raised:
            assert raised.code == code, raised

    secret = fake.where["app_secret"]
    connect("wrong", ClientException, 514)
    connect("", ClientException, 1000040344)
    for code, problem in [(1000040350, ClientException), (1000040343, ServerException), (1, ServerException)]:
        fake.order(fault="ws.endpoint", code=code)
        connect(secret, problem, code)
    # Too many connections are the client's error, other refused handshakes are the server's.
    for code, problem in [(1000040350, ClientException), (1000040351, ServerException)]:
        fake.order(fault="socket", handshake=code)
        connect(secret, problem, 514)


def text(api, words, chat=None, uuid=None, id_type="chat_id"):
    return send(api, "text", {"text": words}, chat, uuid, id_type)


def send(api, kind, content, chat=None, uuid=None, id_type="chat_id"):
    body = CreateMessageRequestBody.builder().receive_id(chat or GROUP).msg_type(kind)
    body = body.content(content if isinstance(content, str) else json.dumps(content))
    if uuid is not None:
        body = body.uuid(uuid)
    request = CreateMessageRequest.builder().receive_id_type(id_type).request_body(body.build())
    return api.im.v1.message.create(request.build())


def reply(api, message, words, in_thread=False, uuid=None):
    body = ReplyMessageRequestBody.builder().msg_type("text").content(json.dumps({"text": words}))
    body = body.reply_in_thread(in_thread)
    if uuid is not None:
        body = body.uuid(uuid)
    request = ReplyMessageRequest.builder().message_id(message).request_body(body.build())
    return api.im.v1.message.reply(request.build())


def get(api, message):
    return api.im.v1.message.get(GetMessageRequest.builder().message_id(message).build())


def check_events(fake, api, socket):
    fake.order(connections=1)
    fake.order(pings=1)
    hello = fake.order(text="hello")
    event = socket.next()
    message, sender = event.event.message, event.event.sender
    assert (message.chat_type, message.message_type, message.chat_id) == ("p2p", "text", fake.where["direct"])
    assert (message.message_id, json.loads(message.content)) == (hello["message"], {"text": "hello"})
    assert (sender.sender_type, sender.sender_id.open_id) == ("user", fake.where["ann"])
    fake.order(acknowledged=hello["number"])
    mention = fake.order(text="hi", chat=GROUP, mention=True)
    message = socket.message()
    assert (message.chat_type, json.loads(message.content)["text"]) == ("group", "@_user_1 hi")
    (named,) = message.mentions
    assert (named.key, named.id.open_id, named.id.user_id) == ("@_user_1", fake.where["bot"], "")
    # An event in five parts is put together, and acknowledged once.
    fake.set(split=5)
    parts = fake.order(text="long " * 100, reply=mention["message"], chat=GROUP)
    message = socket.message()
    assert json.loads(message.content)["text"] == "long " * 100
    assert (message.root_id, message.parent_id, message.thread_id) == (mention["message"], mention["message"], None)
    fake.order(acknowledged=parts["number"])
    # So it is if the parts come in reverse order, or if one is lost and all come again.
    fake.set(reverse=True, lose=1, acknowledge=200)
    parts = fake.order(text="lost in part")
    assert json.loads(socket.message().content)["text"] == "lost in part"
    fake.order(acknowledged=parts["number"])
    fake.order(deliveries=parts["number"], count=2)
    fake.set(split=1, acknowledge=3000)
    # Messages of a topic group belong to threads.
    topic = fake.order(text="a topic", chat=TOPICS)
    thread = socket.message().thread_id
    assert thread.startswith("omt_")
    fake.order(text="about it", chat=TOPICS, reply=topic["message"])
    message = socket.message()
    assert (message.chat_type, message.thread_id, message.root_id) == ("topic_group", thread, topic["message"])
    forwarded = fake.order(forward=["one", "two"])
    assert socket.message().message_type == "merge_forward"
    items = done(get(api, forwarded["message"])).items
    assert [json.loads(item.body.content).get("text") for item in items] == [None, "one", "two"]
    assert items[1].upper_message_id == forwarded["message"]


def check_redelivery(fake, socket):
    fake.set(acknowledge=200)
    # Refused events, events without a handler, and unreadable ones are delivered again.
    socket.refuses = True
    lost = fake.order(text="refused at first")
    first = socket.next()
    fake.order(refusals=lost["number"])
    socket.refuses = False
    second = socket.next()
    while second.event.message.message_id != lost["message"]:
        second = socket.next()
    assert first.header.event_id == second.header.event_id
    fake.order(acknowledged=lost["number"])
    for push in [{"event": "im.event.of_tomorrow_v1", "content": {}}, {"payload": "no JSON"}]:
        strange = fake.order(**push)
        fake.order(refusals=strange["number"], count=2)
        fake.order(deliveries=strange["number"], count=3)
    fake.set(acknowledge=3000)
    # After the end of the connection the client comes back, and gets the events sent meanwhile.
    before = fake.order(sent=True)["connections"]
    fake.order(fault="socket", handshake=1000040351)
    fake.set(close=True)
    fake.order(text="after the end")
    event = socket.next()
    while json.loads(event.event.message.content)["text"] != "after the end":
        event = socket.next()
    assert fake.order(sent=True)["connections"] > before


def check_messages(fake, api):
    # The same uuid within an hour is the same message, and afterwards another one.
    first, again = (done(text(api, "once", uuid="u1")) for _ in range(2))
    assert first.message_id == again.message_id
    fake.set(advance=3600)
    assert done(text(api, "once", uuid="u1")).message_id != first.message_id
    assert len([message for message in fake.sent() if message["text"] == "once"]) == 2
    direct = done(text(api, "directly", fake.where["ann"], id_type="open_id"))
    assert (direct.chat_id, direct.sender.sender_type) == (fake.where["direct"], "app")
    link = {"tag": "a", "text": "here", "href": "https://a.example"}
    post = {"zh_cn": {"title": "T", "content": [[{"tag": "text", "text": "see "}, link], [{"tag": "md", "text": "**b**"}]]}}
    sent = done(send(api, "post", post))
    (item,) = done(get(api, sent.message_id)).items
    assert (item.msg_type, json.loads(item.body.content)["title"]) == ("post", "T")
    assert fake.sent()[-1]["text"] == "T\nsee here\n**b**"
    answer, again = (done(reply(api, sent.message_id, "a reply", uuid="u2")) for _ in range(2))
    assert (answer.parent_id, answer.thread_id, again.message_id) == (sent.message_id, None, answer.message_id)
    assert len([message for message in fake.sent() if message["uuid"] == "u2"]) == 1
    answer = done(reply(api, sent.message_id, "a thread", in_thread=True))
    assert answer.thread_id.startswith("omt_") and answer.root_id == sent.message_id
    body = UpdateMessageRequestBody.builder().msg_type("text").content(json.dumps({"text": "changed"})).build()
    update = UpdateMessageRequest.builder().message_id(first.message_id).request_body(body).build()
    for _ in range(20):
        done(api.im.v1.message.update(update))
    refused(api.im.v1.message.update(update), 230072)
    delete = DeleteMessageRequest.builder().message_id(first.message_id).build()
    done(api.im.v1.message.delete(delete))
    refused(api.im.v1.message.delete(delete), 230011)
    refused(reply(api, first.message_id, "too late"), 230011)
    assert done(get(api, first.message_id)).items[0].deleted
    # A frequency limit of the gateway, and one of the chat.
    fake.order(fault="message.create", rate_limit=3)
    limited = refused(text(api, "x"), 99991400, 429)
    assert limited.raw.headers["x-ogw-ratelimit-reset"] == "3"
    fake.order(fault="message.create", code=230020)
    refused(text(api, "x"), 230020)
    fake.order(group="oc_foreign", bot=False)
    refused(text(api, "x", "oc_foreign"), 230002)
    refused(text(api, "x", "oc_nowhere"), 230034)
    fake.set(deny="im:message")
    denied = refused(text(api, "x"), 99991672)
    assert denied.error["permission_violations"][0]["subject"] == "im:message"
    fake.set(grant="im:message")
    done(text(api, "x"))


def check_reactions(fake, api):
    message = fake.order(text="react to this")["message"]
    body = CreateMessageReactionRequestBody.builder().reaction_type(Emoji.builder().emoji_type("THUMBSUP").build()).build()
    add = CreateMessageReactionRequest.builder().message_id(message).request_body(body).build()
    reaction = done(api.im.v1.message_reaction.create(add)).reaction_id
    assert done(api.im.v1.message_reaction.create(add)).reaction_id == reaction
    everything = ListMessageReactionRequest.builder().message_id(message).reaction_type("THUMBSUP").build()
    (item,) = done(api.im.v1.message_reaction.list(everything)).items
    assert (item.reaction_id, item.operator.operator_type) == (reaction, "app")
    remove = DeleteMessageReactionRequest.builder().message_id(message).reaction_id(reaction).build()
    done(api.im.v1.message_reaction.delete(remove))
    assert done(api.im.v1.message_reaction.list(everything)).items == []


def file_key(api, kind, name, content):
    body = CreateFileRequestBody.builder().file_type(kind).file_name(name).file(io.BytesIO(content)).build()
    return api.im.v1.file.create(CreateFileRequest.builder().request_body(body).build())


def image_key(api, content):
    body = CreateImageRequestBody.builder().image_type("message").image(io.BytesIO(content)).build()
    return api.im.v1.image.create(CreateImageRequest.builder().request_body(body).build())


def download(api, message, key, kind):
    request = GetMessageResourceRequest.builder().message_id(message).file_key(key).type(kind).build()
    return api.im.v1.message_resource.get(request)


def check_files(fake, api, socket):
    key = done(file_key(api, "stream", "文件.txt", b"content")).file_key
    done(send(api, "file", {"file_key": key}))
    assert fake.sent()[-1]["files"] == [{"name": "文件.txt", "kind": "stream", "size": 7}]
    image = done(image_key(api, PNG)).image_key
    done(send(api, "image", {"image_key": image}))
    assert fake.sent()[-1]["files"] == [{"name": "image", "kind": "image", "size": len(PNG)}]
    voice = done(file_key(api, "opus", "voice.opus", b"OggS")).file_key
    done(send(api, "audio", {"file_key": voice}))
    while not socket.events.empty():
        socket.events.get()
    fake.order(file="the file")
    message = socket.message()
    content = json.loads(message.content)
    assert content["file_name"] == "a file.txt"
    received = download(api, message.message_id, content["file_key"], "file")
    assert received.success() and (received.file.read(), received.file_name) == (b"the file", "a file.txt")
    refused(download(api, message.message_id, image, "image"), 234003)
    fake.order(image="an image")
    message = socket.message()
    key = json.loads(message.content)["image_key"]
    assert download(api, message.message_id, key, "image").file.read() == b"an image"
    refused(image_key(api, b"no image"), 234011)


def streaming_card(words, is_streaming=True):
    element = {"tag": "markdown", "content": words, "element_id": "text"}
    config = {"streaming_mode": is_streaming, "update_multi": True}
    return {"schema": "2.0", "config": config, "body": {"elements": [element]}}


def create_card(api, card):
    body = CreateCardRequestBody.builder().type("card_json").data(json.dumps(card)).build()
    return api.cardkit.v1.card.create(CreateCardRequest.builder().request_body(body).build())


def stream(api, card, words, sequence, uuid=None, element="text"):
    body = ContentCardElementRequestBody.builder().content(words).sequence(sequence)
    if uuid is not None:
        body = body.uuid(uuid)
    request = ContentCardElementRequest.builder().card_id(card).element_id(element).request_body(body.build())
    return api.cardkit.v1.card_element.content(request.build())


def configure(api, card, sequence, is_streaming):
    settings = json.dumps({"config": {"streaming_mode": is_streaming}})
    body = SettingsCardRequestBody.builder().settings(settings).sequence(sequence).build()
    return api.cardkit.v1.card.settings(SettingsCardRequest.builder().card_id(card).request_body(body).build())


def check_streaming(fake, api):
    card = done(create_card(api, streaming_card("begins"))).card_id
    reference = {"type": "card", "data": {"card_id": card}}
    done(send(api, "interactive", reference))
    assert fake.sent()[-1]["streaming"]
    done(stream(api, card, "grows", 1, "u1"))
    refused(stream(api, card, "out of order", 1), 300317)
    refused(stream(api, card, "twice", 2, "u1"), 200770)
    done(stream(api, card, "is long", 2))
    # Streaming ends after ten minutes. The first call learns it, and the card can be reopened.
    fake.set(advance=601)
    TokenManager.cache = LocalCache()
    refused(stream(api, card, "too late", 3), 200850)
    refused(stream(api, card, "too late", 3), 300309)
    done(configure(api, card, 3, True))
    done(stream(api, card, "all", 4))
    done(configure(api, card, 5, False))
    refused(stream(api, card, "more", 6), 300309)
    shown = fake.sent()[-1]
    assert (shown["text"], shown["history"], shown["streaming"]) == ("all", ["begins", "grows", "is long"], False)
    body = Card.builder().type("card_json").data(json.dumps(streaming_card("other", False))).build()
    body = UpdateCardRequestBody.builder().card(body).sequence(6).build()
    done(api.cardkit.v1.card.update(UpdateCardRequest.builder().card_id(card).request_body(body).build()))
    assert fake.sent()[-1]["text"] == "other"
    refused(stream(api, "7000", "nowhere", 1), 200740)


def check_cards(fake, api, socket):
    button = {"tag": "button", "text": {"tag": "plain_text", "content": "Yes"}, "value": {"choice": "y"}}
    question = {"config": {"update_multi": True}, "elements": [{"tag": "action", "actions": [button]}]}
    sent = done(send(api, "interactive", question))
    while not socket.events.empty():
        socket.events.get()
    pressed = fake.order(press=sent.message_id, label="Yes")
    event = socket.next().event
    assert (event.action.value, event.operator.open_id) == ({"choice": "y"}, fake.where["ann"])
    assert event.context.open_message_id == sent.message_id
    assert fake.order(answer=pressed["number"])["answer"]["toast"]["content"] == "thank you"
    assert fake.sent()[-1]["text"] == "pressed"
    table = {"tag": "table", "columns": [{"name": "c0", "data_type": "text"}], "rows": [{"c0": "x"}]}
    card = {"config": {"update_multi": True}, "elements": [table]}
    sent = done(send(api, "interactive", card))
    card["elements"] = [{"tag": "markdown", "content": "instead"}]
    body = PatchMessageRequestBody.builder().content(json.dumps(card)).build()
    patch = PatchMessageRequest.builder().message_id(sent.message_id).request_body(body).build()
    done(api.im.v1.message.patch(patch))
    assert fake.sent()[-1]["text"] == "instead"
    assert fake.order(sent=True)["complaints"] == []


def check_refusals(fake, api):
    """Sends what no client should send."""
    table = {"tag": "table", "columns": [{"name": "c0"}], "rows": []}
    twice = refused(send(api, "interactive", {"elements": [table, table]}), 230099)
    assert "ErrCode: 11310; ErrMsg: card table number over limit" in twice.msg
    wrong = [
        (send(api, "text", "no json"), 230001),
        (send(api, "text", {"text": ""}), 230001),
        (send(api, "letter", {"text": "x"}), 230001),
        (send(api, "image", {"image_key": "img_unknown"}), 230001),
        (send(api, "post", {"title": "no language", "content": [[]]}), 230001),
        (send(api, "text", {"text": "x" * 150 * 1024}), 230025),
        (send(api, "interactive", {"elements": [{"tag": "markdown", "content": "x" * 30 * 1024}]}), 230025),
        (text(api, "x", uuid="u" * 51), 99992402),
        (text(api, "x", id_type="chat"), 99992402),
        (send(api, "audio", {"file_key": done(file_key(api, "pdf", "a.pdf", b"%PDF")).file_key}), 230055),
        (file_key(api, "exe", "a.exe", b"MZ"), 234001),
        (file_key(api, "stream", "empty", b""), 234010),
        (file_key(api, "stream", "large", b"\0" * (30 * 1024 * 1024 + 1)), 234006),
        (image_key(api, PNG + b"\0" * 10 * 1024 * 1024), 234006),
        (create_card(api, {"elements": []}), 200220),
        (create_card(api, streaming_card("x" * 30 * 1024)), 200860),
    ]
    for response, code in wrong:
        refused(response, code)
    card = done(create_card(api, streaming_card("x"))).card_id
    refused(stream(api, card, "x", 1, element="nowhere"), 300313)
    refused(stream(api, card, "x" * 30 * 1024, 1), 200860)
    complaints = fake.order(sent=True)["complaints"]
    assert len(complaints) == len(wrong) + 3, complaints


def main(binary):
    fake = Fake(binary)
    fake.order(group=GROUP, bot=True)
    fake.order(group=TOPICS, topics=True)
    api = fake.client()
    check_credentials(fake, api)
    check_endpoint(fake, api)
    socket = Socket(fake)
    checks = [
        (check_events, (fake, api, socket)),
        (check_redelivery, (fake, socket)),
        (check_messages, (fake, api)),
        (check_reactions, (fake, api)),
        (check_files, (fake, api, socket)),
        (check_streaming, (fake, api)),
        (check_cards, (fake, api, socket)),
        (check_refusals, (fake, api)),
    ]
    for check, arguments in checks:
        check(*arguments)
        print("ok", check.__name__)
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
