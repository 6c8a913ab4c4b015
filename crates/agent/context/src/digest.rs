//! A digest that is the same in every process and on every machine.

/// 64-bit FNV-1a, fed incrementally. It detects changes and does not resist deliberate collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Returns the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        let mut digest = Self::default();
        digest.feed(bytes.as_ref());
        digest
    }

    /// Feeds more bytes; the result does not depend on how they are split into calls.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }

    /// Returns the digest as a number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_fnv1a_and_independent_of_chunking() {
        assert_eq!(Digest::of("").value(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Digest::of("foobar").value(), 0x8594_4171_f739_67e8);
        let mut pieces = Digest::of("foo");
        pieces.feed(b"bar");
        assert_eq!(pieces, Digest::of("foobar"));
    }
}
