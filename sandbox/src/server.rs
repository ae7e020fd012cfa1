//! [`Sandbox`]: one server on a loopback address with the stand-ins for all providers. This file
//! starts and stops it. It holds all of its state in memory.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use platform::clock::Clock;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::fault_injector::HangUp;
use crate::poster::{Poster, Report};
use crate::webhook_sender::WebhookSender;
use crate::{
    Delivery, Generation, Identity, Payment, Storefront, Webhooks, control, identity, page,
    payment, sample, storefront, visitor,
};
use crate::{IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET, PAYMENT_KEY, STOREFRONT_TOKEN};

pub struct Options {
    /// The address to listen on. It must be a loopback address, because the sandbox signs for
    /// everybody who can reach it. With port 0 a free port is taken.
    pub listen: SocketAddr,
    pub clock: Clock,
    /// Where the providers' webhooks are posted. `None`: no webhooks are sent.
    pub webhooks: Option<Webhooks>,
    /// The shape of the payment provider's objects and events.
    pub generation: Generation,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            clock: Clock::system(),
            webhooks: None,
            generation: Generation::default(),
        }
    }
}

/// The running stand-ins. They stop when this is dropped.
pub struct Sandbox {
    app: App,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The state that all handlers share.
#[derive(Clone)]
pub struct App {
    pub url: String,
    pub clock: Clock,
    pub storefront: Storefront,
    pub payment: Payment,
    pub identity: Identity,
    pub webhook_sender: Option<WebhookSender>,
}

impl Sandbox {
    pub async fn start(options: Options) -> Result<Self> {
        let listen = options.listen;
        if !listen.ip().is_loopback() {
            bail!("the sandbox listens on loopback alone, and {listen} is not: try 127.0.0.1:0");
        }
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let app = App::new(options, listener.local_addr()?, &stop, &tasks)?;
        let accepting = accept(listener, app.router(), stop.clone(), tasks.clone());
        platform::task::spawn("sandbox", tasks.track_future(accepting));
        Ok(Sandbox { app, stop, tasks })
    }

    /// The page for people, `http://127.0.0.1:<port>`. It explains what one can see and set.
    pub fn url(&self) -> &str {
        &self.app.url
    }

    /// The settings of a Waybill whose providers are these, by name.
    pub fn settings(&self) -> [(String, String); 8] {
        self.stand_ins()
            .map(|(name, value)| (name.to_owned(), value))
    }

    /// The same settings, by the names that the configuration has.
    pub fn stand_ins(&self) -> [(&'static str, String); 8] {
        [
            ("STOREFRONT_API_URL", self.storefront_url()),
            ("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN.to_owned()),
            ("PAYMENT_API_URL", self.payment_url()),
            ("PAYMENT_API_KEY", PAYMENT_KEY.to_owned()),
            ("GITHUB_URL", self.identity_url()),
            ("GITHUB_API_URL", self.identity_api_url()),
            ("GITHUB_CLIENT_ID", IDENTITY_CLIENT_ID.to_owned()),
            ("GITHUB_CLIENT_SECRET", IDENTITY_CLIENT_SECRET.to_owned()),
        ]
    }

    pub fn storefront(&self) -> &Storefront {
        &self.app.storefront
    }

    pub fn payment(&self) -> &Payment {
        &self.app.payment
    }

    pub fn identity(&self) -> &Identity {
        &self.app.identity
    }

    /// Waits until every webhook that the stand-ins have caused was accepted, refused for good or
    /// given up.
    pub async fn webhooks_done(&self) {
        if let Some(webhook_sender) = &self.app.webhook_sender {
            webhook_sender.done().await;
        }
    }

    /// Closes every connection, drops every webhook that was not yet accepted, and waits until
    /// this is done.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Deref for Sandbox {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl App {
    fn new(
        options: Options,
        address: SocketAddr,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Result<Self> {
        let (clock, webhooks) = (options.clock, options.webhooks);
        let shop = webhooks.as_ref().map(|webhooks| webhooks.shop.clone());
        let shop = shop.unwrap_or_else(|| sample::shop().to_owned());
        let webhook_sender = match webhooks {
            Some(webhooks) => {
                let poster = Poster::new(webhooks, clock.clone())?;
                Some(WebhookSender::new(poster, stop.clone(), tasks.clone()))
            }
            None => None,
        };
        let url = format!("http://{address}");
        let payment_url = format!("{url}/payment");
        let identity_url = format!("{url}/identity");
        Ok(App {
            url,
            storefront: Storefront::new(&shop, clock.clone(), webhook_sender.clone()),
            payment: Payment::new(
                &payment_url,
                options.generation,
                clock.clone(),
                webhook_sender.clone(),
            ),
            identity: Identity::new(&identity_url, clock.clone()),
            clock,
            webhook_sender,
        })
    }

    /// The base of the storefront's API.
    pub fn storefront_url(&self) -> String {
        format!("{}/storefront", self.url)
    }

    /// The base of the payment provider's API.
    pub fn payment_url(&self) -> String {
        format!("{}/payment", self.url)
    }

    /// The base of the identity provider's web side: device codes, tokens and the page.
    pub fn identity_url(&self) -> String {
        format!("{}/identity", self.url)
    }

    /// The base of the identity provider's API.
    pub fn identity_api_url(&self) -> String {
        format!("{}/identity/api", self.url)
    }

    /// Posts deliveries, `at_once` at a time, until each was accepted or refused for good. From
    /// then on the storefront knows the orders in them.
    pub async fn post(&self, deliveries: &[Delivery], concurrency: usize) -> Result<Report> {
        let webhook_sender = self.webhook_sender.as_ref();
        let webhook_sender = webhook_sender.context("this sandbox was started without webhooks")?;
        for delivery in deliveries {
            self.storefront.remember(delivery);
        }
        let poster = &webhook_sender.poster;
        Ok(poster.post_all(deliveries, concurrency, |_| {}).await)
    }

    fn router(&self) -> Router {
        control::routes(self.clone())
            .merge(page::routes())
            .nest("/storefront", storefront::routes(self.storefront.clone()))
            .nest("/payment", payment::routes(self.payment.clone()))
            .nest("/identity", identity::routes(self.identity.clone()))
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = serve(stream, router.clone());
                let connection = stop.clone().run_until_cancelled_owned(connection);
                let connection = async move {
                    connection.await;
                };
                platform::task::spawn("sandbox connection", connections.track_future(connection));
            }
            Err(error) => {
                tracing::warn!(%error, "the sandbox could not accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            if let Some(refusal) = visitor::refused(&request) {
                return Ok(refusal);
            }
            let answered = router.oneshot(request.map(Body::new)).await;
            answered.map_err(io::Error::other).and_then(sent)
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the sandbox ended early");
    }
}

/// The answer as it is sent. An error makes the server close the connection without an answer.
fn sent(answer: Response) -> io::Result<Response> {
    match answer.extensions().get::<HangUp>() {
        Some(HangUp) => Err(io::Error::other("asked to lose the answer")),
        None => Ok(answer),
    }
}
