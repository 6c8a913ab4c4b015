//! Modified UTF-7, the encoding of mailbox names (RFC 3501, section 5.1.3).

/// Encodes a name. A name in ASCII stays as it is, because it may be encoded already.
pub(crate) fn encoded(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let (mut encoded, mut waiting) = (String::new(), Vec::new());
    for letter in name.chars() {
        if letter.is_ascii() {
            flush(&mut waiting, &mut encoded);
            encoded.push(letter);
            encoded.extend(Some('-').filter(|_| letter == '&'));
        } else {
            waiting.extend(
                letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .flat_map(|unit| unit.to_be_bytes()),
            );
        }
    }
    flush(&mut waiting, &mut encoded);
    encoded
}

/// Appends the waiting bytes in base 64 with a comma for the slash, without padding.
fn flush(waiting: &mut Vec<u8>, encoded: &mut String) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";
    if waiting.is_empty() {
        return;
    }
    encoded.push('&');
    for group in waiting.chunks(3) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or_default();
            encoded.extend(LETTERS.get(index).map(|letter| char::from(*letter)));
        }
    }
    encoded.push('-');
    waiting.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailbox_names_are_encoded_as_modified_utf7() {
        let table = [
            ("INBOX", "INBOX"),
            ("Sent & Done", "Sent & Done"),
            ("&U,BTFw-", "&U,BTFw-"),
            ("台北", "&U,BTFw-"),
            ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            ("Entwürfe & mehr", "Entw&APw-rfe &- mehr"),
            ("😀", "&2D3eAA-"),
        ];
        for (name, expected) in table {
            assert_eq!(encoded(name), expected);
        }
    }
}
