//! The console of a service, as somebody with a browser uses it.

use console::Listening;
use domain::api_key::{Rights, Role, Scope, Shops};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use tokio_util::task::TaskTracker;

use super::Service;

/// The pages of the console that need no id.
pub const LISTS: [&str; 28] = [
    "/",
    "/attention",
    "/deliveries",
    "/live",
    "/events",
    "/orders",
    "/payments",
    "/subscriptions",
    "/notifications",
    "/jobs",
    "/repeated",
    "/secrets",
    "/held",
    "/failing",
    "/dead",
    "/operations",
    "/pauses",
    "/keys",
    "/licenses",
    "/orgs",
    "/audit",
    "/refused",
    "/reconcile",
    "/reconcile/found",
    "/privacy",
    "/endpoints",
    "/charts",
    "/search",
];

/// A console that is served, and a client that follows no redirect.
pub struct Console {
    pub url: String,
    client: Client,
}

/// What one is signed in with.
pub struct Session {
    /// The header.
    pub cookie: String,
}

/// A key that gives a role.
pub fn role(role: Role) -> Rights {
    Rights {
        scopes: Some(vec![Scope::Console(role)]),
        shops: Shops::default(),
    }
}

impl Service {
    /// Serves the console until the service stops.
    pub async fn console(&mut self) -> Console {
        let listening = self.listening_console().await.unwrap();
        self.serve_console(listening)
    }

    pub async fn listening_console(&self) -> anyhow::Result<Listening> {
        console::listen(&self.parts, "127.0.0.1:0".parse().unwrap()).await
    }

    pub fn serve_console(&mut self, listening: Listening) -> Console {
        let url = listening.url().to_owned();
        let (tasks, shutdown) = (TaskTracker::new(), self.shutdown.clone());
        listening.start(&tasks, &shutdown);
        tasks.close();
        self.spawn(async move { tasks.wait().await });
        let client = Client::builder().redirect(Policy::none());
        Console {
            url,
            client: client.build().unwrap(),
        }
    }
}

impl Console {
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    /// A form that was sent from a page of the console.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.client
            .post(format!("{}{path}", self.url))
            .header("Origin", &self.url)
            .header("Sec-Fetch-Site", "same-origin")
            .form(fields)
    }

    pub async fn sign_in(&self, key: &str) -> Session {
        let answer = self.post("/sign-in", &[("key", key), ("next", "/")]);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 303);
        Session::of(&answer)
    }

    /// A page as a session sees it: its status and its text.
    pub async fn page(&self, session: &Session, path: &str) -> (u16, String) {
        let answer = session.send(self.get(path)).await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// A page that is there.
    pub async fn shown(&self, session: &Session, path: &str) -> String {
        let (status, page) = self.page(session, path).await;
        assert_eq!(status, 200, "{path}: {page}");
        page
    }

    /// Where a request leads.
    pub async fn leads(&self, session: &Session, path: &str) -> String {
        let answer = session.send(self.get(path)).await;
        assert_eq!(answer.status(), 303, "{path}");
        answer.headers()["location"].to_str().unwrap().to_owned()
    }

    /// The token of the session's forms.
    pub async fn token(&self, session: &Session) -> String {
        let page = self.shown(session, "/search").await;
        let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Session {
    /// The answer to a request of somebody who is signed in.
    pub async fn send(&self, request: RequestBuilder) -> Response {
        let request = request.header("Cookie", &self.cookie);
        request.send().await.unwrap()
    }

    /// The cookie that an answer sets.
    pub fn of(answer: &Response) -> Self {
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        let pair = cookie.split(';').next().unwrap();
        Session {
            cookie: pair.to_owned(),
        }
    }
}
