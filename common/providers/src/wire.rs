//! How requests leave the process: over the network, or in a debug build to a test that directs this thread.

use reqwest::{Client, ClientBuilder, RequestBuilder, Response};

#[cfg(debug_assertions)]
pub use armed::{Answering, Wire, put_wire};
#[cfg(debug_assertions)]
pub(crate) use armed::{client, send};
#[cfg(not(debug_assertions))]
pub(crate) use unarmed::{client, send};

/// What is wrong if a client cannot be made.
const MADE: &str = "a client with these settings can be made";

#[cfg(debug_assertions)]
mod armed {
    use std::cell::RefCell;
    use std::pin::Pin;
    use std::sync::{Arc, LazyLock};

    use reqwest::{Request, Result};

    use super::{Client, ClientBuilder, MADE, RequestBuilder, Response};

    pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

    /// A test that answers in place of all providers.
    pub trait Wire: Send + Sync {
        fn answer(&self, request: Request) -> Answering;
    }

    thread_local! {
        static WIRE: RefCell<Option<Arc<dyn Wire>>> = const { RefCell::new(None) };
    }

    /// From now on the requests of this thread go there.
    pub fn put_wire(wire: Option<Arc<dyn Wire>>) {
        WIRE.set(wire);
    }

    fn wire() -> Option<Arc<dyn Wire>> {
        WIRE.with_borrow(Clone::clone)
    }

    pub fn client(settings: ClientBuilder) -> Client {
        static SHARED: LazyLock<Client> = LazyLock::new(Client::new);
        match wire() {
            Some(_) => SHARED.clone(),
            None => settings.build().expect(MADE),
        }
    }

    pub async fn send(request: RequestBuilder) -> Result<Response> {
        let (client, request) = request.build_split();
        let request = request?;
        match wire() {
            Some(wire) => Ok(wire.answer(request).await),
            None => client.execute(request).await,
        }
    }
}

#[cfg(not(debug_assertions))]
mod unarmed {
    use super::{Client, ClientBuilder, MADE, RequestBuilder, Response};

    pub fn client(settings: ClientBuilder) -> Client {
        settings.build().expect(MADE)
    }

    pub async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
        request.send().await
    }
}
