"""A small Mochat on python-socketio's server: a Socket.IO peer that we did not write, for clients of ours.

usage: mochat_socketio_server.py [--serializer msgpack|default] [--ping SECONDS] [--token TOKEN]

Needs python-socketio 5, msgpack, simple-websocket and werkzeug. The API and the socket have one
address. Prints one line of JSON with "base_url", "token", "bot" (the user id of the bot) and
"group". Then it reads commands from standard input, one JSON object a line, and answers each with
one line:

- {"session": id} and {"panel": id} add a session (session_...) or a text panel;
- {"push": id, "text": ..., "author": ..., "meta": {...}} sends a message of a person to a session or
  panel, and returns "message" (its id) and "seq" (the number of its event);
- {"event": name, "payload": ...} emits any event to all clients;
- {"subscribed": id} waits until a client is subscribed to a session or panel;
- {"sends": count} waits until the bot has sent that many messages;
- {"disconnects": count} waits until clients have left that often;
- {"pings": count} waits until clients have answered that many pings of Engine.IO;
- {"close": true} disconnects every client, {"cut": true} ends every connection without a word;
- {"revoke": true} makes the token invalid, {"restore": true} valid again;
- {"report": true} returns "sent" (texts with "chat" and "replyTo"), "cursors" (the highest that
  clients have shown), "logins", "refused", "pings" and "clients" (connected now).

A wait that takes longer than 60 seconds is answered with {"error": ...}. The server exits at the end
of its input.
"""

import argparse
import json
import socket
import sys
import threading
from datetime import datetime, timezone

import engineio
import socketio
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

BOT = "7e5700000000000000000b07"
GROUP = "7e5700000000000000006009"
WAIT_LIMIT = 60


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Mochat:
    """Sessions and panels with numbered events, and what clients did."""

    def __init__(self, token):
        self.token = token
        self.is_revoked = False
        self.changed = threading.Condition(threading.RLock())
        self.chats = {}
        self.subscriptions = {}
        self.sent = []
        self.cursors = {}
        self.logins = self.refused = self.disconnects = self.pings = self.last = 0

    def is_right(self, token):
        return token == self.token and not self.is_revoked

    def chat(self, chat):
        if chat not in self.chats:
            raise Refused(404, f"{chat} not found")
        return self.chats[chat]

    def add_event(self, chat, author, text, meta):
        self.last += 1
        events = self.chats.setdefault(chat, [])
        payload = {
            "messageId": f"message{self.last}",
            "author": author,
            "authorInfo": {"userId": author, "nickname": author.title()},
            "content": text,
            "meta": meta,
            "converseId": f"converse_{chat}" if chat.startswith("session_") else chat,
        }
        if not chat.startswith("session_"):
            payload["groupId"] = GROUP
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = {"seq": len(events) + 1, "sessionId": chat, "type": "message.add"}
        events.append({**event, "timestamp": now, "payload": payload})
        return events[-1]

    def events_after(self, session, cursor, limit):
        events = self.chat(session)[cursor : cursor + limit]
        self.cursors[session] = max(cursor, self.cursors.get(session, 0))
        return {"sessionId": session, "cursor": cursor + len(events), "events": events}

    def wait(self, condition, limit=WAIT_LIMIT):
        with self.changed:
            return self.changed.wait_for(condition, limit)


