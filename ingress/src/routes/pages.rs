//! The pages that QR codes lead to: `/orders/{order_id}/track`, `/tracking/{tracking_number}` and
//! `/pay/{order_id}`. Everyone who has the link can open them, so they show only status and
//! tracking. And `/`, which says what runs here and where to go.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use config::connection::Registry;
use domain::branding::{Branding, Language};
use domain::money::{Currency, Money};
use domain::order::own::PAGE_CODE;
use qr::ID_CHARS;
use serde_json::json;
use store::public_orders::{self, PublicOrder, PublicOrderLookup};

use super::orders::{OrderId, Parcel, Shop as ShopQuery};
use crate::App;
use crate::database::READ_DEADLINE;
use crate::error::Error;
use crate::openapi::operation::{Input, Operation, Shape, get, in_query, tagged};
use crate::page::texts::Texts;
use crate::page::{self, Asked, Page, Shop};
use server::client_address;

pub fn routes() -> Vec<Operation> {
    let front = get("/", front)
        .is("showFrontPage", "What runs here, and where to go")
        .about("The same wherever Waybill runs: it says nothing about the deployment.");
    let track = get("/orders/{order_id}/track", track).is("showOrderPage", "How far an order is");
    let tracking = get("/tracking/{tracking_number}", tracking)
        .is("showParcelPage", "The parcels with a tracking number")
        .about("It says nothing of their orders.")
        .in_path::<Parcel>()
        .errors(&[Error::ParcelNotFound]);
    let text = json!({"type": "string"});
    let pay = get("/pay/{order_id}", pay)
        .is("showPaymentPage", "What is due for an order")
        .about(
            "The amount is the order's own. What the link asks for is only compared with it, and the page \
             warns when it differs.",
        )
        .parameters([
            in_query("amount", "What the link asks for.", &text, "199.00"),
            in_query("currency", "Its currency.", &text, "EUR"),
        ]);
    let page = |it: Operation| {
        it.errors_as(Shape::Page)
            .answers_with(200, "The page.", ["text/html"])
            .errors(&[
                Error::RateLimited(READ_DEADLINE),
                Error::Unavailable,
                Error::Internal,
            ])
    };
    tagged("Pages", [front, track, tracking, pay].map(page))
}

/// An error that is answered with a page.
pub struct Refusal(Error);

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Refusal(error.into())
    }
}

impl IntoResponse for Refusal {
    /// Its page is written by [`guard`], which knows the language of the reader.
    fn into_response(self) -> Response {
        let mut response = self.0.with_body(());
        response.extensions_mut().insert(Unwritten(self.0));
        response
    }
}

/// The error of an answer whose page is not written yet.
#[derive(Clone, Copy)]
struct Unwritten(Error);

/// The language that the reader prefers, if there are texts in it.
#[derive(Clone, Copy)]
pub struct Preferred(Option<Language>);

impl Preferred {
    pub fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(header::ACCEPT_LANGUAGE).iter();
        let accepted: Vec<&str> = accepted.filter_map(|it| it.to_str().ok()).collect();
        Preferred(Language::preferred(&accepted.join(",")))
    }

    /// The texts of a page, in the language of the shop if there are none in the reader's.
    fn texts(self, shop: &Branding) -> &'static Texts {
        Texts::of(self.0.or(shop.language).unwrap_or(Language::English))
    }
}

impl Input for Preferred {}

impl FromRequestParts<Arc<App>> for Preferred {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Preferred::of(&parts.headers))
    }
}

/// The parts of a link to an order: its id, and perhaps a shop and an amount. QR codes can be
/// drawn with any id; an id that no order can have is answered like one that no order has.
pub struct Link {
    id: i64,
    shop: Option<String>,
    /// What the link has to show where the order's pages are not open to everyone.
    code: Option<String>,
    asked: Asked,
}

