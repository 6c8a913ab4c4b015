//! Albums: messages that were sent together, and arrive one by one.

use crate::wire::ParsedUpdate;

/// Updates that are handled together: a single one, or the messages of an album.
#[derive(Debug)]
pub(crate) struct UpdateJob {
    pub(crate) first: ParsedUpdate,
    /// The other messages of the album, in order.
    pub(crate) rest: Vec<ParsedUpdate>,
}

impl UpdateJob {
    /// The updates in it.
    pub(crate) fn updates(&self) -> impl Iterator<Item = &ParsedUpdate> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

/// Groups updates that arrived together, in their order.
pub(crate) fn jobs(updates: Vec<ParsedUpdate>) -> Vec<UpdateJob> {
    let mut jobs: Vec<UpdateJob> = Vec::new();
    for update in updates {
        let album = update.album();
        match jobs
            .iter_mut()
            .find(|job| album.is_some() && job.first.album() == album)
        {
            Some(job) => job.rest.push(update),
            None => jobs.push(UpdateJob {
                first: update,
                rest: Vec::new(),
            }),
        }
    }
    jobs
}
