//! Encryption of files: AES-256-CBC with PKCS#7 padding to blocks of 32 bytes.

use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockEncryptMut as _, KeyIvInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use md5::{Digest as _, Md5};

/// Size to which files are padded. It is twice the block size of AES.
const BLOCK: u8 = 32;

/// Returns the key number `seed`.
pub(crate) fn key(seed: u64) -> [u8; 32] {
    let mut key = [0; 32];
    for (part, half) in key.chunks_exact_mut(16).zip(["first", "second"]) {
        part.copy_from_slice(&Md5::digest(format!("{half} half of key {seed}")));
    }
    key
}

/// Returns a key as messages contain it.
pub(crate) fn encoded(key: &[u8; 32]) -> String {
    STANDARD_NO_PAD.encode(key)
}

/// Encrypts a file. The initial vector is the first half of the key.
pub(crate) fn encrypt(key: &[u8; 32], content: &[u8]) -> Bytes {
    let mut padded = content.to_vec();
    let used = u8::try_from(content.len() % usize::from(BLOCK)).unwrap_or_default();
    let missing = BLOCK - used;
    padded.resize(content.len() + usize::from(missing), missing);
    let mut vector = [0; 16];
    vector.copy_from_slice(key.first_chunk::<16>().unwrap_or(&[0; 16]));
    let cipher = cbc::Encryptor::<aes::Aes256>::new(key.into(), &vector.into());
    Bytes::from(cipher.encrypt_padded_vec_mut::<NoPadding>(&padded))
}

/// Returns the MD5 of `bytes` in hexadecimal digits.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    let digest = Md5::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use aes::cipher::BlockDecryptMut as _;

    use super::*;

    #[test]
    fn padding_fills_blocks_of_32_bytes() {
        let key = key(1);
        for length in [0, 1, 15, 16, 31, 32, 33] {
            let content = vec![b'x'; length];
            let encrypted = encrypt(&key, &content);
            assert_eq!(encrypted.len() % 32, 0);
            let vector: [u8; 16] = key[..16].try_into().unwrap();
            let cipher = cbc::Decryptor::<aes::Aes256>::new(&key.into(), &vector.into());
            let padded = cipher.decrypt_padded_vec_mut::<NoPadding>(&encrypted);
            let padded = padded.unwrap();
            let padding = padded.len() - length;
            assert!((1..=32).contains(&padding), "{padding}");
            assert_eq!(padded[..length], content);
            let all = padded[length..].iter();
            assert!(all.copied().all(|byte| usize::from(byte) == padding));
        }
    }

    #[test]
    fn keys_differ_and_have_43_letters() {
        assert_ne!(key(1), key(2));
        assert_eq!(encoded(&key(1)).len(), 43);
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
