//! Files of encrypted rooms: AES-256 in counter mode, with a hash of the encrypted bytes (Matrix
//! specification, "Sending encrypted attachments").

use aes::Aes256;
use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ctr::Ctr64BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use nanobot_channel::Value;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::wire::{member, text};

/// Base64 with or without padding when read, without it when written.
const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, CONFIG);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, CONFIG);

/// The key of an encrypted file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FileKey {
    key: [u8; 32],
    iv: [u8; 16],
    hash: [u8; 32],
}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKey(_)")
    }
}

impl FileKey {
    /// Reads the key from the `file` of a message. `None` if it is not of the known form.
    pub(crate) fn read(file: &Value) -> Option<Self> {
        let key = member(file, "key");
        if text(file, "v") != "v2" || text(key, "kty") != "oct" || text(key, "alg") != "A256CTR" {
            return None;
        }
        let key = URL_SAFE.decode(text(key, "k")).ok()?;
        let iv = STANDARD.decode(text(file, "iv")).ok()?;
        let hash = STANDARD
            .decode(text(member(file, "hashes"), "sha256"))
            .ok()?;
        Some(Self {
            key: key.try_into().ok()?,
            iv: iv.try_into().ok()?,
            hash: hash.try_into().ok()?,
        })
    }

    /// Decrypts a file. `None` if it is not the file that was sent.
    pub(crate) fn decrypt(&self, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != self.hash {
            return None;
        }
        self.apply(&mut bytes);
        Some(bytes)
    }

    /// Encrypts a file with a new key.
    pub(crate) fn encrypt(bytes: &mut [u8]) -> Self {
        let mut key = Self {
            key: random(),
            iv: [0; 16],
            hash: [0; 32],
        };
        // The lower half is the counter, and begins with 0.
        let start: [u8; 32] = random();
        for (iv, random) in key.iv.iter_mut().take(8).zip(start) {
            *iv = random;
        }
        key.apply(bytes);
        key.hash = Sha256::digest(&*bytes).into();
        key
    }

    /// Returns the `file` of a message, for the file at `url`.
    pub(crate) fn to_file(&self, url: &str) -> Value {
        json!({
            "v": "v2", "url": url, "iv": STANDARD.encode(self.iv),
            "hashes": {"sha256": STANDARD.encode(self.hash)},
            "key": {
                "kty": "oct", "alg": "A256CTR", "ext": true, "key_ops": ["encrypt", "decrypt"],
                "k": URL_SAFE.encode(self.key),
            },
        })
    }

    fn apply(&self, bytes: &mut [u8]) {
        let mut cipher = Ctr64BE::<Aes256>::new(&self.key.into(), &self.iv.into());
        cipher.apply_keystream(bytes);
    }
}

/// Returns random bytes, from those of four random ids of 122 bits.
fn random() -> [u8; 32] {
    let mut digest = Sha256::new();
    for _ in 0..4 {
        digest.update(Uuid::new_v4().as_bytes());
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_decrypted_with_its_key_only() {
        let mut bytes = b"a file".to_vec();
        let key = FileKey::encrypt(&mut bytes);
        assert_ne!(bytes, b"a file");
        let read = FileKey::read(&key.to_file("mxc://x/1")).unwrap();
        assert_eq!(read, key);
        assert_eq!(read.decrypt(bytes.clone()).unwrap(), b"a file");
        bytes[0] ^= 1;
        assert_eq!(read.decrypt(bytes), None, "the hash is another one");
        assert_eq!(format!("{key:?}"), "FileKey(_)");
    }

    #[test]
    fn known_file_is_decrypted() {
        // The key stream of AES-256 with a key of zeros, from a counter of zero.
        let file = json!({
            "v": "v2", "iv": "AAAAAAAAAAAAAAAAAAAAAA", "url": "mxc://x/1",
            "hashes": {"sha256": STANDARD.encode(Sha256::digest([0_u8; 16]))},
            "key": {"kty": "oct", "alg": "A256CTR", "k": URL_SAFE.encode([0_u8; 32])},
        });
        let key = FileKey::read(&file).unwrap();
        let found = key.decrypt(vec![0; 16]).unwrap();
        let expected = [
            0xdc, 0x95, 0xc0, 0x78, 0xa2, 0x40, 0x89, 0x89, 0xad, 0x48, 0xa2, 0x14, 0x92, 0x84,
            0x20, 0x87,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn malformed_keys_are_refused() {
        let whole = FileKey::encrypt(&mut [0]).to_file("mxc://x/1");
        assert!(FileKey::read(&whole).is_some());
        for (pointer, value) in [
            ("/v", json!("v1")),
            ("/iv", json!("AAAA")),
            ("/iv", json!(5)),
            ("/key/k", json!("####")),
            ("/key/alg", json!("A128CTR")),
            ("/hashes", json!([])),
        ] {
            let mut file = whole.clone();
            *file.pointer_mut(pointer).unwrap() = value;
            assert_eq!(FileKey::read(&file), None, "{pointer}");
        }
    }
}
