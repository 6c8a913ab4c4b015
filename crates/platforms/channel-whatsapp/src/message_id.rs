//! Ids of sent messages, which are chosen here.
//!
//! Decision: an id is derived from the key of its part, so that a part that is sent again has the
//! same ids, also after a restart.

use sha2::{Digest as _, Sha256};

/// Beginning of the ids of clients on the web.
const PREFIX: &str = "3EB0";
/// Number of bytes of the digest.
const LENGTH: usize = 10;

/// Returns the id of a message to `chat`. `key` names the message, also among those of its part.
pub(crate) fn message_id(chat: &str, key: &str) -> String {
    let mut digest = Sha256::new();
    // The length keeps the two apart.
    digest.update(chat.len().to_be_bytes());
    digest.update(chat);
    digest.update(key);
    let digest = digest.finalize();
    let mut id = PREFIX.to_owned();
    for byte in digest.iter().take(LENGTH) {
        id.push_str(&format!("{byte:02X}"));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_follows_chat_and_key() {
        let id = message_id("a@lid", "turn/0/0/text");
        assert_eq!(id, message_id("a@lid", "turn/0/0/text"));
        assert_eq!((id.len(), id.get(..4)), (24, Some("3EB0")));
        assert!(
            id.bytes()
                .all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
        );
        for (chat, key) in [("b@lid", "turn/0/0/text"), ("a@lid", "turn/0/1/text")] {
            assert_ne!(id, message_id(chat, key));
        }
        assert_ne!(message_id("a", "bc"), message_id("ab", "c"));
    }
}
