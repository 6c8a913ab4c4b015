//! The calls that the fake knows, with their parameters and permissions.

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
    Multipart,
}

/// A call of the API.
#[derive(Debug)]
pub(crate) struct Route {
    /// Name of the call in records and faults.
    pub(crate) name: &'static str,
    verb: &'static str,
    path: &'static str,
    /// The permission that the call needs; `None` if it also needs no token.
    pub(crate) scope: Option<&'static str>,
    pub(crate) query: &'static [Field],
    pub(crate) form: BodyForm,
    pub(crate) body: &'static [Field],
}

const fn route(
    name: &'static str,
    verb: &'static str,
    path: &'static str,
    scope: Option<&'static str>,
) -> Route {
    Route {
        name,
        verb,
        path,
        scope,
        query: &[],
        form: BodyForm::Nothing,
        body: &[],
    }
}

impl Route {
    const fn asking(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    const fn with_json(self, body: &'static [Field]) -> Self {
        Self {
            form: BodyForm::Json,
            body,
            ..self
        }
    }

    const fn with_form(self, body: &'static [Field]) -> Self {
        Self {
            form: BodyForm::Multipart,
            body,
            ..self
        }
    }

    /// Returns the variables of the path in order, or `None` if the path is another one.
    fn matches(&self, path: &str) -> Option<Vec<String>> {
        let mut variables = Vec::new();
        let mut parts = path.split('/');
        for wanted in self.path.split('/') {
            let part = parts.next()?;
            if wanted == ":" && !part.is_empty() {
                variables.push(part.to_owned());
            } else if wanted != part {
                return None;
            }
        }
        parts.next().is_none().then_some(variables)
    }
}

const SEND: Option<&str> = Some("im:message");
const RESOURCE: Option<&str> = Some("im:resource");
const REACTION: Option<&str> = Some("im:message.reactions:write_only");
const CARD: Option<&str> = Some("cardkit:card:write");

const ROUTES: &[Route] = &[
    route(
        "token",
        "POST",
        "/open-apis/auth/v3/tenant_access_token/internal",
        None,
    )
    .with_json(&[may("app_id", Kind::Text), may("app_secret", Kind::Text)]),
    route("ws.endpoint", "POST", "/callback/ws/endpoint", None)
        .with_json(&[may("AppID", Kind::Text), may("AppSecret", Kind::Text)]),
    // Needs a token, but no permission.
    route("bot.info", "GET", "/open-apis/bot/v3/info", Some("")),
    route("message.create", "POST", "/open-apis/im/v1/messages", SEND)
        .asking(&[need("receive_id_type", Kind::Text)])
        .with_json(&[
            need("receive_id", Kind::Text),
            need("msg_type", Kind::Text),
            need("content", Kind::Text),
            may("uuid", Kind::Text),
        ]),
    route(
        "message.reply",
        "POST",
        "/open-apis/im/v1/messages/:/reply",
        SEND,
    )
    .with_json(&[
        need("msg_type", Kind::Text),
        need("content", Kind::Text),
        may("reply_in_thread", Kind::Flag),
        may("uuid", Kind::Text),
    ]),
    route("message.get", "GET", "/open-apis/im/v1/messages/:", SEND).asking(&[
        may("user_id_type", Kind::Text),
        may("card_msg_content_type", Kind::Text),
    ]),
    route("message.update", "PUT", "/open-apis/im/v1/messages/:", SEND)
        .with_json(&[need("msg_type", Kind::Text), need("content", Kind::Text)]),
    route(
        "message.patch",
        "PATCH",
        "/open-apis/im/v1/messages/:",
        SEND,
    )
    .with_json(&[need("content", Kind::Text)]),
    route(
        "message.delete",
        "DELETE",
        "/open-apis/im/v1/messages/:",
        SEND,
    ),
    route(
        "resource.get",
        "GET",
        "/open-apis/im/v1/messages/:/resources/:",
        SEND,
    )
    .asking(&[need("type", Kind::Text)]),
    route(
        "reaction.create",
        "POST",
        "/open-apis/im/v1/messages/:/reactions",
        REACTION,
    )
    .with_json(&[need("reaction_type", Kind::Object)]),
    route(
        "reaction.list",
        "GET",
        "/open-apis/im/v1/messages/:/reactions",
        REACTION,
    )
    .asking(&[
        may("reaction_type", Kind::Text),
        may("page_token", Kind::Text),
        may("page_size", Kind::Number),
        may("user_id_type", Kind::Text),
    ]),
    route(
        "reaction.delete",
        "DELETE",
        "/open-apis/im/v1/messages/:/reactions/:",
        REACTION,
    ),
    route("image.create", "POST", "/open-apis/im/v1/images", RESOURCE)
        .with_form(&[need("image_type", Kind::Text), need("image", Kind::File)]),
    route("file.create", "POST", "/open-apis/im/v1/files", RESOURCE).with_form(&[
        need("file_type", Kind::Text),
        need("file_name", Kind::Text),
        may("duration", Kind::Number),
        need("file", Kind::File),
    ]),
    route("card.create", "POST", "/open-apis/cardkit/v1/cards", CARD)
        .with_json(&[need("type", Kind::Text), need("data", Kind::Text)]),
    route("card.update", "PUT", "/open-apis/cardkit/v1/cards/:", CARD).with_json(&[
        need("card", Kind::Object),
        may("uuid", Kind::Text),
        need("sequence", Kind::Number),
    ]),
    route(
        "card.settings",
        "PATCH",
        "/open-apis/cardkit/v1/cards/:/settings",
        CARD,
    )
    .with_json(&[
        need("settings", Kind::Text),
        may("uuid", Kind::Text),
        need("sequence", Kind::Number),
    ]),
    route(
        "card.content",
        "PUT",
        "/open-apis/cardkit/v1/cards/:/elements/:/content",
        CARD,
    )
    .with_json(&[
        need("content", Kind::Text),
        may("uuid", Kind::Text),
        need("sequence", Kind::Number),
    ]),
];

/// Returns the call of a request, and the variables of its path.
pub(crate) fn find(verb: &str, path: &str) -> Option<(&'static Route, Vec<String>)> {
    let mut routes = ROUTES.iter().filter(|route| route.verb == verb);
    routes.find_map(|route| Some((route, route.matches(path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_with_their_variables() {
        let found = |verb, path| find(verb, path).map(|(route, ids)| (route.name, ids));
        let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found("PUT", "/open-apis/cardkit/v1/cards/7/elements/text/content"),
            Some(("card.content", ids(&["7", "text"])))
        );
        assert_eq!(
            found("GET", "/open-apis/im/v1/messages/om_1"),
            Some(("message.get", ids(&["om_1"])))
        );
        assert_eq!(found("GET", "/open-apis/im/v1/messages/"), None);
        assert_eq!(
            found("GET", "/open-apis/im/v1/messages/om_1/read_users"),
            None
        );
        assert_eq!(found("GET", "/open-apis/im/v1/images"), None);
    }
}
