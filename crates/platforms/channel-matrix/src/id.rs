//! Matrix ids: their form, and digests of them.
//!
//! An id comes from the homeserver and becomes a part of an address. It is percent-encoded there;
//! these checks keep out what cannot be an id at all.

use sha2::{Digest as _, Sha256};

/// Longest id, in bytes (Matrix specification, "Common identifier format").
const ID_LIMIT: usize = 255;

/// `true` if `id` can be a user (`@bot:server`).
pub(crate) fn is_user_id(id: &str) -> bool {
    is_id(id, '@') && id.contains(':')
}

/// `true` if `id` can be a room (`!id:server`; newer rooms have no server).
pub(crate) fn is_room_id(id: &str) -> bool {
    is_id(id, '!')
}

/// `true` if `id` can be an event (`$id`).
pub(crate) fn is_event_id(id: &str) -> bool {
    is_id(id, '$')
}

fn is_id(id: &str, sigil: char) -> bool {
    let rest = id.strip_prefix(sigil).unwrap_or_default();
    let is_shown = |c: char| !c.is_control() && !c.is_whitespace();
    !rest.is_empty() && id.len() <= ID_LIMIT && id.chars().all(is_shown)
}

/// Returns the name of a user without the server.
pub(crate) fn localpart(user: &str) -> &str {
    let name = user.split(':').next().unwrap_or_default();
    name.strip_prefix('@').unwrap_or(name)
}

/// Returns `bytes` bytes of the digest of a text, in hexadecimal digits.
pub(crate) fn digest(text: &str, bytes: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digits = digest.iter().take(bytes);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_recognised_by_their_form() {
        for (id, is_user) in [
            ("@bot:x.test", true),
            ("@bot", false),
            ("@", false),
            ("bot:x.test", false),
            ("@a b:x", false),
            ("@a\n:x", false),
        ] {
            assert_eq!(is_user_id(id), is_user, "{id}");
        }
        assert!(is_room_id("!a/b:x.test") && is_room_id("!abc") && !is_room_id("#a:x"));
        assert!(is_event_id("$abc/+_") && !is_event_id("$") && !is_event_id("abc"));
        assert!(!is_room_id(&format!("!{}", "a".repeat(255))));
    }

    #[test]
    fn name_and_digest_are_derived() {
        assert_eq!((localpart("@bot:x"), localpart("x")), ("bot", "x"));
        assert_eq!(digest("a", 4), "ca978112");
    }
}
