//! JIDs: addresses of people and groups.

/// Domain of phone numbers.
pub(crate) const NUMBERS: &str = "s.whatsapp.net";
/// Domain of ids that hide the phone number.
pub(crate) const LIDS: &str = "lid";
/// Domain of groups.
pub(crate) const GROUPS: &str = "g.us";
/// Longest part before the `@`.
const USER_LIMIT: usize = 64;

/// Returns the parts of the JID of a chat; `None` if it is no such JID.
pub(crate) fn parts(jid: &str) -> Option<(&str, &str)> {
    let (user, domain) = jid.split_once('@')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = match domain {
        NUMBERS | LIDS => is_number(user),
        // The id of an old group is a number and a time.
        GROUPS => user.split('-').count() <= 2 && user.split('-').all(is_number),
        _ => false,
    };
    (is_valid && user.len() <= USER_LIMIT).then_some((user, domain))
}

/// Returns `true` if the text is the JID of a chat.
pub(crate) fn is_chat(jid: &str) -> bool {
    parts(jid).is_some()
}

/// Returns `true` if the text is the JID of a person.
pub(crate) fn is_person(jid: &str) -> bool {
    parts(jid).is_some_and(|(_, domain)| domain != GROUPS)
}

/// Returns `true` if the text is the JID of a group.
pub(crate) fn is_group(jid: &str) -> bool {
    parts(jid).is_some_and(|(_, domain)| domain == GROUPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jids_have_one_of_three_domains() {
        let table = [
            ("4915112345678@s.whatsapp.net", true, false),
            ("120363000@lid", true, false),
            ("120363041234567890@g.us", false, true),
            ("4915112345678-1500000000@g.us", false, true),
            ("4915112345678", false, false),
            ("+4915112345678@s.whatsapp.net", false, false),
            ("4915112345678:3@s.whatsapp.net", false, false),
            ("status@broadcast", false, false),
            ("@g.us", false, false),
            ("1-@g.us", false, false),
            ("1-2-3@g.us", false, false),
            ("1@lid@lid", false, false),
            ("", false, false),
        ];
        for (jid, person, group) in table {
            assert_eq!((is_person(jid), is_group(jid)), (person, group), "{jid}");
            assert_eq!(is_chat(jid), person || group, "{jid}");
        }
        assert!(!is_chat(&format!("{}@lid", "1".repeat(65))));
    }
}
