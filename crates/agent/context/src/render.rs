//! Renders messages with attached files as vision models expect them: images first, then the text.
//!
//! Sessions store the location of a file, not its content. A message renders to the same bytes in
//! every request, except when an image has disappeared, which is reported.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_types::{
    ChatMessage, Content, ContentBlock, ImageUrl, MediaRef, ToolMessage, Transcript, UserMessage,
};

use crate::image::{InspectedFile, InspectionCache, inspect};

/// A transcript that is ready to send.
#[derive(Debug)]
pub struct RenderedTranscript {
    /// The same conversation, with attachments resolved: no message refers to files any more.
    pub transcript: Transcript,
    /// Locations of images newly found missing, which explain why this request may differ from the
    /// previous one. Each is reported once.
    pub images_dropped: Vec<String>,
}

/// Renders the attachments of all messages.
pub(crate) async fn render(
    transcript: Transcript,
    cache: &Arc<Mutex<InspectionCache>>,
) -> RenderedTranscript {
    let media: Vec<MediaRef> = transcript
        .messages()
        .iter()
        .flat_map(|message| message.media())
        .cloned()
        .collect();
    if media.is_empty() {
        return RenderedTranscript {
            transcript,
            images_dropped: Vec::new(),
        };
    }
    let cache = Arc::clone(cache);
    let looked_up = tokio::task::spawn_blocking(move || look_up(&media, &cache)).await;
    let (pictures, images_dropped) = looked_up.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read the files of messages");
        (HashMap::new(), Vec::new())
    });
    for path in &images_dropped {
        tracing::warn!(path, "an image of a message is no longer available");
    }
    let transcript = transcript.map(|message| match &**message {
        ChatMessage::User(user) if !user.media.is_empty() => {
            let content = show(&user.content, &user.media, &pictures);
            let media = Vec::new();
            Arc::new(ChatMessage::User(UserMessage { content, media }))
        }
        ChatMessage::Tool(result) if !result.media.is_empty() => {
            Arc::new(ChatMessage::Tool(ToolMessage {
                content: show(&result.content, &result.media, &pictures),
                media: Vec::new(),
                ..result.clone()
            }))
        }
        _ => Arc::clone(message),
    });
    RenderedTranscript {
        transcript,
        images_dropped,
    }
}

/// Inspects every file, through the cache. Returns the results by location, and the images newly
/// found missing.
fn look_up(
    media: &[MediaRef],
    cache: &Mutex<InspectionCache>,
) -> (HashMap<String, InspectedFile>, Vec<String>) {
    let mut pictures = HashMap::new();
    let mut dropped = Vec::new();
    for file in media {
        if pictures.contains_key(&file.location) {
            continue;
        }
        let remembered = cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&file.location);
        let picture = remembered.unwrap_or_else(|| {
            let picture = inspect(file);
            if picture == InspectedFile::Gone {
                dropped.push(file.location.clone());
            }
            cache
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(&file.location, picture.clone());
            picture
        });
        pictures.insert(file.location.clone(), picture);
    }
    (pictures, dropped)
}

/// Returns the content of a message with its files.
fn show(
    content: &Content,
    media: &[MediaRef],
    pictures: &HashMap<String, InspectedFile>,
) -> Content {
    let text = content.to_text();
    let mut images = Vec::new();
    let mut notes = Vec::new();
    for file in media {
        let location = &file.location;
        match pictures.get(location) {
            Some(InspectedFile::Image(url)) => {
                images.push(ContentBlock::ImageUrl {
                    image_url: ImageUrl {
                        url: url.to_string(),
                    },
                });
            }
            Some(InspectedFile::TooLarge) => {
                notes.push(format!("[image: {location} (larger than 5 MB, not shown)]"));
            }
            Some(InspectedFile::Gone) => {
                notes.push(format!("[image: {location} (no longer available)]"));
            }
            // Skip the note: channels often name the file in the text already.
            Some(InspectedFile::File) | None if text.contains(location.as_str()) => {}
            Some(InspectedFile::File) | None => notes.push(format!("[file: {location}]")),
        }
    }
    join_content(images, &notes.join("\n"), content)
}

/// Joins images, notes and the user's content, in that order; plain text if there are no images.
fn join_content(images: Vec<ContentBlock>, notes: &str, text_content: &Content) -> Content {
    let mut content = match text_content {
        Content::Text(text) if notes.is_empty() => Content::Text(text.clone()),
        Content::Text(text) if text.is_empty() => Content::from(notes),
        Content::Text(text) => Content::Text(format!("{notes}\n\n{text}")),
        Content::Blocks(blocks) if notes.is_empty() => Content::Blocks(blocks.clone()),
        Content::Blocks(blocks) => {
            let note = ContentBlock::Text {
                text: notes.to_owned(),
            };
            Content::Blocks(
                std::iter::once(note)
                    .chain(blocks.iter().cloned())
                    .collect(),
            )
        }
    };
    if !images.is_empty() {
        let rest = match content {
            Content::Text(text) if text.is_empty() => Vec::new(),
            Content::Text(text) => vec![ContentBlock::Text { text }],
            Content::Blocks(blocks) => blocks,
        };
        content = Content::Blocks(images.into_iter().chain(rest).collect());
    }
    content
}