class Socket:
    """The Socket.IO side."""

    def __init__(self, mochat, serializer, ping):
        self.mochat = mochat
        self.transports = []
        self.server = socketio.Server(
            async_mode="threading",
            transports=["websocket"],
            serializer=serializer,
            cors_allowed_origins="*",
            ping_interval=ping,
            ping_timeout=20,
        )
        self.server.on("connect", self.connect)
        self.server.on("disconnect", self.disconnect)
        self.server.on("com.claw.im.subscribeSessions", self.subscribe_sessions)
        self.server.on("com.claw.im.subscribePanels", self.subscribe_panels)
        self.count_pings()

    def count_pings(self):
        """Counts the answers to pings, which Engine.IO handles silently."""
        mochat, original = self.mochat, engineio.socket.Socket.receive

        def receive(connection, packet):
            if packet.packet_type == engineio.packet.PONG:
                with mochat.changed:
                    mochat.pings += 1
                    mochat.changed.notify_all()
            return original(connection, packet)

        engineio.socket.Socket.receive = receive

    def connect(self, client, environ, auth=None):
        mochat = self.mochat
        with mochat.changed:
            is_right = isinstance(auth, dict) and mochat.is_right(auth.get("token"))
            mochat.logins += is_right
            mochat.refused += not is_right
            if is_right:
                mochat.subscriptions[client] = set()
            mochat.changed.notify_all()
        if not is_right:
            raise socketio.exceptions.ConnectionRefusedError("Unauthorized", {"code": 401})

    def disconnect(self, client, reason):
        with self.mochat.changed:
            self.mochat.subscriptions.pop(client, None)
            self.mochat.disconnects += 1
            self.mochat.changed.notify_all()

    def subscribe_sessions(self, client, body):
        mochat = self.mochat
        with mochat.changed:
            try:
                cursors, limit = body["cursors"], body["limit"]
                sessions = [
                    mochat.events_after(session, cursors.get(session, 0), limit)
                    for session in body["sessionIds"]
                ]
            except (Refused, KeyError, TypeError) as problem:
                return {"result": False, "message": repr(problem)}
            mochat.subscriptions[client].update(body["sessionIds"])
            mochat.changed.notify_all()
        return {"result": True, "data": {"sessions": sessions}}

    def subscribe_panels(self, client, body):
        mochat = self.mochat
        with mochat.changed:
            try:
                panels = body["panelIds"] or [chat for chat in mochat.chats if not chat.startswith("session_")]
                for panel in panels:
                    mochat.chat(panel)
            except (Refused, KeyError, TypeError) as problem:
                return {"result": False, "message": repr(problem)}
            mochat.subscriptions[client].update(panels)
            mochat.changed.notify_all()
        return {"result": True, "data": {"panelIds": panels, "groupId": GROUP}}

    def push(self, chat, author, text, meta):
        mochat = self.mochat
        with mochat.changed:
            event = mochat.add_event(chat, author, text, meta)
            clients = [client for client, chats in mochat.subscriptions.items() if chat in chats]
            mochat.changed.notify_all()
        name = "claw.session.events" if chat.startswith("session_") else "claw.panel.events"
        for client in clients:
            payload = {"sessionId": chat, "cursor": event["seq"], "events": [event]}
            self.server.emit(name, payload, to=client)
        return event

    def close(self):
        for client in list(self.mochat.subscriptions):
            self.server.disconnect(client)

    def cut(self):
        """Ends the TCP connection of every client."""
        while self.transports:
            try:
                self.transports.pop().shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it had ended before

    def application(self, api):
        """Returns the WSGI application. It keeps the TCP connection of each client for `cut`."""
        inner = socketio.WSGIApp(self.server, api)

        def outer(environ, start_response):
            if environ.get("HTTP_UPGRADE", "").lower() == "websocket":
                self.transports.append(environ["werkzeug.socket"])
            return inner(environ, start_response)

        return outer


