//! Names of files that are known only once they are downloaded.
//!
//! WeCom names a file in the headers of its download. The names are kept from the download until
//! the file is stored, which is the next step of the same message.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{ChannelContext, MediaRef, async_trait};
use nanobot_channel::{MediaError, MediaStore};

/// Most names that are kept. Each lane downloads one file at a time.
const MAX_NAMES: usize = 512;

/// Names by the id of their file.
#[derive(Debug, Default)]
pub(crate) struct FileNames(Mutex<VecDeque<(String, String)>>);

impl FileNames {
    /// Keeps the name of a file.
    pub(crate) fn keep(&self, id: &str, name: String) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(known, _)| known != id);
        if names.len() >= MAX_NAMES {
            names.pop_front();
        }
        names.push_back((id.to_owned(), name));
    }

    /// Returns the name of a file, and forgets it.
    fn take(&self, id: &str) -> Option<String> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = names.iter().position(|(known, _)| known == id)?;
        names.remove(position).map(|(_, name)| name)
    }

    /// Returns a context that stores files under these names.
    pub(crate) fn wrap(self: &Arc<Self>, context: &ChannelContext) -> ChannelContext {
        let media = NamedStore {
            store: Arc::clone(&context.media),
            names: Arc::clone(self),
        };
        ChannelContext {
            media: Arc::new(media),
            ..context.clone()
        }
    }
}

/// A store that knows better names.
struct NamedStore {
    store: Arc<dyn MediaStore>,
    names: Arc<FileNames>,
}

#[async_trait]
impl MediaStore for NamedStore {
    fn limit(&self) -> u64 {
        self.store.limit()
    }

    async fn store(
        &self,
        id: &str,
        name: &str,
        mime: Option<&str>,
        bytes: &[u8],
    ) -> Result<MediaRef, MediaError> {
        let known = self.names.take(id);
        let name = known.as_deref().unwrap_or(name);
        self.store.store(id, name, mime, bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once_and_bounded() {
        let names = FileNames::default();
        names.keep("a", "old".to_owned());
        names.keep("a", "new".to_owned());
        assert_eq!(
            (names.take("a").as_deref(), names.take("a")),
            (Some("new"), None)
        );
        for number in 0..=MAX_NAMES {
            names.keep(&number.to_string(), String::new());
        }
        assert!(names.take("0").is_none() && names.take("1").is_some());
    }
}
