//! The calls that the fake knows, with their parameters and permissions.

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The open API: the token is in a header, and refusals have a word.
    Open,
    /// The older API: the token is in the query, and refusals have a number.
    Oapi,
}

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
    Object,
    List,
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

/// Condition of a call on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No token.
    Open,
    /// A token.
    Token,
    /// A token of an app with this permission.
    Scope(&'static str),
}

/// A call of the API.
#[derive(Debug)]
pub(crate) struct Route {
    /// Name of the call in records and faults.
    pub(crate) name: &'static str,
    pub(crate) host: Host,
    verb: &'static str,
    /// The path; one that ends with a slash matches every path of one more part.
    path: &'static str,
    pub(crate) access: Access,
    pub(crate) query: &'static [Field],
    pub(crate) form: BodyForm,
    pub(crate) body: &'static [Field],
}

const fn open(
    name: &'static str,
    verb: &'static str,
    path: &'static str,
    access: Access,
    body: &'static [Field],
) -> Route {
    Route {
        name,
        host: Host::Open,
        verb,
        path,
        access,
        query: &[],
        form: BodyForm::Json,
        body,
    }
}

const SEND: Access = Access::Scope("qyapi_robot_sendmsg");
const CARD: Access = Access::Scope("Card.Instance.Write");
const STREAM: Access = Access::Scope("Card.Streaming.Write");

const ROUTES: &[Route] = &[
    open(
        "token",
        "POST",
        "/v1.0/oauth2/accessToken",
        Access::Open,
        &[need("appKey", Kind::Text), need("appSecret", Kind::Text)],
    ),
    open(
        "connection.open",
        "POST",
        "/v1.0/gateway/connections/open",
        Access::Open,
        &[
            need("clientId", Kind::Text),
            need("clientSecret", Kind::Text),
            need("subscriptions", Kind::List),
            may("ua", Kind::Text),
            may("localIp", Kind::Text),
        ],
    ),
    open(
        "robot.private",
        "POST",
        "/v1.0/robot/oToMessages/batchSend",
        SEND,
        &[
            need("robotCode", Kind::Text),
            need("userIds", Kind::List),
            need("msgKey", Kind::Text),
            need("msgParam", Kind::Text),
        ],
    ),
    open(
        "robot.group",
        "POST",
        "/v1.0/robot/groupMessages/send",
        SEND,
        &[
            need("robotCode", Kind::Text),
            need("msgKey", Kind::Text),
            need("msgParam", Kind::Text),
            may("openConversationId", Kind::Text),
            may("coolAppCode", Kind::Text),
        ],
    ),
    open(
        "file.url",
        "POST",
        "/v1.0/robot/messageFiles/download",
        SEND,
        &[
            need("downloadCode", Kind::Text),
            need("robotCode", Kind::Text),
        ],
    ),
    open(
        "card.create",
        "POST",
        "/v1.0/card/instances/createAndDeliver",
        CARD,
        &[
            need("cardTemplateId", Kind::Text),
            need("outTrackId", Kind::Text),
            need("cardData", Kind::Object),
            need("openSpaceId", Kind::Text),
            may("userId", Kind::Text),
            may("userIdType", Kind::Number),
            may("callbackType", Kind::Text),
            may("callbackRouteKey", Kind::Text),
            may("privateData", Kind::Object),
            may("openDynamicDataConfig", Kind::Object),
            may("imGroupOpenSpaceModel", Kind::Object),
            may("imRobotOpenSpaceModel", Kind::Object),
            may("imGroupOpenDeliverModel", Kind::Object),
            may("imRobotOpenDeliverModel", Kind::Object),
        ],
    ),
    open(
        "card.stream",
        "PUT",
        "/v1.0/card/streaming",
        STREAM,
        &[
            need("outTrackId", Kind::Text),
            need("guid", Kind::Text),
            need("key", Kind::Text),
            need("content", Kind::Text),
            may("isFull", Kind::Flag),
            may("isFinalize", Kind::Flag),
            may("isError", Kind::Flag),
        ],
    ),
    open(
        "card.update",
        "PUT",
        "/v1.0/card/instances",
        CARD,
        &[
            need("outTrackId", Kind::Text),
            may("cardData", Kind::Object),
            may("privateData", Kind::Object),
            may("cardUpdateOptions", Kind::Object),
            may("userIdType", Kind::Number),
        ],
    ),
    Route {
        name: "media.upload",
        host: Host::Oapi,
        verb: "POST",
        path: "/media/upload",
        access: Access::Token,
        query: &[may("access_token", Kind::Text), may("type", Kind::Text)],
        form: BodyForm::Multipart,
        body: &[may("type", Kind::Text), may("media", Kind::File)],
    },
    Route {
        name: "session.send",
        host: Host::Oapi,
        verb: "POST",
        path: "/robot/sendBySession",
        access: Access::Open,
        query: &[need("session", Kind::Text)],
        form: BodyForm::Json,
        body: &[
            need("msgtype", Kind::Text),
            may("text", Kind::Object),
            may("markdown", Kind::Object),
            may("at", Kind::Object),
        ],
    },
    Route {
        name: "file.get",
        host: Host::Oapi,
        verb: "GET",
        path: "/resources/",
        access: Access::Open,
        query: &[need("Expires", Kind::Text), need("Signature", Kind::Text)],
        form: BodyForm::Nothing,
        body: &[],
    },
];

impl Route {
    fn matches(&self, path: &str) -> bool {
        match self.path.strip_suffix('/') {
            None => self.path == path,
            Some(_) => {
                let rest = path.strip_prefix(self.path);
                rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
            }
        }
    }
}

/// Returns the call of a request.
pub(crate) fn find(host: Host, verb: &str, path: &str) -> Option<&'static Route> {
    let mut routes = ROUTES.iter();
    routes.find(|route| route.host == host && route.verb == verb && route.matches(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_belong_to_their_host() {
        let name = |host, verb, path| find(host, verb, path).map(|route| route.name);
        let table = [
            (
                Host::Open,
                "PUT",
                "/v1.0/card/streaming",
                Some("card.stream"),
            ),
            (Host::Oapi, "PUT", "/v1.0/card/streaming", None),
            (Host::Oapi, "GET", "/resources/x1", Some("file.get")),
            (Host::Oapi, "GET", "/resources/", None),
            (Host::Oapi, "GET", "/resources/x/y", None),
            (Host::Open, "POST", "/media/upload", None),
        ];
        for (host, verb, path, expected) in table {
            assert_eq!(name(host, verb, path), expected, "{verb} {path}");
        }
    }
}