impl Input for Link {
    fn describe(operation: Operation) -> Operation {
        let several = "Several shops have an order with this id: a link to each.";
        operation
            .answers_with(300, several, ["text/html"])
            .in_path::<OrderId>()
            .in_query::<ShopQuery>()
            .parameters([in_query(
                PAGE_CODE,
                "What the order's own link has, where its pages are not open to everyone.",
                &json!({"type": "string"}),
                "3f1c9a0b7d5e2c48a6f0",
            )])
            .errors(&[Error::ShopQuery, Error::OrderNotFound])
    }
}

impl Input for Result<Path<String>, PathRejection> {}

impl FromRequestParts<Arc<App>> for Link {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let id = Path::<i64>::from_request_parts(parts, app).await;
        let id = id.ok().filter(|Path(id)| *id > 0);
        let id = id.ok_or(Error::OrderNotFound)?;
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        let Query(query) = query.map_err(|_| Error::ShopQuery)?;
        let values = |name| -> Vec<&str> {
            let named = query.iter().filter(|(other, _)| other == name);
            named.map(|(_, value)| value.as_str()).collect()
        };
        let shop = match values("shop").as_slice() {
            [] => None,
            // No shop's name contains NUL, and PostgreSQL does not accept it in text.
            [shop] if shop.contains('\0') => return Err(Error::OrderNotFound.into()),
            [shop] => Some((*shop).to_owned()),
            _ => return Err(Error::ShopQuery.into()),
        };
        Ok(Link {
            id: id.0,
            shop,
            code: values(PAGE_CODE).first().map(|code| (*code).to_owned()),
            asked: asked(&values("amount"), &values("currency")),
        })
    }
}

impl Link {
    async fn order(&self, app: &App) -> Result<PublicOrderLookup, Refusal> {
        let (shop, code) = (self.shop.as_deref(), self.code.as_deref());
        Ok(public_orders::find(&app.db, self.id, shop, code).await?)
    }

    /// The shop that the page may name. Who guesses an id must not learn whose order it is, so the
    /// link has named the shop, or it is the only one there is.
    fn shop_of<'a>(&self, order: &'a PublicOrder, connections: &'a Registry) -> Option<Shop<'a>> {
        let connection = connections.of_shop(&order.shop);
        let is_only = connections.only_shop() == Some(order.shop.as_str());
        let is_named = is_only || self.shop.is_some() || order.is_of_code;
        // Whoever says in the settings how the shop presents itself has no other.
        let is_of_settings = connections.are_of_settings_alone() && !connection.branding.is_empty();
        (is_named || is_of_settings).then(|| Shop {
            domain: if is_named { &order.shop } else { "" },
            sender: connection.sender.as_ref(),
            branding: &connection.branding,
        })
    }
}

/// The picture of the code of a link, as an SVG.
fn picture(app: &App, link: Option<&str>) -> Option<String> {
    let symbol = app.config.qr.of_link(link?)?;
    Some(symbol.svg())
}

/// The branding of a page that names no shop.
fn of_settings(connections: &Registry) -> &Branding {
    &connections.default_storefront().branding
}

fn asked(amounts: &[&str], currencies: &[&str]) -> Asked {
    let (amount, currency) = match (amounts, currencies) {
        ([], []) => return Asked::Nothing,
        ([amount], [currency]) => (*amount, Currency::parse(currency)),
        _ => return Asked::Garbled,
    };
    let money = currency.and_then(|currency| Money::parse_decimal(amount, currency).ok());
    match money {
        Some(money) if money.minor > 0 => Asked::Amount(money),
        _ => Asked::Garbled,
    }
}

/// The page of the service itself.
pub async fn front() -> Page {
    page::front()
}

