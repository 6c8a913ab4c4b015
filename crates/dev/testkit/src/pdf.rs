//! PDF documents for tests.

/// Returns a document of these objects, numbered from 1, the first of which is its catalog.
#[must_use]
pub fn pdf(objects: &[String]) -> Vec<u8> {
    let (mut file, mut table) = ("%PDF-1.4\n".to_owned(), String::new());
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

/// Returns a document with the given operators on each page of 300 × 150 points. `F1` is a font and
/// `P` a picture of two pixels, black and white.
#[must_use]
pub fn pdf_of_pages(pages: &[&str]) -> Vec<u8> {
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
    pdf(&objects)
}
