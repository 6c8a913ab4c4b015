//! The calls that the fake knows, with their parameters.

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text that is not empty.
    Text,
    /// An integer within these bounds.
    Number(i64, i64),
    /// A list of texts that are not empty.
    Ids,
    /// An object of integers that are not negative.
    Cursors,
}

/// A parameter of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_needed: bool,
}

const fn need(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_needed: true,
    }
}

const fn may(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_needed: false,
    }
}

/// A call: of the HTTP API, or an event of the socket that is acknowledged.
#[derive(Debug)]
pub(crate) struct Route {
    /// Name of the call in records and faults.
    pub(crate) name: &'static str,
    /// Its path, or the name of the event.
    place: &'static str,
    pub(crate) fields: &'static [Field],
}

/// Largest number of events in one answer.
const LIMIT: Kind = Kind::Number(1, 1000);
/// Largest number of messages in one answer.
const PAGE: Kind = Kind::Number(1, 100);

const ROUTES: &[Route] = &[
    Route {
        name: "sessions.list",
        place: "/api/claw/sessions/list",
        fields: &[may("updatedAfter", Kind::Text), may("limit", LIMIT)],
    },
    Route {
        name: "groups.get",
        place: "/api/claw/groups/get",
        fields: &[may("groupId", Kind::Text)],
    },
    Route {
        name: "sessions.watch",
        place: "/api/claw/sessions/watch",
        fields: &[
            need("sessionId", Kind::Text),
            need("cursor", Kind::Number(0, i64::MAX)),
            need("timeoutMs", Kind::Number(0, 120_000)),
            need("limit", LIMIT),
        ],
    },
    Route {
        name: "panels.messages",
        place: "/api/claw/groups/panels/messages",
        fields: &[
            need("panelId", Kind::Text),
            may("groupId", Kind::Text),
            may("beforeMessageId", Kind::Text),
            may("limit", PAGE),
        ],
    },
    Route {
        name: "sessions.send",
        place: "/api/claw/sessions/send",
        fields: &[
            need("sessionId", Kind::Text),
            need("content", Kind::Text),
            may("replyTo", Kind::Text),
        ],
    },
    Route {
        name: "panels.send",
        place: "/api/claw/groups/panels/send",
        fields: &[
            need("panelId", Kind::Text),
            need("content", Kind::Text),
            may("replyTo", Kind::Text),
            may("groupId", Kind::Text),
        ],
    },
    Route {
        name: "subscribe.sessions",
        place: crate::account::SUBSCRIBE_SESSIONS,
        fields: &[
            need("sessionIds", Kind::Ids),
            need("cursors", Kind::Cursors),
            need("limit", LIMIT),
        ],
    },
    Route {
        name: "subscribe.panels",
        place: crate::account::SUBSCRIBE_PANELS,
        fields: &[need("panelIds", Kind::Ids)],
    },
];

/// Finds a call by its path, or by the name of its event.
pub(crate) fn find(place: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.place == place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_path_or_event() {
        let table = [
            ("/api/claw/sessions/list", Some("sessions.list")),
            ("com.claw.im.subscribePanels", Some("subscribe.panels")),
            ("/api/claw/sessions/list/", None),
            ("/api/claw/sessions/create", None),
        ];
        for (place, name) in table {
            assert_eq!(find(place).map(|route| route.name), name, "{place}");
        }
    }
}
