//! Programs that change something with an API key: who they are in the audit, and that a change which has begun goes on
//! when they disconnect.

use std::sync::Arc;

use platform::task;
use store::audit::By;

use crate::App;
use crate::error::Error;

/// The holder of a key who changes something.
pub struct Author {
    pub app: Arc<App>,
    actor: String,
}

impl Author {
    /// `key` is the name of the key.
    pub fn of(app: &Arc<App>, key: &str) -> Self {
        Author {
            app: app.clone(),
            actor: format!("key:{key}"),
        }
    }

    pub fn by(&self) -> By<'_> {
        By {
            keys: &self.app.keys,
            actor: &self.actor,
            now: self.app.clock.now(),
        }
    }
}

/// Runs a change in a task of its own, so that it goes on when the client disconnects.
pub async fn finished<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let done = task::finish("change by an API key", work);
    done.await.ok_or(Error::Internal)
}
