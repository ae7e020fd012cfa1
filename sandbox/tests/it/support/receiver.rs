//! A minimal receiver in place of Waybill: it checks every signature, remembers ids, answers 409
//! to ids that it knows, and answers 503 now and then.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::{Router, routing::post};
use domain::signature::{self, Secrets};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use sandbox::Webhooks;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::{NOW, SHOP};

const STOREFRONT_SECRET: &str = "storefront-test-secret";
pub const PAYMENT_SECRET: &str = "payment-test-secret";

#[derive(Clone)]
pub struct Receiver {
    url: String,
    /// Every so many requests one is refused with 503; 0: none.
    refuse_each: Arc<AtomicUsize>,
    inbox: Arc<Mutex<Inbox>>,
}

#[derive(Default)]
struct Inbox {
    requests: usize,
    ids: BTreeSet<String>,
    taken: Vec<Taken>,
    arrivals: Vec<Arrival>,
}

/// A rightly signed payment event, whatever it was answered.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub id: String,
    pub signature: String,
    pub body: String,
}

/// A delivery that was answered 200.
#[derive(Clone, Debug)]
pub struct Taken {
    pub topic: String,
    pub shop: String,
    pub body: Value,
}

impl Receiver {
    pub async fn start(refuse_each: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            url: format!("http://{}", listener.local_addr().unwrap()),
            refuse_each: Arc::new(refuse_each.into()),
            inbox: Arc::default(),
        };
        let router = Router::new()
            .route("/api/webhooks/storefront", post(storefront))
            .route("/api/webhooks/payment", post(payment))
            .with_state(receiver.clone());
        platform::task::spawn("receiver", async move {
            while let Ok((stream, _)) = listener.accept().await {
                platform::task::spawn("connection", serve(stream, router.clone()));
            }
        });
        receiver
    }

    pub fn webhooks(&self) -> Webhooks {
        Webhooks {
            base_url: self.url.clone(),
            storefront_secret: STOREFRONT_SECRET.to_owned(),
            payment_secret: PAYMENT_SECRET.to_owned(),
            shop: SHOP.to_owned(),
        }
    }

    /// Refuses none from now on, once it has refused one.
    pub async fn recover(&self) {
        while self.inbox.lock().unwrap().requests == 0 {
            tokio::task::yield_now().await;
        }
        self.refuse_each.store(0, Ordering::SeqCst);
    }

    pub fn taken(&self) -> Vec<Taken> {
        self.inbox.lock().unwrap().taken.clone()
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.inbox.lock().unwrap().arrivals.clone()
    }

    fn take(&self, id: &str, taken: Taken) -> StatusCode {
        let mut inbox = self.inbox.lock().unwrap();
        inbox.requests += 1;
        let each = self.refuse_each.load(Ordering::SeqCst);
        if each > 0 && inbox.requests.is_multiple_of(each) {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        if !inbox.ids.insert(id.to_owned()) {
            return StatusCode::CONFLICT;
        }
        inbox.taken.push(taken);
        StatusCode::OK
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let service = hyper::service::service_fn(move |request: hyper::Request<_>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request.map(Body::new)).await.unwrap()) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

async fn storefront(State(receiver): State<Receiver>, request: Request) -> StatusCode {
    let (headers, body) = read(request).await;
    let secrets = Secrets::new([STOREFRONT_SECRET.to_owned()]);
    let signatures = values(&headers, "X-Storefront-Hmac-Sha256");
    if signature::storefront(&secrets, signatures, &body).is_err() {
        return StatusCode::UNAUTHORIZED;
    }
    let header = |name| headers[name].to_str().unwrap().to_owned();
    let taken = Taken {
        topic: header("X-Storefront-Topic"),
        shop: header("X-Storefront-Shop-Domain"),
        body: serde_json::from_slice(&body).unwrap(),
    };
    assert_eq!(header("X-Storefront-API-Version"), "2026-07");
    receiver.take(&header("X-Storefront-Webhook-Id"), taken)
}

async fn payment(State(receiver): State<Receiver>, request: Request) -> StatusCode {
    let (headers, body) = read(request).await;
    let secrets = Secrets::new([PAYMENT_SECRET.to_owned()]);
    let signatures = values(&headers, "Payment-Signature");
    let now = NOW.unix_seconds();
    if signature::payment(&secrets, signatures, &body, now, 300).is_err() {
        return StatusCode::UNAUTHORIZED;
    }
    let arrived = String::from_utf8(body).unwrap();
    let body: Value = serde_json::from_str(&arrived).unwrap();
    receiver.inbox.lock().unwrap().arrivals.push(Arrival {
        id: body["id"].as_str().unwrap().to_owned(),
        signature: headers["Payment-Signature"].to_str().unwrap().to_owned(),
        body: arrived,
    });
    let taken = Taken {
        topic: body["type"].as_str().unwrap().to_owned(),
        shop: String::new(),
        body: body.clone(),
    };
    receiver.take(body["id"].as_str().unwrap(), taken)
}

async fn read(request: Request) -> (HeaderMap, Vec<u8>) {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.headers, body.to_vec())
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes)
}
