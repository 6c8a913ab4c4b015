"""Drives the Mochat fake through python-socketio's client, with both forms of packets, and through plain HTTP.

usage: check_mochat_fake.py PATH-TO-THE-EXAMPLE-BINARY
"""

import queue
import sys
import threading

import requests
import socketio

from fake_process import FakeProcess

PANEL = "panel1"
EVENTS = [
    "claw.session.events",
    "claw.panel.events",
    "notify:chat.inbox.append",
    "notify:chat.message.add",
    "notify:chat.message.update",
    "notify:chat.message.recall",
    "notify:chat.message.delete",
]


class Fake(FakeProcess):
    def start(self, serializer):
        self.serializer = serializer
        self.where = self.order(start="json" if serializer == "default" else serializer)
        self.order(panel=PANEL)

    def set(self, **settings):
        self.order(set=settings)

    def report(self):
        return self.order(sent=True)

    def call(self, path, body, status=200, token=None):
        headers = {"X-Claw-Token": token or self.where["token"]}
        response = requests.post(self.where["base_url"] + path, headers=headers, json=body)
        assert response.status_code == status, f"{response.status_code} {response.text}"
        answer = response.json()
        assert answer["code"] == status, answer
        return answer["data"] if status == 200 else answer["message"]


class Session:
    """A client with the events that it got."""

    def __init__(self, fake, serializer=None, token=None):
        self.client = socketio.Client(serializer=serializer or fake.serializer, reconnection=False)
        self.events, self.errors, self.ends = queue.Queue(), queue.Queue(), queue.Queue()
        for name in EVENTS:
            self.client.on(name, lambda payload, name=name: self.events.put((name, payload)))
        self.client.on("connect_error", self.errors.put)
        self.client.on("disconnect", self.ends.put)
        auth = {"token": token or fake.where["token"]}
        self.client.connect(fake.where["socket_url"], transports=["websocket"], auth=auth, wait_timeout=10)

    def subscribe(self, cursors, sessions, limit=100):
        body = {"sessionIds": sessions, "cursors": cursors, "limit": limit}
        return self.client.call("com.claw.im.subscribeSessions", body, timeout=10)

    def subscribe_panels(self, panels):
        return self.client.call("com.claw.im.subscribePanels", {"panelIds": panels}, timeout=10)

    def next(self, name):
        """Returns the payload of the next event, which must have that name."""
        found, payload = self.events.get(timeout=30)
        assert found == name, f"{found} instead of {name}"
        return payload

    def next_event(self, name="claw.session.events"):
        payload = self.next(name)
        (event,) = payload["events"]
        assert payload["cursor"] == event["seq"] and payload["sessionId"] == event["sessionId"]
        return event

    def end(self):
        self.client.disconnect()
        return self.ends.get(timeout=30)


def refused(fake, **options):
    """Returns the reason why a login is refused."""
    before = fake.report()["refused"]
    try:
        Session(fake, **options)
    except socketio.exceptions.ConnectionError:
        assert fake.report()["refused"] == before + 1
        return True
    return False


def check_login(fake):
    assert refused(fake, token="wrong")
    fake.order(fault="connect", code=503)
    assert refused(fake)
    session = Session(fake)
    fake.order(connections=1)
    assert session.client.get_sid() is not None
    fake.set(revoke=True)
    session.ends.get(timeout=30)
    assert refused(fake)
    assert fake.call("/api/claw/sessions/list", {}, 401) == "Unauthorized"
    fake.set(revoke=False)
    assert fake.report()["complaints"] == []


