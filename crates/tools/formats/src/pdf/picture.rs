//! Draws a page of a PDF document.
//!
//! Decision: `hayro` draws pages, because it is written in safe Rust alone, brings fonts for
//! documents that contain none, and needs no program of the system. The long side of a picture has
//! as many pixels as models see.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro::hayro_interpret::InterpreterSettings;
use hayro::hayro_syntax::{LoadPdfError, Pdf};
use hayro::vello_cpu::{Pixmap, color::palette::css::WHITE};
use hayro::{PixmapSettings, RenderCache, RenderSettings, render};
use image::{ExtendedColorType, codecs::jpeg::JpegEncoder};
use nanobot_extract::ExtractError;

/// Length of the long side of a picture in pixels. Vendors shrink larger pictures: Anthropic's
/// documentation of vision names this number.
const LONG_SIDE: f32 = 1568.0;
/// Maximum enlargement of a page: 4 pixels a point are 288 pixels an inch.
const MAX_SCALE: f32 = 4.0;
/// Size in bytes from which a picture is stored as JPEG: scans are large in PNG, text and drawings
/// are small.
const MAX_PNG: usize = 512 << 10;
/// Quality of JPEG, of 100.
const QUALITY: u8 = 80;

/// Returns a page as a picture in PNG or JPEG. The first page is number 1.
pub(crate) fn picture(document: Vec<u8>, number: u32) -> Result<Vec<u8>, ExtractError> {
    let drawn = catch_unwind(AssertUnwindSafe(|| draw(document, number)));
    let pixels = drawn.unwrap_or(Err(ExtractError::Broken))?;
    encode(pixels).ok_or(ExtractError::Broken)
}

fn draw(document: Vec<u8>, number: u32) -> Result<Pixmap, ExtractError> {
    let unreadable = |reason: &str| ExtractError::Unreadable(reason.to_owned());
    let pdf = Pdf::new(document).map_err(|error| match error {
        LoadPdfError::Decryption(_) => unreadable("the PDF is protected by a password"),
        LoadPdfError::Invalid => unreadable("the PDF is damaged"),
    })?;
    let index = usize::try_from(number)
        .ok()
        .and_then(|it| it.checked_sub(1));
    let page = index
        .and_then(|index| pdf.pages().get(index))
        .ok_or_else(|| unreadable("the PDF has no such page"))?;
    let (width, height) = page.render_dimensions();
    let scale = (LONG_SIDE / width.max(height)).min(MAX_SCALE);
    // Also rejects sides that are not numbers.
    let is_visible = |side: f32| side * scale >= 1.0 && side * scale <= LONG_SIDE + 1.0;
    if !is_visible(width) || !is_visible(height) {
        return Err(unreadable("the page is too narrow to be seen"));
    }
    let cache = RenderCache::new();
    Ok(render(
        page,
        &cache,
        &InterpreterSettings::default(),
        &RenderSettings::default(),
        &PixmapSettings {
            x_scale: scale,
            y_scale: scale,
            bg_color: WHITE,
        },
    ))
}

fn encode(pixels: Pixmap) -> Option<Vec<u8>> {
    let (width, height) = (pixels.width().into(), pixels.height().into());
    // The background is opaque, so every pixel is.
    let colors: Vec<u8> = pixels
        .data()
        .iter()
        .flat_map(|pixel| [pixel.r, pixel.g, pixel.b])
        .collect();
    let png = pixels.into_png().ok()?;
    if png.len() <= MAX_PNG {
        return Some(png);
    }
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, QUALITY)
        .encode(&colors, width, height, ExtendedColorType::Rgb8)
        .ok()?;
    Some(jpeg)
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::pdf_of_pages as document;

    use super::super::sample::{SCAN, line};
    use super::*;

    /// Returns the size and the pixels of a picture.
    fn decoded(picture: &[u8]) -> image::RgbImage {
        image::load_from_memory(picture).unwrap().to_rgb8()
    }

    #[test]
    fn page_is_drawn_at_the_size_that_models_see() {
        let document = document(&[SCAN, &line("Hello")]);
        let scan = decoded(&picture(document.clone(), 1).unwrap());
        assert_eq!(scan.dimensions(), (1200, 600));
        assert_eq!(scan.get_pixel(10, 300).0, [0; 3]);
        assert_eq!(scan.get_pixel(1190, 300).0, [255; 3]);
        let text = decoded(&picture(document, 2).unwrap());
        let dark = text.pixels().filter(|pixel| pixel.0 == [0; 3]).count();
        assert!((100..20_000).contains(&dark), "{dark} dark pixels");
    }

    #[test]
    fn noisy_page_is_a_jpeg() {
        let mut state = 1_u32;
        let mut noise =
            "300 0 0 150 0 0 cm BI /W 1200 /H 600 /CS /G /BPC 8 /F /AHx ID\n".to_owned();
        for _ in 0..1200 * 600 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.push_str(&format!("{:02x}", state >> 24));
        }
        noise.push_str(">\nEI");
        let picture = picture(document(&[&noise]), 1).unwrap();
        assert!(picture.starts_with(b"\xff\xd8\xff"), "{}", picture.len());
        assert_eq!(decoded(&picture).dimensions(), (1200, 600));
    }

    #[test]
    fn missing_pages_and_damaged_documents_have_no_picture() {
        let whole = document(&[SCAN]);
        let flat = String::from_utf8(whole.clone()).unwrap();
        let flat = flat.replace("[0 0 300 150]", "[0 0 99999 1]").into_bytes();
        for (document, number) in [
            (whole.clone(), 0),
            (whole.clone(), 2),
            (whole.clone(), u32::MAX),
            (whole.iter().take(60).copied().collect(), 1),
            (Vec::new(), 1),
            (flat, 1),
        ] {
            let error = picture(document, number).unwrap_err();
            assert!(
                matches!(error, ExtractError::Unreadable(_)),
                "{number}: {error:?}"
            );
        }
    }
}