class Api:
    """The HTTP side, as a WSGI application."""

    def __init__(self, mochat, push):
        self.mochat = mochat
        self.push = push
        self.calls = {
            "/api/claw/sessions/list": self.list_sessions,
            "/api/claw/groups/get": self.read_group,
            "/api/claw/sessions/watch": self.watch,
            "/api/claw/groups/panels/messages": self.read_panel,
            "/api/claw/sessions/send": lambda body: self.send(body["sessionId"], body),
            "/api/claw/groups/panels/send": lambda body: self.send(body["panelId"], body),
        }

    @Request.application
    def __call__(self, request):
        try:
            call = self.calls.get(request.path)
            if call is None or request.method != "POST":
                raise Refused(404, "Not found")
            if not self.mochat.is_right(request.headers.get("X-Claw-Token")):
                raise Refused(401, "Unauthorized")
            with self.mochat.changed:
                status, body = 200, {"code": 200, "data": call(request.get_json())}
        except Refused as problem:
            status, body = problem.code, {"code": problem.code, "message": str(problem)}
        except (KeyError, TypeError) as problem:
            status, body = 400, {"code": 400, "message": repr(problem)}
        return Response(json.dumps(body), status, content_type="application/json")

    def list_sessions(self, body):
        sessions = [chat for chat in self.mochat.chats if chat.startswith("session_")]
        return {"sessions": [{"sessionId": chat, "converseId": f"converse_{chat}"} for chat in sessions]}

    def read_group(self, body):
        panels = [chat for chat in self.mochat.chats if not chat.startswith("session_")]
        return {"_id": GROUP, "panels": [{"id": chat, "name": chat, "type": 0} for chat in panels]}

    def watch(self, body):
        session, cursor = body["sessionId"], body["cursor"]
        events = self.mochat.chat(session)
        limit = body["timeoutMs"] / 1000
        self.mochat.wait(lambda: len(events) > cursor or self.mochat.is_revoked, limit)
        return self.mochat.events_after(session, cursor, body["limit"])

    def read_panel(self, body):
        events = self.mochat.chat(body["panelId"])[-body.get("limit", 50) :]
        messages = [{**event["payload"], "createdAt": event["timestamp"]} for event in reversed(events)]
        return {"groupId": GROUP, "panelId": body["panelId"], "messages": messages}

    def send(self, chat, body):
        self.mochat.chat(chat)
        if not isinstance(body["content"], str) or not body["content"]:
            raise Refused(400, "content is invalid")
        self.push(chat, BOT, body["content"], {})
        self.mochat.sent.append({"chat": chat, "text": body["content"], "replyTo": body.get("replyTo")})
        self.mochat.changed.notify_all()
        return {"sessionId": chat}


def report(mochat):
    return {
        "sent": mochat.sent,
        "cursors": mochat.cursors,
        "logins": mochat.logins,
        "refused": mochat.refused,
        "pings": mochat.pings,
        "clients": len(mochat.subscriptions),
    }


def obey(mochat, peer, order):
    """Carries out a command and returns its answer."""

    def reached(condition):
        return {} if mochat.wait(condition) else {"error": f"not in {WAIT_LIMIT} seconds: {order}"}

    if "push" in order:
        person, meta = order.get("author", "ann"), order.get("meta", {})
        event = peer.push(order["push"], person, order["text"], meta)
        return {"message": event["payload"]["messageId"], "seq": event["seq"]}
    if "session" in order or "panel" in order:
        with mochat.changed:
            mochat.chats.setdefault(order.get("session") or order["panel"], [])
        return {}
    if "event" in order:
        peer.server.emit(order["event"], order.get("payload"))
        return {}
    if "subscribed" in order:
        return reached(lambda: any(order["subscribed"] in chats for chats in mochat.subscriptions.values()))
    if "sends" in order:
        return reached(lambda: len(mochat.sent) >= order["sends"])
    if "disconnects" in order:
        return reached(lambda: mochat.disconnects >= order["disconnects"])
    if "pings" in order:
        return reached(lambda: mochat.pings >= order["pings"])
    if "close" in order:
        peer.close()
        return {}
    if "cut" in order:
        peer.cut()
        return {}
    if "revoke" in order or "restore" in order:
        with mochat.changed:
            mochat.is_revoked = "revoke" in order
            mochat.changed.notify_all()
        return {}
    if "report" in order:
        return report(mochat)
    return {"error": f"unknown command: {order}"}


class QuietHandler(WSGIRequestHandler):
    def log(self, type, message, *args):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serializer", choices=["msgpack", "default"], default="msgpack")
    parser.add_argument("--ping", type=float, default=25)
    parser.add_argument("--token", default="claw_TESTtoken")
    options = parser.parse_args()
    mochat = Mochat(options.token)
    peer = Socket(mochat, options.serializer, options.ping)
    application = peer.application(Api(mochat, peer.push))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=QuietHandler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = {"base_url": f"http://127.0.0.1:{server.port}", "token": options.token, "bot": BOT, "group": GROUP}
    print(json.dumps(where), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(mochat, peer, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
