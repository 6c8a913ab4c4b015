//! Markdown as it is, except that images become links: the source itself, split so that each part is valid Markdown too.
//!
//! A fence that is cut is closed and opened again with its info string. Links and emphasis stay in
//! one piece unless one alone is longer than a part.

use std::ops::Range;

use nanobot_markup::{Measure, slice};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::depth;
use crate::image;
use crate::overhead::Overheads;
use crate::parse::OPTIONS;
use crate::part::RenderedPart;
use crate::split::{Flow, Verbatim, split};

/// Splits `markdown` into parts of at most `limit`, everything counted.
pub(crate) fn render(markdown: &str, measure: Measure, limit: usize) -> Vec<RenderedPart> {
    let bounded = depth::bound(markdown.trim_end());
    let linked = image::as_links(&bounded);
    let markdown = &*linked;
    let flow = flow(markdown, measure, limit);
    split(&flow, measure, limit)
        .into_iter()
        .map(|range| {
            let reopen = flow
                .verbatim_at(range.start)
                .map_or("", |verbatim| &verbatim.reopen);
            let close = flow
                .verbatim_at(range.end)
                .map_or("", |verbatim| &verbatim.close);
            let text = format!("{reopen}{}{close}", slice(markdown, range));
            RenderedPart::of_text(text.clone(), text)
        })
        .collect()
}

/// A fenced code block while it is read.
struct Fence {
    range: Range<usize>,
    info: String,
    body: Option<Range<usize>>,
}

fn flow(markdown: &str, measure: Measure, limit: usize) -> Flow<'_> {
    let mut flow = Flow {
        text: markdown,
        blocks: Vec::new(),
        verbatim: Vec::new(),
        whole: Vec::new(),
        overheads: Overheads::default(),
    };
    let mut fence: Option<Fence> = None;
    let mut depth = 0_usize;
    let mut after_heading = false;
    for (event, range) in Parser::new_ext(markdown, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 && !std::mem::take(&mut after_heading) {
                    flow.blocks.push(range.start);
                }
                depth += 1;
                match tag {
                    Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                        fence = Some(Fence {
                            range,
                            info: info.into_string(),
                            body: None,
                        });
                    }
                    Tag::Link { .. }
                    | Tag::Image { .. }
                    | Tag::Emphasis
                    | Tag::Strong
                    | Tag::Strikethrough => {
                        keep_whole(&mut flow.whole, range);
                    }
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                after_heading = depth == 0 && matches!(tag, TagEnd::Heading(_));
                if let Some(fence) = fence.take_if(|_| tag == TagEnd::CodeBlock) {
                    end_fence(&mut flow, fence, measure, limit);
                }
            }
            Event::Text(_) => {
                if let Some(fence) = &mut fence {
                    let start = fence.body.as_ref().map_or(range.start, |body| body.start);
                    fence.body = Some(start..range.end);
                }
            }
            Event::Code(_) | Event::InlineHtml(_) => keep_whole(&mut flow.whole, range),
            _ => {}
        }
    }
    flow
}

/// Adds a range unless an outer one contains it already.
fn keep_whole(whole: &mut Vec<Range<usize>>, range: Range<usize>) {
    if whole.last().is_none_or(|last| last.end <= range.start) {
        whole.push(range);
    }
}

/// Records where a fenced code block may be cut: between its lines, never at the fences.
fn end_fence(flow: &mut Flow<'_>, fence: Fence, measure: Measure, limit: usize) {
    let Some(body) = fence.body else {
        keep_whole(&mut flow.whole, fence.range);
        return;
    };
    let source = slice(flow.text, fence.range.clone());
    let Some(mark) = source.chars().next() else {
        return;
    };
    let marks: String = source.chars().take_while(|c| *c == mark).collect();
    let code = slice(flow.text, body.clone());
    let body = body.start..body.start + code.trim_end_matches('\n').len();
    // The opening fence stays with the first line of code, and the closing one with the last.
    let after_first = flow.text.ceil_char_boundary(body.start + 1);
    let last = flow.text.floor_char_boundary(body.end.saturating_sub(1));
    keep_whole(
        &mut flow.whole,
        fence.range.start..after_first.min(body.end),
    );
    keep_whole(
        &mut flow.whole,
        last.max(after_first).min(fence.range.end)..fence.range.end,
    );
    let mut reopen = format!("{marks}{}\n", fence.info);
    let mut close = format!("\n{marks}");
    // If the fences would crowd out the code, first the info string is dropped, then the fences.
    let crowded = |reopen: &str| measure.of(reopen) + measure.of(&close) > limit / 2;
    if crowded(&reopen) {
        reopen = format!("{marks}\n");
    }
    if crowded(&reopen) {
        reopen.clear();
        close.clear();
    }
    flow.verbatim.push(Verbatim {
        range: body,
        reopen,
        close,
    });
}