def check_subscriptions(fake):
    direct = fake.where["direct"]
    old = fake.order(text="before", silent=True)
    session = Session(fake)
    ack = session.subscribe({}, [direct])
    assert ack["result"] is True
    (backlog,) = ack["data"]["sessions"]
    assert (backlog["sessionId"], backlog["cursor"]) == (direct, old["seq"])
    event = backlog["events"][-1]
    assert (event["type"], event["payload"]["content"]) == ("message.add", "before")
    (backlog,) = session.subscribe({direct: old["seq"]}, [direct])["data"]["sessions"]
    assert backlog["events"] == [] and backlog["cursor"] == old["seq"]
    fake.order(acknowledged=old["number"])
    assert session.subscribe_panels([]) == {
        "result": True,
        "data": {"panelIds": [PANEL], "groupId": fake.where["group"]},
    }
    missing = session.subscribe({}, ["session_nobody"])
    assert missing == {"result": False, "message": "Session session_nobody not found"}
    fake.order(fault="subscribe.panels")
    assert session.subscribe_panels([PANEL]) == {"result": False, "message": "Too many requests"}
    # An acknowledgement that is held back arrives later, and the call gets it.
    fake.set(hold=True)
    answers = queue.Queue()
    threading.Thread(target=lambda: answers.put(session.subscribe_panels([PANEL])), daemon=True).start()
    fake.order(subscribed=PANEL)
    fake.set(hold=False)
    assert answers.get(timeout=30)["result"] is True
    session.end()
    # What is above the limit follows the acknowledgement.
    for number in range(3):
        fake.order(text=f"more {number}", silent=True)
    session = Session(fake)
    (backlog,) = session.subscribe({direct: old["seq"]}, [direct], limit=2)["data"]["sessions"]
    assert [event["payload"]["content"] for event in backlog["events"]] == ["more 0", "more 1"]
    assert session.next_event()["payload"]["content"] == "more 2"
    session.end()
    assert fake.report()["complaints"] == []


def check_events(fake):
    direct = fake.where["direct"]
    session = Session(fake)
    session.subscribe({}, [direct])
    session.subscribe_panels([PANEL])
    hello = fake.order(text="hello 你好 🐈")
    event = session.next_event()
    assert (event["seq"], event["payload"]["messageId"]) == (hello["seq"], hello["message"])
    assert event["payload"]["authorInfo"]["nickname"] == "Ann" and "groupId" not in event["payload"]
    inbox = session.next("notify:chat.inbox.append")
    assert (inbox["type"], inbox["payload"]["messageId"]) == ("message", hello["message"])
    assert inbox["payload"]["messagePlainContent"] == "hello 你好 🐈"
    talk = fake.order(text="look", chat=PANEL, mention=True)
    event = session.next_event("claw.panel.events")
    assert event["payload"]["meta"] == {"mentions": [fake.where["bot"]]}
    assert event["payload"]["groupId"] == fake.where["group"]
    notice = session.next("notify:chat.message.add")
    assert (notice["_id"], notice["converseId"], notice["content"]) == (talk["message"], PANEL, "look")
    for kind in ("update", "recall", "delete"):
        fake.order(**{kind: talk["number"], "text": "changed"})
        event = session.next_event("claw.panel.events")
        assert (event["type"], event["payload"]["messageId"]) == (f"message.{kind}", talk["message"])
        assert session.next(f"notify:chat.message.{kind}")["_id"] == talk["message"]
    fake.set(feed="events")
    fake.order(content={"image": ["a", 1, None, True, 1.5]})
    assert session.next_event()["payload"]["content"] == {"image": ["a", 1, None, True, 1.5]}
    fake.order(text="an answer", quote=hello["message"])
    assert session.next_event()["payload"]["meta"]["reply"]["content"] == "hello 你好 🐈"
    fake.order(repeat=hello["number"])
    assert session.next_event()["seq"] == hello["seq"]
    fake.order(event="notify:chat.message.add", payload={"any": "thing"})
    assert session.next("notify:chat.message.add") == {"any": "thing"}
    session.end()
    fake.set(feed="both")
    assert fake.report()["complaints"] == []


