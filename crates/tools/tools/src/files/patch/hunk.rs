//! Applies hunks to the lines of a file.
//!
//! Decision: a hunk is searched from the end of the one before it, exactly first, then without white
//! space at the ends of lines, then without any around them. The first place counts: a patch that means
//! a later one says so by the heads of its hunk.

use super::Hunk;

/// Maximum number of comparisons of lines for one call.
const MAX_COMPARED: usize = 50_000_000;

/// Manner of comparing lines, the strictest first.
const COMPARISONS: [fn(&str, &str) -> bool; 3] = [
    |one, other| one == other,
    |one, other| one.trim_end() == other.trim_end(),
    |one, other| one.trim() == other.trim(),
];

/// Applies `hunks` to a text with `\n` line ends. An error names the hunk.
pub(super) fn patched(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let ends_with_break = text.is_empty() || text.ends_with('\n');
    let lines: Vec<&str> = text.lines().collect();
    let mut patched: Vec<&str> = Vec::with_capacity(lines.len());
    let (mut done, mut compared) = (0, 0);
    for (number, hunk) in (1..).zip(hunks) {
        let mut from = done;
        for head in &hunk.heads {
            let found = find(&lines, &[head.as_str()], from, &mut compared)?;
            from = found.ok_or_else(|| format!("hunk {number}: no line '{head}' follows"))? + 1;
        }
        let old: Vec<&str> = hunk.old.iter().map(String::as_str).collect();
        let at = place(&lines, &old, from, hunk, &mut compared)?.ok_or_else(|| {
            let first = old.first().copied().unwrap_or_default();
            format!("hunk {number}: its lines, beginning with '{first}', are not in the file")
        })?;
        patched.extend(lines.get(done..at).unwrap_or_default());
        patched.extend(hunk.new.iter().map(String::as_str));
        done = at + old.len();
    }
    patched.extend(lines.get(done..).unwrap_or_default());
    let mut text = patched.join("\n");
    if ends_with_break && !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

/// Returns the index of the first line that a hunk replaces.
fn place(
    lines: &[&str],
    old: &[&str],
    from: usize,
    hunk: &Hunk,
    compared: &mut usize,
) -> Result<Option<usize>, String> {
    let last = lines.len().checked_sub(old.len());
    // Lines that are only added come after the heads, or at the end.
    if old.is_empty() {
        let is_at_end = hunk.is_at_end || hunk.heads.is_empty();
        return Ok(Some(if is_at_end { lines.len() } else { from }));
    }
    match last {
        Some(last) if hunk.is_at_end && last >= from => find(lines, old, last, compared),
        _ => find(lines, old, from, compared),
    }
}

/// Finds `wanted` among the lines from index `from`.
fn find(
    lines: &[&str],
    wanted: &[&str],
    from: usize,
    compared: &mut usize,
) -> Result<Option<usize>, String> {
    let rest = lines.get(from..).unwrap_or_default();
    for same in COMPARISONS {
        for (at, window) in rest.windows(wanted.len()).enumerate() {
            let mut pairs = window.iter().zip(wanted);
            let is_found = pairs.all(|(line, wanted)| {
                *compared += 1;
                same(line, wanted)
            });
            if is_found {
                return Ok(Some(from + at));
            }
            if *compared > MAX_COMPARED {
                return Err("the patch and the file are too repetitive to be compared".to_owned());
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(heads: &[&str], old: &[&str], new: &[&str]) -> Hunk {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Hunk {
            heads: owned(heads),
            old: owned(old),
            new: owned(new),
            is_at_end: false,
        }
    }

    #[test]
    fn hunks_are_found_by_context_and_heads() {
        let text = "fn a() {\n    x\n}\nfn b() {\n    x\n}\n";
        for (hunks, expected) in [
            (
                vec![hunk(&["fn b() {"], &["    x"], &["    y"])],
                "fn a() {\n    x\n}\nfn b() {\n    y\n}\n",
            ),
            (
                vec![hunk(&[], &["x"], &["    y"]), hunk(&[], &["x "], &[])],
                "fn a() {\n    y\n}\nfn b() {\n}\n",
            ),
            (
                vec![hunk(&["fn a() {"], &[], &["    w"])],
                "fn a() {\n    w\n    x\n}\nfn b() {\n    x\n}\n",
            ),
            (
                vec![hunk(&[], &[], &["end"])],
                "fn a() {\n    x\n}\nfn b() {\n    x\n}\nend\n",
            ),
        ] {
            assert_eq!(patched(text, &hunks).unwrap(), expected);
        }
        let last = Hunk {
            is_at_end: true,
            ..hunk(&[], &["x"], &["z"])
        };
        assert_eq!(patched("x\nx\nx", &[last]).unwrap(), "x\nx\nz");
        assert_eq!(patched("", &[hunk(&[], &[], &["a"])]).unwrap(), "a\n");
    }

    #[test]
    fn missing_lines_name_the_hunk() {
        let error =
            patched("a\nb\n", &[hunk(&[], &["a"], &[]), hunk(&[], &["a"], &[])]).unwrap_err();
        assert_eq!(
            error,
            "hunk 2: its lines, beginning with 'a', are not in the file"
        );
        let error = patched("a\n", &[hunk(&["class"], &["a"], &[])]).unwrap_err();
        assert_eq!(error, "hunk 1: no line 'class' follows");
    }

    #[test]
    fn repetitive_texts_end_in_an_error() {
        let text = "a\n".repeat(200_000);
        let mut old = vec!["a"; 20_000];
        old.push("b");
        let error = patched(&text, &[hunk(&[], &old, &[])]).unwrap_err();
        assert!(error.contains("too repetitive"), "{error}");
    }
}
