//! Reads the size of a picture from its header.
//!
//! Decision: only the header is read, because its facts are all that a text can say about a picture.
//! A damaged header gives no size, never an error.

use nanobot_types::PictureFormat;

/// Returns the width and height of a picture in pixels, if its header states them.
pub(crate) fn pixel_size(format: PictureFormat, bytes: &[u8]) -> Option<(u32, u32)> {
    match format {
        PictureFormat::Png => png(bytes),
        PictureFormat::Jpeg => jpeg(bytes),
        PictureFormat::Gif => gif(bytes),
        PictureFormat::WebP => webp(bytes),
    }
}

/// Returns the number in `N` bytes at `offset`, the most significant byte first.
fn big<const N: usize>(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(N)?)?;
    Some(
        bytes
            .iter()
            .fold(0, |number, byte| (number << 8) | u32::from(*byte)),
    )
}

/// Returns the number in `N` bytes at `offset`, the least significant byte first.
fn little<const N: usize>(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(N)?)?;
    let digits = bytes.iter().rev();
    Some(digits.fold(0, |number, byte| (number << 8) | u32::from(*byte)))
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((big::<4>(bytes, 16)?, big::<4>(bytes, 20)?))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((little::<2>(bytes, 6)?, little::<2>(bytes, 8)?))
}

/// Finds the frame header among the segments: ITU-T T.81, table B.1.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2_usize;
    loop {
        let marker = match bytes.get(at..at.checked_add(2)?)? {
            [0xff, 0xff] => {
                at += 1;
                continue;
            }
            [0xff, marker] => *marker,
            _ => return None,
        };
        match marker {
            // Frame headers, without the tables and the extension among their numbers.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((big::<2>(bytes, at + 7)?, big::<2>(bytes, at + 5)?));
            }
            0x01 | 0xd0..=0xd8 => at += 2,
            // The end, or the start of the data.
            0xd9 | 0xda => return None,
            _ => {
                let length = usize::try_from(big::<2>(bytes, at + 2)?).ok()?;
                at = at.checked_add(2)?.checked_add(length.max(2))?;
            }
        }
    }
}

/// Reads the first chunk: RFC 9649, section 2.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little::<3>(bytes, 24)? + 1, little::<3>(bytes, 27)? + 1)),
        b"VP8L" => {
            let bits = little::<4>(bytes, 21)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((
            little::<2>(bytes, 26)? & 0x3fff,
            little::<2>(bytes, 28)? & 0x3fff,
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x02\xff\xc2\0\x11\x08\x01\xe0\x02\x80\x03";
    const GIF: &[u8] = b"GIF89a\x80\x02\xe0\x01";
    const WEBP: [&[u8]; 3] = [
        b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0",
        b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x7f\xc2\x77\x00",
        b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01",
    ];

    fn size(bytes: &[u8]) -> Option<(u32, u32)> {
        PictureFormat::of(bytes).and_then(|format| pixel_size(format, bytes))
    }

    #[test]
    fn reads_the_size_of_pictures() {
        for bytes in [PNG, JPEG, GIF, WEBP[0], WEBP[1], WEBP[2]] {
            assert_eq!(size(bytes), Some((640, 480)), "{bytes:?}");
        }
    }

    #[test]
    fn truncated_and_hostile_headers_have_no_size() {
        for whole in [PNG, JPEG, GIF, WEBP[0], WEBP[1], WEBP[2]] {
            for length in 0..whole.len() {
                size(whole.get(..length).unwrap());
            }
        }
        for hostile in [
            [&[0xff, 0xd8][..], &[0xff; 10_000]].concat(),
            [&[0xff, 0xd8][..], &[0xff, 0xe0, 0, 0].repeat(10_000)].concat(),
            [&[0xff, 0xd8][..], &[0xff, 0xd0].repeat(10_000)].concat(),
        ] {
            assert_eq!(pixel_size(PictureFormat::Jpeg, &hostile), None);
        }
    }
}
