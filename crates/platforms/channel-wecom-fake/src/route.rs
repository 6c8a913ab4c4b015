//! The commands of clients, and the parameters of their bodies.

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
    Object,
    List,
}

/// A parameter.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_needed: bool,
}

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) body: &'static [Field],
}

const fn needed(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_needed: true,
    }
}

const fn optional(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_needed: false,
    }
}

const COMMANDS: &[Command] = &[
    Command {
        name: "aibot_subscribe",
        body: &[needed("bot_id", Kind::Text), needed("secret", Kind::Text)],
    },
    Command {
        name: "ping",
        body: &[],
    },
    Command {
        name: "aibot_respond_msg",
        body: &[
            needed("msgtype", Kind::Text),
            optional("stream", Kind::Object),
            optional("template_card", Kind::Object),
            optional("markdown", Kind::Object),
            optional("image", Kind::Object),
            optional("file", Kind::Object),
            optional("voice", Kind::Object),
            optional("video", Kind::Object),
        ],
    },
    Command {
        name: "aibot_respond_welcome_msg",
        body: &[
            needed("msgtype", Kind::Text),
            optional("text", Kind::Object),
            optional("template_card", Kind::Object),
        ],
    },
    Command {
        name: "aibot_respond_update_msg",
        body: &[
            needed("response_type", Kind::Text),
            needed("template_card", Kind::Object),
            optional("userids", Kind::List),
        ],
    },
    Command {
        name: "aibot_send_msg",
        body: &[
            optional("chatid", Kind::Text),
            needed("msgtype", Kind::Text),
            optional("chat_type", Kind::Number),
            optional("markdown", Kind::Object),
            optional("template_card", Kind::Object),
            optional("image", Kind::Object),
            optional("file", Kind::Object),
            optional("voice", Kind::Object),
            optional("video", Kind::Object),
        ],
    },
    Command {
        name: "aibot_upload_media_init",
        body: &[
            needed("type", Kind::Text),
            needed("filename", Kind::Text),
            needed("total_size", Kind::Number),
            needed("total_chunks", Kind::Number),
            optional("md5", Kind::Text),
        ],
    },
    Command {
        name: "aibot_upload_media_chunk",
        body: &[
            needed("upload_id", Kind::Text),
            needed("chunk_index", Kind::Number),
            needed("base64_data", Kind::Text),
        ],
    },
    Command {
        name: "aibot_upload_media_finish",
        body: &[needed("upload_id", Kind::Text)],
    },
];

/// Returns a command by its name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// Parameters of the `feedback` of a content.
pub(crate) const FEEDBACK: &[Field] = &[needed("id", Kind::Text)];

const MEDIA: &[Field] = &[needed("media_id", Kind::Text)];

/// Parameters of the contents of messages, by their type.
const CONTENTS: &[(&str, &[Field])] = &[
    (
        "stream",
        &[
            needed("id", Kind::Text),
            optional("content", Kind::Text),
            optional("finish", Kind::Flag),
            optional("msg_item", Kind::List),
            optional("feedback", Kind::Object),
        ],
    ),
    (
        "markdown",
        &[
            needed("content", Kind::Text),
            optional("feedback", Kind::Object),
        ],
    ),
    ("text", &[needed("content", Kind::Text)]),
    ("image", MEDIA),
    ("file", MEDIA),
    ("voice", MEDIA),
    (
        "video",
        &[
            needed("media_id", Kind::Text),
            optional("title", Kind::Text),
            optional("description", Kind::Text),
        ],
    ),
];

/// Returns the parameters of the content of a message by its type; `None` if the fake does not
/// check their names.
pub(crate) fn content(msgtype: &str) -> Option<&'static [Field]> {
    let mut contents = CONTENTS.iter();
    let (_, fields) = contents.find(|(known, _)| *known == msgtype)?;
    Some(fields)
}
