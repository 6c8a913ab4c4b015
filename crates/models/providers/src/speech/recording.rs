//! Detects the format and length of a recording.
//!
//! Lengths come from the containers: RFC 3533 and RFC 7845 for Ogg, the `fmt ` and `data` chunks
//! for WAV. Other files have no known length.

use std::path::Path;

/// Sample rate by which Opus counts positions, whatever rate it was recorded at.
const OPUS_RATE: u64 = 48_000;

/// The format of a recording, as sent to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AudioFormat {
    /// The file extension.
    pub(super) ending: &'static str,
    pub(super) mime: &'static str,
}

/// File extensions and media types of each format.
const FORMATS: &[(&[&str], AudioFormat)] = &[
    (
        &["ogg", "oga", "opus", "audio/ogg", "audio/opus"],
        AudioFormat {
            ending: "ogg",
            mime: "audio/ogg",
        },
    ),
    (
        &["mp3", "mpga", "mpeg", "audio/mpeg", "audio/mp3"],
        AudioFormat {
            ending: "mp3",
            mime: "audio/mpeg",
        },
    ),
    (
        &[
            "m4a",
            "mp4",
            "audio/mp4",
            "audio/x-m4a",
            "audio/m4a",
            "video/mp4",
        ],
        AudioFormat {
            ending: "m4a",
            mime: "audio/mp4",
        },
    ),
    (
        &["weba", "webm", "audio/webm", "video/webm"],
        AudioFormat {
            ending: "webm",
            mime: "audio/webm",
        },
    ),
    (
        &["wav", "audio/wav", "audio/x-wav", "audio/wave"],
        AudioFormat {
            ending: "wav",
            mime: "audio/wav",
        },
    ),
    (
        &["flac", "audio/flac", "audio/x-flac"],
        AudioFormat {
            ending: "flac",
            mime: "audio/flac",
        },
    ),
];

impl AudioFormat {
    /// Detects the format by the file extension, else by the sender's media type, else assumes Ogg,
    /// the usual format of voice messages.
    pub(super) fn of(path: &Path, mime: Option<&str>) -> Self {
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default()
            .to_ascii_lowercase();
        let mime = mime
            .and_then(|mime| mime.split(';').next())
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let known = |word: &str| {
            FORMATS
                .iter()
                .find(|(words, _)| words.contains(&word))
                .map(|(_, format)| *format)
        };
        known(&ending).or_else(|| known(&mime)).unwrap_or(Self {
            ending: "ogg",
            mime: "audio/ogg",
        })
    }
}

/// Returns the length of a recording, rounded up to seconds; `None` if it is unknown.
pub(super) fn seconds(bytes: &[u8]) -> Option<u32> {
    let seconds = if bytes.starts_with(b"OggS") {
        ogg(bytes)?
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12)? == b"WAVE" {
        wav(bytes)?
    } else {
        return None;
    };
    Some(u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// Divides the position of the last page by the rate that the first page gives.
fn ogg(bytes: &[u8]) -> Option<u64> {
    let head = page_body(bytes)?;
    let (rate, skipped) = if head.starts_with(b"OpusHead") {
        (OPUS_RATE, u64::from(u16::from_le_bytes(array(head, 10)?)))
    } else if head.starts_with(b"\x01vorbis") {
        (u64::from(u32::from_le_bytes(array(head, 12)?)), 0)
    } else {
        return None;
    };
    let last = bytes.windows(4).rposition(|window| window == b"OggS")?;
    let position = u64::from_le_bytes(array(bytes.get(last..)?, 6)?);
    if rate == 0 || position == u64::MAX {
        return None;
    }
    Some(position.saturating_sub(skipped).div_ceil(rate))
}

/// Returns the content of the first page.
fn page_body(bytes: &[u8]) -> Option<&[u8]> {
    let segments = usize::from(*bytes.get(26)?);
    bytes.get(27 + segments..)
}

/// Divides the bytes of the `data` chunk by the bytes per second.
fn wav(bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes.get(12..)?;
    let mut rate = None;
    loop {
        let size = u32::from_le_bytes(array(rest, 4)?);
        match rest.get(..4)? {
            b"fmt " => rate = Some(u64::from(u32::from_le_bytes(array(rest, 16)?))),
            b"data" => {
                return rate
                    .filter(|rate| *rate > 0)
                    .map(|rate| u64::from(size).div_ceil(rate));
            }
            _ => {}
        }
        // Chunks begin at even offsets.
        let length = usize::try_from(size).ok()?;
        rest = rest.get(8_usize.checked_add(length)?.checked_add(length % 2)?..)?;
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(position: u64, body: &[u8]) -> Vec<u8> {
        let mut page = b"OggS\0\0".to_vec();
        page.extend(position.to_le_bytes());
        page.extend([0; 12]);
        page.extend([1, u8::try_from(body.len()).unwrap()]);
        page.extend(body);
        page
    }

    fn opus(seconds: u64) -> Vec<u8> {
        let head = b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0";
        [page(0, head), page(312 + seconds * OPUS_RATE, b"sound")].concat()
    }

    fn wave(seconds: u32) -> Vec<u8> {
        let mut wave = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x01\0".to_vec();
        wave.extend(8000_u32.to_le_bytes());
        wave.extend(16_000_u32.to_le_bytes());
        wave.extend([2, 0, 16, 0]);
        wave.extend(b"data");
        wave.extend((seconds * 16_000).to_le_bytes());
        wave
    }

    #[test]
    fn reads_durations_from_audio_headers() {
        let mut vorbis = b"\x01vorbis\0\0\0\0\x01".to_vec();
        vorbis.extend(44_100_u32.to_le_bytes());
        let vorbis = [page(0, &vorbis), page(44_100 * 3 + 1, b"sound")].concat();
        let table: [(&[u8], Option<u32>); 8] = [
            (&opus(125), Some(125)),
            (&vorbis, Some(4)),
            (&wave(7), Some(7)),
            (&page(5, b"OpusHead"), None),
            (b"OggS", None),
            (b"RIFF\0\0\0\0WAVEfmt ", None),
            (b"ID3", None),
            (b"", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(seconds(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn detects_formats_by_extension_then_mime_type() {
        let table = [
            ("a.OGA", None, "ogg"),
            ("a.m4a", None, "m4a"),
            ("a.mpga", None, "mp3"),
            ("a", Some("audio/x-wav; rate=8000"), "wav"),
            ("a.bin", Some("audio/webm"), "webm"),
            ("a", None, "ogg"),
        ];
        for (path, mime, ending) in table {
            assert_eq!(
                AudioFormat::of(Path::new(path), mime).ending,
                ending,
                "{path} {mime:?}"
            );
        }
    }
}
