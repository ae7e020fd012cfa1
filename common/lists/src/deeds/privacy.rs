//! What is done to privacy requests.

use domain::api_key::Role;
use domain::privacy::{Decided, Topic};
use operators::advice;
use operators::privacy_requests::{self as flow, ByHand, NotEntered, Place};
use serde_json::json;
use store::privacy_requests::{self, ActionRefused, Undecided};
use uuid::Uuid;

use super::{About, CHANGED, Deed, Desk, Done, Looked, Refused, Site, Typed};
use crate::shown::{self, Cell};
use crate::words;

const ENTERED: &str = "The request was entered. It must be done within 30 days from now.";
const RETRIED: &str =
    "The request is tried again. Until its deadline it has as many tries as a new one.";
const CANCELLED: &str = "The erasure of the shop was cancelled.";
const CONFIRMED: &str =
    "The erasure of the shop was confirmed. It runs when the rest of its hold is over.";
const DECIDED: &str = "This was decided. The request goes on within seconds.";

fn page(id: Uuid) -> String {
    format!("/privacy/{id}")
}

/// What comes of a request that workers take.
fn received(says: &'static str, id: Uuid) -> Done {
    let text = format!(
        "Request {id} is received; a worker takes it within seconds.\n\
         See what becomes of it: waybill privacy show {id}\n"
    );
    Done::new(says, page(id), json!({"id": id})).text(text)
}

fn refused(id: Uuid) -> impl FnOnce(ActionRefused) -> Refused {
    move |refused| {
        let why = advice::with(&refused);
        match refused {
            ActionRefused::Unknown => Refused::Unknown("privacy request", why),
            ActionRefused::NotFailed(_)
            | ActionRefused::NotHeld(_)
            | ActionRefused::NotWaiting(_) => Refused::Changed(page(id), why),
            ActionRefused::Database(error) => error.into(),
            _ => Refused::Impossible(why),
        }
    }
}

/// Enter a customer's request by hand, when the customer has written to you instead of asking in the shop
///
/// It is carried out like a request that the storefront passes on, and must be done within 30 days from now. Make sure
/// first that it is the customer who has written.
#[derive(Clone, Debug, clap::Args)]
pub struct Request {
    /// The shop's domain
    #[arg(long, value_name = "DOMAIN")]
    pub shop: String,
    /// The customer's id at the storefront. Without it the e-mail address says who it is
    #[arg(long, value_name = "ID")]
    pub customer: Option<i64>,
    /// Erase the customer's data, and not export it
    #[arg(long)]
    pub erase: bool,
    /// Enter it even if nothing is known of this customer
    #[arg(long = "yes")]
    pub even_if_unknown: bool,
}

impl Deed for Request {
    const ABOUT: About = About::new("privacy request", Role::Privacy, "Enter a request")
        .like("--shop SHOP --customer ID")
        .asks("Enter a privacy request", "Enter it");
    const SAYS: &'static [&'static str] = &[ENTERED];
    const TYPED: Option<Typed> = Some(Typed {
        name: "email",
        label: "The customer's e-mail address",
        help: "It is kept with the request alone, and shown on no page.",
        kind: "email",
    });

    fn needs_typed(&self) -> bool {
        self.customer.is_none()
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let topic = if self.erase {
            Topic::Redact
        } else {
            Topic::DataRequest
        };
        let asked = ByHand {
            key: desk.id,
            topic,
            shop: &self.shop,
            customer: self.customer,
            email: desk.typed.filter(|email| !email.is_empty()),
            is_sure: self.even_if_unknown,
        };
        let place = Place {
            db: desk.site.db,
            bus: desk.bus,
            shops: &desk.site.configured.storefront_shops()?,
            remembered: desk.remembered,
        };
        match flow::enter(place, desk.clock, desk.by, asked).await {
            Ok((id, is_new)) => Ok(received(if is_new { ENTERED } else { CHANGED }, id)),
            Err(NotEntered::Database(error)) => Err(error.into()),
            Err(why @ NotEntered::NothingKnown(..)) => {
                let why = Refused::Impossible(why.to_string());
                Err(why.option("to enter the request nevertheless, add --yes"))
            }
            Err(why) => Err(Refused::Impossible(why.to_string())),
        }
    }
}

/// Start a failed request again, after you have fixed the cause
///
/// Until its deadline it has as many tries as a new request. Steps that are already done are not repeated.
#[derive(Clone, Debug, clap::Args)]
pub struct Retry {
    #[arg(value_parser = words::id)]
    pub id: Uuid,
}

impl Deed for Retry {
    const ABOUT: About = About::new("privacy retry", Role::Privacy, "Try again").of("id");
    const SAYS: &'static [&'static str] = &[RETRIED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let id = self.id;
        let retried = privacy_requests::retry(desk.site.db, desk.by, id).await;
        retried.map_err(refused(id))?;
        Ok(received(RETRIED, id))
    }
}

/// Cancel the erasure of a shop, while it is held
///
/// The data is then kept, and the request is over for good. Nothing else can be cancelled, because answering a customer's
/// request is a legal duty, and rows that were already erased cannot be brought back.
#[derive(Clone, Debug, clap::Args)]
pub struct Cancel {
    #[arg(value_parser = words::id)]
    pub id: Uuid,
}

