//! Addresses of WhatsApp: `user@server`.

use std::fmt;

/// Longest address that is read, in bytes.
const LIMIT: usize = 128;
/// The servers of people by phone number, of people without it (LID), and of groups.
const PERSON: &str = "s.whatsapp.net";
const HIDDEN_PERSON: &str = "lid";
const GROUP: &str = "g.us";
/// The older name of [`PERSON`].
const OLD_PERSON: &str = "c.us";

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JidKind {
    /// A person, by the phone number.
    Phone,
    /// A person, by an id that hides the phone number.
    Lid,
    /// A group.
    Group,
}

/// An address of a person or a group, without the number of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Jid {
    pub(crate) user: String,
    pub(crate) kind: JidKind,
}

impl Jid {
    /// Reads an address. `None` if it is none of a person or a group.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (user, server) = text.trim().split_once('@')?;
        let kind = match server {
            PERSON | OLD_PERSON => JidKind::Phone,
            HIDDEN_PERSON => JidKind::Lid,
            GROUP => JidKind::Group,
            _ => return None,
        };
        // The number of a device follows a colon, that of an agent an underscore.
        let user = match kind {
            JidKind::Phone | JidKind::Lid => user.split([':', '_']).next().unwrap_or_default(),
            JidKind::Group => user,
        };
        let is_usable = |byte: u8| match kind {
            JidKind::Phone | JidKind::Lid => byte.is_ascii_digit(),
            JidKind::Group => byte.is_ascii_alphanumeric() || byte == b'-',
        };
        let is_well_formed = !user.is_empty() && user.len() <= LIMIT && user.bytes().all(is_usable);
        is_well_formed.then(|| Self {
            user: user.to_owned(),
            kind,
        })
    }

    /// Reads the address of a person.
    pub(crate) fn person(text: &str) -> Option<Self> {
        Self::parse(text).filter(|jid| jid.kind != JidKind::Group)
    }

    /// Reads the destination of a message: an address, or a phone number with or without `+`.
    pub(crate) fn destination(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.contains('@') {
            return Self::parse(text);
        }
        let number = text.strip_prefix('+').unwrap_or(text);
        Self::parse(&format!("{number}@{PERSON}"))
    }
}

impl fmt::Display for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = match self.kind {
            JidKind::Phone => PERSON,
            JidKind::Lid => HIDDEN_PERSON,
            JidKind::Group => GROUP,
        };
        write!(f, "{}@{server}", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_without_devices() {
        let read = |text: &str| Jid::parse(text).map(|jid| (jid.to_string(), jid.kind));
        let known = |text: &str, kind| Some((text.to_owned(), kind));
        let table = [
            (
                "4915@s.whatsapp.net",
                known("4915@s.whatsapp.net", JidKind::Phone),
            ),
            (
                " 4915:12@s.whatsapp.net",
                known("4915@s.whatsapp.net", JidKind::Phone),
            ),
            ("4915@c.us", known("4915@s.whatsapp.net", JidKind::Phone)),
            ("1203_1:2@lid", known("1203@lid", JidKind::Lid)),
            ("4915-1600@g.us", known("4915-1600@g.us", JidKind::Group)),
            ("status@broadcast", None),
            ("1@newsletter", None),
            ("a|b@s.whatsapp.net", None),
            ("@s.whatsapp.net", None),
            ("x y@g.us", None),
            ("4915", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(Jid::parse(&format!("{}@g.us", "1".repeat(129))), None);
        assert_eq!(Jid::person("1@g.us"), None);
    }

    #[test]
    fn phone_number_is_a_destination() {
        let read = |text: &str| Jid::destination(text).map(|jid| jid.to_string());
        let number = Some("4915@s.whatsapp.net".to_owned());
        assert_eq!(read("+4915"), number);
        assert_eq!(read(" 4915 "), number);
        assert_eq!(read("1203@g.us").as_deref(), Some("1203@g.us"));
        for text in ["", "+", "ann", "49 15", "ann@example.com"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