def check_calls(fake):
    direct = fake.where["direct"]
    assert fake.call("/api/claw/sessions/list", {}, 401, "wrong") == "Unauthorized"
    (listed,) = fake.call("/api/claw/sessions/list", {})["sessions"]
    assert listed["sessionId"] == direct and listed["converseId"]
    fake.order(panel="folder1", type=1)
    panels = {panel["id"]: panel["type"] for panel in fake.call("/api/claw/groups/get", {})["panels"]}
    assert panels == {PANEL: 0, "folder1": 1}
    fake.set(feed="events")
    session = Session(fake)
    cursor = session.subscribe({}, [direct])["data"]["sessions"][0]["cursor"]
    fake.call("/api/claw/sessions/send", {"sessionId": direct, "content": "from the bot"})
    event = session.next_event()
    assert (event["payload"]["author"], event["payload"]["content"]) == (fake.where["bot"], "from the bot")
    session.end()
    send = {"panelId": PANEL, "content": "to the panel", "groupId": fake.where["group"]}
    fake.call("/api/claw/groups/panels/send", send)
    messages = fake.call("/api/claw/groups/panels/messages", {"panelId": PANEL, "limit": 1})["messages"]
    assert [message["content"] for message in messages] == ["to the panel"]
    sent = [(sent["chat"], sent["text"]) for sent in fake.report()["sent"]]
    assert sent == [(direct, "from the bot"), (PANEL, "to the panel")]
    # A long poll waits for the next event.
    watch = {"sessionId": direct, "cursor": cursor + 1, "timeoutMs": 30_000, "limit": 10}
    answers = queue.Queue()
    watcher = lambda: answers.put(fake.call("/api/claw/sessions/watch", watch))
    threading.Thread(target=watcher, daemon=True).start()
    fake.order(watches=1)
    fake.order(text="awaited")
    news = answers.get(timeout=30)
    assert ([event["payload"]["content"] for event in news["events"]], news["cursor"]) == (["awaited"], cursor + 2)
    idle = fake.call("/api/claw/sessions/watch", {**watch, "cursor": cursor + 2, "timeoutMs": 1})
    assert (idle["events"], idle["cursor"]) == ([], cursor + 2)
    fake.order(fault="sessions.send", code=429)
    fake.call("/api/claw/sessions/send", {"sessionId": direct, "content": "x"}, 429)
    fake.call("/api/claw/sessions/send", {"sessionId": "session_nobody", "content": "x"}, 404)
    fake.set(feed="both")
    assert fake.report()["complaints"] == []


def check_connection(fake):
    fake.set(ping=200)
    session = Session(fake)
    fake.order(answered_pings=2)
    for end, reason in (("close", "transport error"), ("cut", "transport error"), ("disconnect", "server disconnect")):
        fake.set(**{end: True})
        assert session.ends.get(timeout=30) == reason
        fake.order(open=0)
        session = Session(fake)
    assert session.end() == "client disconnect"
    fake.order(open=0)
    fake.set(ping=25_000)
    assert fake.report()["complaints"] == []


def check_complaints(fake):
    """Sends what no client should send."""
    other = "default" if fake.serializer == "msgpack" else "msgpack"
    assert not refused_quietly(fake, other)
    direct = fake.where["direct"]
    session = Session(fake)
    wrong = session.client.call("com.claw.im.subscribeSessions", {"sessionIds": direct}, timeout=10)
    assert wrong == {"result": False, "message": "sessionIds is invalid"}
    assert session.subscribe({direct: 999}, [direct])["result"] is False
    session.client.emit("com.claw.im.tomorrow", {})
    session.subscribe_panels([PANEL])
    fake.call("/api/claw/sessions/send", {"sessionId": direct, "content": ""}, 400)
    fake.call("/api/claw/sessions/send", {"sessionId": direct}, 400)
    fake.call("/api/claw/groups/panels/messages", {"panelId": PANEL, "limit": 101}, 400)
    fake.call("/api/claw/groups/panels/messages", {"panelId": PANEL, "tomorrow": 1})
    assert len(fake.report()["complaints"]) == 8, fake.report()["complaints"]
    session.client.emit("com.claw.im.subscribePanels", b"bytes")
    session.ends.get(timeout=30)
    assert len(fake.report()["complaints"]) == 9, fake.report()["complaints"]


def refused_quietly(fake, serializer):
    """Connects with the other form of packets: the fake ends the connection."""
    try:
        session = Session(fake, serializer=serializer)
    except socketio.exceptions.ConnectionError:
        return False
    return session.client.connected


def main(binary):
    fake = Fake(binary)
    checks = [check_login, check_subscriptions, check_events, check_calls, check_connection, check_complaints]
    for serializer in ("msgpack", "default"):
        for check in checks:
            fake.start(serializer)
            check(fake)
            print("ok", serializer, check.__name__)
    fake.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