pub async fn track(
    State(app): State<Arc<App>>,
    preferred: Preferred,
    link: Link,
) -> Result<Response, Refusal> {
    let connections = app.connections.now();
    let order = match link.order(&app).await? {
        PublicOrderLookup::One(order) => order,
        PublicOrderLookup::Several(shops) => {
            let texts = preferred.texts(of_settings(&connections));
            return Ok(choice(link.id, &shops, Asked::Nothing, texts));
        }
        PublicOrderLookup::None => return Err(Error::OrderNotFound.into()),
    };
    let shop = link.shop_of(&order, &connections);
    let texts = preferred.texts(shop.map_or(of_settings(&connections), |shop| shop.branding));
    let page = page::track(
        &order,
        shop,
        texts,
        picture(&app, order.page_url.as_deref()),
    );
    Ok(page.into_response())
}

/// The payment page. The amount is the order's. The link's amount is only compared with it,
/// because anyone can print a QR code.
pub async fn pay(
    State(app): State<Arc<App>>,
    preferred: Preferred,
    link: Link,
) -> Result<Response, Refusal> {
    let connections = app.connections.now();
    let order = match link.order(&app).await? {
        PublicOrderLookup::One(order) => order,
        PublicOrderLookup::Several(shops) => {
            let texts = preferred.texts(of_settings(&connections));
            return Ok(choice(link.id, &shops, link.asked, texts));
        }
        PublicOrderLookup::None => return Err(Error::OrderNotFound.into()),
    };
    let shop = link.shop_of(&order, &connections);
    let texts = preferred.texts(shop.map_or(of_settings(&connections), |shop| shop.branding));
    Ok(page::pay(&order, link.asked, shop, texts).into_response())
}

pub async fn tracking(
    State(app): State<Arc<App>>,
    preferred: Preferred,
    number: Result<Path<String>, PathRejection>,
) -> Result<Page, Refusal> {
    let number = number
        .ok()
        .map(|Path(number)| number)
        .filter(|number| number.chars().count() <= ID_CHARS && !number.contains('\0'))
        .ok_or(Error::ParcelNotFound)?;
    let parcels = public_orders::parcels_with_number(&app.db, &number).await?;
    if parcels.is_empty() {
        return Err(Error::ParcelNotFound.into());
    }
    let texts = preferred.texts(of_settings(&app.connections.now()));
    let link = parcels.iter().find_map(|parcel| parcel.page_url.as_deref());
    Ok(page::tracking(
        &number,
        &parcels,
        texts,
        picture(&app, link),
    ))
}

/// Answers 300, and not 409 like the API, because the link is right and there is more than one
/// page behind it. This page lists them, so that a person can choose (RFC 9110, 15.4.1). There is
/// no `Location`, so no browser chooses by itself.
fn choice(id: i64, shops: &[String], asked: Asked, texts: &'static Texts) -> Response {
    let page = page::choose(id, shops, asked, texts);
    (StatusCode::MULTIPLE_CHOICES, page).into_response()
}

/// The page of an error, for who prefers a language.
pub fn refusal(app: &App, preferred: Preferred, error: Error) -> Response {
    let texts = preferred.texts(of_settings(&app.connections.now()));
    error.with_body(page::refusal(error, texts))
}

/// Wraps every page: it checks the client's limit, sets the deadline of reads, and adds the
/// headers that keep pages out of caches, search indexes, frames and referrers.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let trusted = &app.config.trusted_proxies;
    let client = client_address::of(request.extensions(), request.headers(), trusted);
    let preferred = Preferred::of(request.headers());
    let answer = match app.limits.page(client) {
        Ok(()) => tokio::time::timeout(READ_DEADLINE, next.run(request))
            .await
            .unwrap_or_else(|_| Refusal(Error::Unavailable).into_response()),
        Err(error) => Refusal(error).into_response(),
    };
    let answer = match answer.extensions().get::<Unwritten>().copied() {
        Some(Unwritten(error)) => refusal(&app, preferred, error),
        None => answer,
    };
    let headers = [
        ("x-robots-tag", "noindex, nofollow"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ];
    (headers, answer).into_response()
}
