//! What a stand-in is asked to post, and where to. It is listed and changed as at the provider, and decides nothing: what is
//! posted is up to whoever runs the stand-in.

use std::sync::{Arc, Mutex};

use crate::lock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub id: i64,
    pub url: String,
    /// In the provider's words; `*`: all.
    pub topics: Vec<String>,
    pub is_active: bool,
    /// What its deliveries are signed with, if that was said.
    pub secret: Option<String>,
}

/// All subscriptions of a provider. Clones share them.
#[derive(Clone, Default)]
pub struct Subscriptions(Arc<Mutex<Vec<Subscription>>>);

impl Subscriptions {
    pub fn list(&self) -> Vec<Subscription> {
        lock(&self.0).clone()
    }

    /// Adds an active one, and returns its id.
    pub fn add(&self, url: &str, topics: &[&str]) -> i64 {
        let mut all = lock(&self.0);
        let id = all.iter().map(|it| it.id).max().unwrap_or_default() + 1;
        all.push(Subscription {
            id,
            url: url.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            is_active: true,
            secret: None,
        });
        id
    }

    /// Changes one, and returns it as it is then. None when there is none with this id.
    pub fn change(&self, id: i64, change: impl FnOnce(&mut Subscription)) -> Option<Subscription> {
        let mut all = lock(&self.0);
        let it = all.iter_mut().find(|it| it.id == id)?;
        change(it);
        Some(it.clone())
    }

    /// Takes them all away, as a provider does when deliveries fail for long.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }
}
