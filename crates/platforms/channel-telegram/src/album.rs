//! Messages that Telegram sends one by one although a person sent them together.

use crate::receive::Received;

/// Updates that are dealt with in one go: one alone, or the messages of an album.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) first: Received,
    /// The other messages of the album, in order.
    pub(crate) rest: Vec<Received>,
}

impl Job {
    /// The updates in it.
    pub(crate) fn updates(&self) -> impl Iterator<Item = &Received> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

/// What is to be done for updates that came together, in their order.
pub(crate) fn jobs(updates: Vec<Received>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for update in updates {
        let album = update.album();
        match jobs
            .iter_mut()
            .find(|job| album.is_some() && job.first.album() == album)
        {
            Some(job) => job.rest.push(update),
            None => jobs.push(Job {
                first: update,
                rest: Vec::new(),
            }),
        }
    }
    jobs
}
