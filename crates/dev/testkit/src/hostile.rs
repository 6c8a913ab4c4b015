//! Input that is cheap to send and expensive to read.

/// Fragments of Markdown that are expensive to parse when they are repeated.
pub const HOSTILE_MARKDOWN: [&str; 43] = [
    "[",
    "![",
    "](",
    "[a](",
    "[a]: b\n",
    "[a][",
    ">",
    "> ",
    "> > a\n",
    "- ",
    "- a\n",
    "* ",
    "1. ",
    "*",
    "_",
    "**a ",
    "*a_ ",
    "*a\n_",
    "~",
    "`",
    "``a`",
    "<",
    "<a ",
    "<!--",
    "<?",
    "&",
    "\\",
    "|",
    "| a ",
    "|-|\n",
    "#",
    "# a\n",
    "```\n",
    "    a\n",
    "\t- ",
    "a\n=\n",
    "a*",
    "a\n",
    "\n",
    "https://a.b/",
    "\u{1b}[",
    "\u{202e}",
    "very long line ",
];

/// Returns about `size` bytes of `x` as gzip, which makes them 160 times smaller: one literal, then
/// copies of 258 bytes at distance 1. The length and the checksum at the end are missing.
#[must_use]
pub fn gzip_bomb(size: usize) -> Vec<u8> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    const COPY: &[u8] = b"1100010100000";
    // The first bits begin the last block, with fixed codes.
    let literal = b"11010101000".iter();
    let copies = COPY.iter().cycle().take(size / 258 * COPY.len());
    let bits = literal.chain(copies).chain(b"0000000");
    let mut bytes = HEADER.to_vec();
    let (mut byte, mut length) = (0, 0);
    for bit in bits {
        byte |= (bit & 1) << length;
        length += 1;
        if length == 8 {
            bytes.push(byte);
            (byte, length) = (0, 0);
        }
    }
    bytes.push(byte);
    bytes
}
