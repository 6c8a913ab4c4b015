//! The frames of clients of version 2, and their members.

/// Type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
    Object,
    List,
}

/// A member of a frame.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_needed: bool,
}

/// A type of frame.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
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

const TYPE: Field = needed("type", Kind::Text);
const REQUEST: Field = needed("requestId", Kind::Text);
const TO: Field = needed("to", Kind::Text);

const COMMANDS: &[Command] = &[
    Command {
        name: "auth",
        fields: &[
            TYPE,
            needed("token", Kind::Text),
            optional("protocol", Kind::Number),
        ],
    },
    Command {
        name: "ack",
        fields: &[TYPE, needed("seq", Kind::List)],
    },
    Command {
        name: "fetch",
        fields: &[
            TYPE,
            REQUEST,
            needed("ref", Kind::Text),
            needed("offset", Kind::Number),
        ],
    },
    Command {
        name: "upload",
        fields: &[
            TYPE,
            REQUEST,
            needed("ref", Kind::Text),
            needed("offset", Kind::Number),
            needed("data", Kind::Text),
        ],
    },
    Command {
        name: "send",
        fields: &[
            TYPE,
            REQUEST,
            needed("id", Kind::Text),
            TO,
            optional("text", Kind::Text),
            optional("quote", Kind::Object),
            optional("media", Kind::Object),
        ],
    },
    Command {
        name: "typing",
        fields: &[TYPE, TO, needed("active", Kind::Flag)],
    },
    Command {
        name: "read",
        fields: &[
            TYPE,
            TO,
            needed("id", Kind::Text),
            optional("participant", Kind::Text),
        ],
    },
    Command {
        name: "react",
        fields: &[
            TYPE,
            REQUEST,
            TO,
            needed("id", Kind::Text),
            optional("participant", Kind::Text),
            optional("fromBot", Kind::Flag),
            needed("emoji", Kind::Text),
        ],
    },
];

/// Members of a `quote`.
pub(crate) const QUOTE: &[Field] = &[
    needed("id", Kind::Text),
    optional("participant", Kind::Text),
    optional("content", Kind::Text),
];

/// Members of a `media` that is sent.
pub(crate) const MEDIA: &[Field] = &[
    needed("ref", Kind::Text),
    needed("kind", Kind::Text),
    needed("mime", Kind::Text),
    optional("name", Kind::Text),
];

/// Kinds of media.
pub(crate) const MEDIA_KINDS: &[&str] =
    &["image", "video", "audio", "voice", "document", "sticker"];

/// Returns a type of frame by its name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}
