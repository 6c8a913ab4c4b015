//! Files on their way out.

use std::io;

use nanobot_channel::MediaRef;

use crate::call::{CallError, Refusal};

/// The reason why a file was not sent.
#[derive(Debug, thiserror::Error)]
pub enum UploadError<R: Refusal> {
    /// It cannot be read here.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is empty, which the platform does not accept.
    #[error("it is empty")]
    Empty,
    /// Its address is not of the public internet, and the platform would fetch it from elsewhere.
    #[error("its address is none of the public internet")]
    Inside,
    /// It is larger than the platform accepts.
    #[error("it is larger than the {limit} bytes that {platform} takes")]
    TooLarge {
        /// The limit.
        limit: u64,
        /// The platform's name.
        platform: &'static str,
    },
    /// The platform did not take it.
    #[error(transparent)]
    Call(#[from] CallError<R>),
}

impl<R: Refusal> UploadError<R> {
    /// Returns the failure of the call, if it concerns more than this file: the rest of the message
    /// cannot be sent either. Other failures are reported in the file's place.
    ///
    /// # Errors
    /// The failure of the file alone.
    pub fn into_call(self) -> Result<CallError<R>, Self> {
        match self {
            Self::Call(error) if !error.refuses_content() => Ok(error),
            other => Err(other),
        }
    }
}

/// `true` if a file is at an `http` or `https` address: platforms show it from there, and nothing
/// is fetched here.
#[must_use]
pub fn is_url(media: &MediaRef) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| media.location.starts_with(scheme))
}

/// Returns the name of a file: the last piece of its path or address.
#[must_use]
pub fn file_name(media: &MediaRef) -> &str {
    let location = if is_url(media) {
        media.location.split(['?', '#']).next().unwrap_or_default()
    } else {
        media.location.as_str()
    };
    location
        .rsplit(['/', '\\'])
        .find(|piece| !piece.is_empty())
        .unwrap_or("file")
}

/// Returns the length of a local file, if it is at most `limit` bytes that `platform` takes.
///
/// # Errors
/// [`UploadError::Unreadable`] and [`UploadError::TooLarge`].
pub async fn file_size<R: Refusal>(
    media: &MediaRef,
    limit: u64,
    platform: &'static str,
) -> Result<u64, UploadError<R>> {
    let metadata = tokio::fs::metadata(&media.location).await;
    match metadata.map_err(UploadError::Unreadable)?.len() {
        length if length > limit => Err(UploadError::TooLarge { limit, platform }),
        length => Ok(length),
    }
}

/// Reads a local file of at most `limit` bytes that `platform` takes.
///
/// # Errors
/// [`UploadError::Unreadable`] and [`UploadError::TooLarge`].
pub async fn read<R: Refusal>(
    media: &MediaRef,
    limit: u64,
    platform: &'static str,
) -> Result<Vec<u8>, UploadError<R>> {
    file_size(media, limit, platform).await?;
    tokio::fs::read(&media.location)
        .await
        .map_err(UploadError::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_is_the_last_path_segment() {
        let table = [
            ("/a/b/Cat.JPG", "Cat.JPG", false),
            ("https://x.test/a/cat.png?size=1#top", "cat.png", true),
            ("C:\\films\\film.mp4", "film.mp4", false),
            ("/a/what?.pdf", "what?.pdf", false),
            ("", "file", false),
        ];
        for (location, name, elsewhere) in table {
            let media = MediaRef::new(location);
            assert_eq!(
                (file_name(&media), is_url(&media)),
                (name, elsewhere),
                "{location}"
            );
        }
    }
}
