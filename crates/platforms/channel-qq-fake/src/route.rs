//! The calls that the fake knows, with their parameters.

use crate::model::ChatKind;

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
    Object,
    /// A file of a form.
    File,
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

/// Form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyForm {
    Nothing,
    Json,
    /// JSON, or a form if there is a file.
    JsonOrForm,
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Token,
    Me,
    Gateway,
    GatewayBot,
    Send(ChatKind),
    Upload(ChatKind),
    Download,
}

/// A call of the API.
#[derive(Debug)]
pub(crate) struct Route {
    /// Name of the call in records and faults.
    pub(crate) name: &'static str,
    verb: &'static str,
    /// The path; `{}` matches any part.
    path: &'static str,
    pub(crate) action: Action,
    pub(crate) query: &'static [Field],
    pub(crate) form: BodyForm,
    pub(crate) body: &'static [Field],
}

const fn get(name: &'static str, path: &'static str, action: Action) -> Route {
    Route {
        name,
        verb: "GET",
        path,
        action,
        query: &[],
        form: BodyForm::Nothing,
        body: &[],
    }
}

const fn post(
    name: &'static str,
    path: &'static str,
    action: Action,
    body: &'static [Field],
) -> Route {
    Route {
        name,
        verb: "POST",
        path,
        action,
        query: &[],
        form: BodyForm::Json,
        body,
    }
}

/// Parameters of messages to users and groups. The ids repeat the path; the official client sends
/// them.
const MESSAGE: &[Field] = &[
    may("openid", Kind::Text),
    may("group_openid", Kind::Text),
    may("msg_type", Kind::Number),
    may("content", Kind::Text),
    may("markdown", Kind::Object),
    may("keyboard", Kind::Object),
    may("media", Kind::Object),
    may("embed", Kind::Object),
    may("ark", Kind::Object),
    may("input_notify", Kind::Object),
    may("message_reference", Kind::Object),
    may("msg_id", Kind::Text),
    may("msg_seq", Kind::Number),
    may("event_id", Kind::Text),
];

/// Parameters of messages to guilds.
const GUILD_MESSAGE: &[Field] = &[
    may("channel_id", Kind::Text),
    may("guild_id", Kind::Text),
    may("content", Kind::Text),
    may("markdown", Kind::Object),
    may("keyboard", Kind::Object),
    may("embed", Kind::Object),
    may("ark", Kind::Object),
    may("image", Kind::Text),
    may("file_image", Kind::File),
    may("message_reference", Kind::Object),
    may("msg_id", Kind::Text),
    may("event_id", Kind::Text),
];

const FILE: &[Field] = &[
    may("openid", Kind::Text),
    may("group_openid", Kind::Text),
    need("file_type", Kind::Number),
    may("url", Kind::Text),
    may("file_data", Kind::Text),
    may("file_name", Kind::Text),
    may("srv_send_msg", Kind::Flag),
];

const fn guild(name: &'static str, path: &'static str, kind: ChatKind) -> Route {
    Route {
        form: BodyForm::JsonOrForm,
        ..post(name, path, Action::Send(kind), GUILD_MESSAGE)
    }
}

const ROUTES: &[Route] = &[
    post(
        "token",
        "/app/getAppAccessToken",
        Action::Token,
        &[need("appId", Kind::Text), need("clientSecret", Kind::Text)],
    ),
    get("me", "/users/@me", Action::Me),
    get("gateway", "/gateway", Action::Gateway),
    get("gateway.bot", "/gateway/bot", Action::GatewayBot),
    post(
        "user.send",
        "/v2/users/{}/messages",
        Action::Send(ChatKind::User),
        MESSAGE,
    ),
    post(
        "group.send",
        "/v2/groups/{}/messages",
        Action::Send(ChatKind::Group),
        MESSAGE,
    ),
    guild("channel.send", "/channels/{}/messages", ChatKind::Channel),
    guild("dms.send", "/dms/{}/messages", ChatKind::Dms),
    post(
        "user.file",
        "/v2/users/{}/files",
        Action::Upload(ChatKind::User),
        FILE,
    ),
    post(
        "group.file",
        "/v2/groups/{}/files",
        Action::Upload(ChatKind::Group),
        FILE,
    ),
    Route {
        query: &[
            need("appid", Kind::Text),
            need("fileid", Kind::Text),
            need("rkey", Kind::Text),
        ],
        ..get("file.get", "/download", Action::Download)
    },
];

impl Route {
    /// Returns `true` if the call needs a token.
    pub(crate) fn needs_token(&self) -> bool {
        !matches!(self.action, Action::Token | Action::Download)
    }

    /// Returns the part of the path at `{}`; an empty text if the pattern has none.
    fn target<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (mut wanted, mut parts) = (self.path.split('/'), path.split('/'));
        let mut target = "";
        loop {
            match (wanted.next(), parts.next()) {
                (None, None) => return Some(target),
                (Some("{}"), Some(part)) if !part.is_empty() => target = part,
                (Some(wanted), Some(part)) if wanted == part => {}
                _ => return None,
            }
        }
    }
}

/// Returns the call of a request, and the chat in its path.
pub(crate) fn find<'a>(verb: &str, path: &'a str) -> Option<(&'static Route, &'a str)> {
    let mut routes = ROUTES.iter().filter(|route| route.verb == verb);
    routes.find_map(|route| Some((route, route.target(path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_verb_and_path() {
        let table = [
            ("GET", "/users/@me", Some(("me", ""))),
            ("POST", "/users/@me", None),
            ("POST", "/v2/users/A1/messages", Some(("user.send", "A1"))),
            ("POST", "/v2/groups/G/files", Some(("group.file", "G"))),
            ("POST", "/v2/groups//files", None),
            ("POST", "/dms/1/messages/", None),
            ("POST", "/dms/1/2/messages", None),
            ("GET", "/gateway/bot", Some(("gateway.bot", ""))),
        ];
        for (verb, path, expected) in table {
            let found = find(verb, path).map(|(route, target)| (route.name, target));
            assert_eq!(found, expected, "{verb} {path}");
        }
    }
}