impl Deed for Cancel {
    const ABOUT: About = About::new("privacy cancel", Role::Privacy, "Cancel the erasure")
        .of("id")
        .asks("Cancel this erasure?", "Cancel it for good")
        .for_good();
    const SAYS: &'static [&'static str] = &[CANCELLED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        look(site, target).await
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let id = self.id;
        let cancelled = privacy_requests::cancel(desk.site.db, desk.by, id).await;
        cancelled.map_err(refused(id))?;
        let text = format!("Request {id} is cancelled; nothing is erased.\n");
        Ok(Done::new(CANCELLED, page(id), json!({"id": id})).text(text))
    }
}

/// Let an erasure run that waits for a decision: its body came before, or its shop is in use
///
/// What it names is then erased for good: of a shop all that was there when the request came. Ask the storefront first
/// whether it is meant. The deadline of the request still applies. To prevent the erasure for good, cancel it.
#[derive(Clone, Debug, clap::Args)]
pub struct Confirm {
    #[arg(value_parser = words::id)]
    pub id: Uuid,
}

impl Deed for Confirm {
    const ABOUT: About = About::new("privacy confirm", Role::Privacy, "Confirm")
        .of("id")
        .asks("Let this erasure run?", "Let it run")
        .for_good();
    const SAYS: &'static [&'static str] = &[CONFIRMED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        look(site, target).await
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (id, hold) = (self.id, desk.site.configured.shop_hold()?);
        let confirmed = privacy_requests::confirm(desk.site.db, desk.by, id, hold).await;
        confirmed.map_err(refused(id))?;
        let text = format!(
            "Request {id} is confirmed; a worker takes it when its hold has ended.\n\
             See what becomes of it: waybill privacy show {id}\n"
        );
        Ok(Done::new(CONFIRMED, page(id), json!({"id": id})).text(text))
    }
}

/// Which request it is, in ids, states and times.
async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
    let id = Uuid::parse_str(target).unwrap_or_default();
    let found = privacy_requests::find(site.db, id).await?;
    let it = found.ok_or_else(|| refused(id)(ActionRefused::Unknown))?;
    Ok(Looked {
        facts: vec![
            ("Shop", Cell::text(it.shop.as_str())),
            ("State", shown::state(it.state.as_str())),
            ("Received", Cell::time(it.received_at)),
            ("Due", Cell::time(it.due_at)),
        ],
        ..Looked::default()
    })
}

/// Decide whom a request means that is held because others have the same address or number
///
/// `waybill privacy show` lists the customers and orders in question. The data of those that you include is exported or
/// erased as well. Those that you exclude belong to somebody else, and their data is left alone. Those that you do not
/// mention stay held, and the deadline of the request still applies.
#[derive(Clone, Debug, clap::Args)]
pub struct Decide {
    #[arg(value_parser = words::id)]
    pub id: Uuid,
    /// A customer who is the same person; you can give it more than once
    #[arg(long, value_name = "CUSTOMER")]
    pub include: Vec<i64>,
    /// A customer who is somebody else
    #[arg(long, value_name = "CUSTOMER")]
    pub exclude: Vec<i64>,
    /// An order without a customer that belongs to the same person
    #[arg(long, value_name = "ORDER")]
    pub include_order: Vec<i64>,
    /// An order without a customer that belongs to somebody else
    #[arg(long, value_name = "ORDER")]
    pub exclude_order: Vec<i64>,
    /// Exclude all customers and orders that you do not include
    #[arg(long)]
    pub exclude_rest: bool,
}

impl Deed for Decide {
    const ABOUT: About = About::new("privacy decide", Role::Privacy, "Decide")
        .of("id")
        .asks("Whom does this request mean?", "Decide it")
        .for_good();
    const SAYS: &'static [&'static str] = &[DECIDED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let id = self.id;
        let said = Decided {
            customers: self.include.into_iter().collect(),
            other_customers: self.exclude.into_iter().collect(),
            orders: self.include_order.into_iter().collect(),
            other_orders: self.exclude_order.into_iter().collect(),
            is_all: self.exclude_rest,
        };
        if said == Decided::default() {
            let why = "say of at least one whether it is the same person".to_owned();
            return Err(Refused::Impossible(why).option(format!(
                "--include, --exclude, --include-order, --exclude-order, or --exclude-rest; `waybill privacy show {id}` \
                 lists whom it may mean"
            )));
        }
        let contradicted = said.customers.intersection(&said.other_customers);
        let mut contradicted = contradicted.chain(said.orders.intersection(&said.other_orders));
        if let Some(both) = contradicted.next() {
            let why = format!("{both} is included and excluded; say one of both");
            return Err(Refused::Impossible(why));
        }
        match privacy_requests::decide(desk.site.db, desk.by, id, &said).await {
            Ok(()) => Ok(received(DECIDED, id)),
            Err(why) => {
                let text = advice::with(&why);
                Err(match why {
                    Undecided::NotHeld => Refused::Changed(page(id), text),
                    Undecided::Unknown => Refused::Unknown("privacy request", text),
                    Undecided::Database(error) => error.into(),
                    Undecided::NotAmongHeld(_) => Refused::Impossible(text),
                })
            }
        }
    }
}
