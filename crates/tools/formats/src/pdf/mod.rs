//! Reads PDF documents: their text, and their pages as pictures.
//!
//! Decision: two parsers read the same document. `pdf-extract` finds words by their place on a page,
//! and `hayro` draws pages; each does one of these alone. Each page is drawn in a request of its
//! own, so that a page that ends the helper process costs neither the text nor other pages.

mod picture;
mod text;

pub(crate) use self::{picture::picture, text::text};

#[cfg(test)]
mod sample {
    /// Returns a document with the given operators on each page. `F1` is a font and `P` a picture of
    /// two pixels, black and white.
    pub(super) fn document(pages: &[&str]) -> Vec<u8> {
        let first = 5;
        let kids: String = (0..pages.len())
            .map(|page| format!("{} 0 R ", first + 2 * page))
            .collect();
        let picture = "<</Type/XObject/Subtype/Image/Width 2/Height 1/ColorSpace/DeviceGray\
             /BitsPerComponent 8/Filter/ASCIIHexDecode/Length 5>>stream\n00FF>\nendstream";
        let mut objects = vec![
            "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
            format!(
                "<</Type/Pages/Count {}/Kids[{kids}]/MediaBox[0 0 300 150]>>",
                pages.len()
            ),
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
            picture.to_owned(),
        ];
        for (page, content) in pages.iter().enumerate() {
            let stream = first + 2 * page + 1;
            objects.push(format!(
                "<</Type/Page/Parent 2 0 R/Contents {stream} 0 R\
                 /Resources<</Font<</F1 3 0 R>>/XObject<</P 4 0 R>>>>>>"
            ));
            objects.push(format!(
                "<</Length {}>>stream\n{content}\nendstream",
                content.len()
            ));
        }
        let mut file = "%PDF-1.4\n".to_owned();
        let mut table = String::new();
        for (index, object) in objects.iter().enumerate() {
            table.push_str(&format!("{:010} 00000 n \n", file.len()));
            file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
        }
        let (start, size) = (file.len(), objects.len() + 1);
        file.push_str(&format!(
            "xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF"
        ));
        file.into_bytes()
    }

    /// Returns the operators of a line of text.
    pub(super) fn line(text: &str) -> String {
        format!("BT /F1 12 Tf 20 100 Td ({text}) Tj ET")
    }

    /// The operators of a page that is one picture, like a scan.
    pub(super) const SCAN: &str = "300 0 0 150 0 0 cm /P Do";
}
