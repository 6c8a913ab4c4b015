//! Decryption of files and digests of uploads.
//!
//! WeCom encrypts with AES-256-CBC. The initial vector is the first half of the key, and the
//! padding is that of PKCS#7 for blocks of 32 bytes, twice the block of AES.

use aes::Aes256;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cbc::Decryptor;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockDecryptMut as _, KeyIvInit as _};
use md5::{Digest as _, Md5};

/// The block to which files are padded.
pub(crate) const PADDING_BLOCK: usize = 32;
/// Keys come without padding, and their last character has two spare bits.
const KEY_ENCODING: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decrypts a file. `None` for a wrong key, length or padding.
pub(crate) fn decrypt(mut bytes: Vec<u8>, key: &str) -> Option<Vec<u8>> {
    let key: [u8; 32] = KEY_ENCODING.decode(key.trim()).ok()?.try_into().ok()?;
    let vector = key.first_chunk::<16>()?;
    let cipher = Decryptor::<Aes256>::new(&key.into(), vector.into());
    let length = {
        let padded = cipher.decrypt_padded_mut::<NoPadding>(&mut bytes).ok()?;
        let last = *padded.last()?;
        let padding = usize::from(last);
        if !(1..=PADDING_BLOCK).contains(&padding) {
            return None;
        }
        let length = padded.len().checked_sub(padding)?;
        if padded.iter().skip(length).any(|byte| *byte != last) {
            return None;
        }
        length
    };
    bytes.truncate(length);
    Some(bytes)
}

/// Returns the MD5 of a text or a file, in hexadecimal digits.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    let digest = Md5::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use cbc::Encryptor;
    use cbc::cipher::BlockEncryptMut as _;

    use super::*;

    const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";

    fn encrypted(padded: &[u8]) -> Vec<u8> {
        let vector: [u8; 16] = KEY[..16].try_into().unwrap();
        let cipher = Encryptor::<Aes256>::new(&KEY.into(), &vector.into());
        cipher.encrypt_padded_vec_mut::<NoPadding>(padded)
    }

    fn padded(content: &[u8]) -> Vec<u8> {
        let padding = PADDING_BLOCK - content.len() % PADDING_BLOCK;
        let padding = vec![u8::try_from(padding).unwrap(); padding];
        [content, &padding].concat()
    }

    fn key() -> String {
        STANDARD_NO_PAD.encode(KEY)
    }

    #[test]
    fn every_length_is_decrypted() {
        for length in [0, 1, 15, 16, 31, 32, 33, 1000] {
            let content = vec![b'x'; length];
            let bytes = encrypted(&padded(&content));
            for key in [key(), format!("{}=", key()), format!(" {} ", key())] {
                assert_eq!(decrypt(bytes.clone(), &key), Some(content.clone()));
            }
        }
    }

    #[test]
    fn key_may_have_spare_bits() {
        let mut spare = key();
        assert_eq!(spare.pop(), Some('Y'));
        spare.push('Z');
        assert_eq!(
            decrypt(encrypted(&padded(b"x")), &spare),
            Some(b"x".to_vec())
        );
    }

    #[test]
    fn wrong_keys_lengths_and_paddings_are_refused() {
        let good = encrypted(&padded(b"content"));
        let paddings: [&[u8]; 4] = [
            &[0; 32],
            &[33; 64],
            &[[7; 31].as_slice(), &[32]].concat(),
            &[17; 16],
        ];
        for content in paddings {
            assert_eq!(decrypt(encrypted(content), &key()), None, "{content:?}");
        }
        for bytes in [&good[..31], &good[..0], b"short"] {
            assert_eq!(decrypt(bytes.to_vec(), &key()), None);
        }
        let other = STANDARD_NO_PAD.encode([1; 32]);
        for key in [other.as_str(), "", "AAAA", "no base64!", &"A".repeat(100)] {
            assert_eq!(decrypt(good.clone(), key), None, "{key}");
        }
    }

    #[test]
    fn digest_is_in_lower_case() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
