//! Opens checkout sessions from a form, completes them with a payment, and lets them expire.

use domain::money::Money;
use serde_json::Value;

use super::basket;
use super::desk::Desk;
use super::error::Error;
use super::form::{Form, missing};
use super::intents::Record;
use super::invoices::Subscription;
use super::sessions::{self, LIFETIME, Line, Mode, Plan, Session, Status};
use crate::sample::token;

const MODES: [(&str, bool); 2] = [("payment", false), ("subscription", true)];
const SHORTEST_LIFETIME: i64 = 30 * 60;

impl Desk<'_> {
    pub fn show_session(&self, id: &str) -> Result<Value, Error> {
        let session = self.session(id)?;
        let url = format!("{}/checkout/{id}", self.url);
        Ok(sessions::object(session, Some(&url), self.now))
    }

    pub fn session(&self, id: &str) -> Result<&Session, Error> {
        let session = self.ledger.sessions.get(id);
        session.ok_or_else(|| Error::unknown("checkout.session", id, "session"))
    }

    pub fn open_session(&mut self, key: Option<&str>, form: &mut Form) -> Result<Value, Error> {
        let subscription = form
            .choice("mode", &MODES)?
            .ok_or_else(|| missing("mode"))?;
        let lines = self.lines(form)?;
        let total = basket::total(&lines)?;
        let id = self.id("cs_test_");
        let mut record = Record::new(self.id("pi_"), total, self.now);
        let (success_url, cancel_url) =
            (address(form, "success_url")?, address(form, "cancel_url")?);
        let mode = mode(form, subscription, &lines, &mut record)?;
        let mut session = Session {
            id: id.clone(),
            lines,
            total,
            success_url: success_url.ok_or_else(|| missing("success_url"))?,
            cancel_url,
            client_reference_id: form.text("client_reference_id")?,
            customer: form.text("customer")?,
            customer_email: email(form)?,
            metadata: form.metadata()?,
            created: self.now.unix_seconds(),
            expires_at: self.expiry(form)?,
            intent: record.id.clone(),
            mode,
            status: Status::Open,
        };
        form.pass_over(&["locale", "payment_method_types", "submit_type", "ui_mode"]);
        form.refuse_rest()?;
        if subscription && session.customer.is_none() {
            session.customer = Some(token("cus_", &id, 0));
        }
        record.customer.clone_from(&session.customer);
        record.session = Some(id.clone());
        let made = &mut self.ledger.sessions_made;
        *made.entry(key.unwrap_or_default().to_owned()).or_default() += 1;
        self.ledger.intents.insert(record.id.clone(), record);
        self.ledger.sessions.insert(id.clone(), session);
        self.show_session(&id)
    }

    /// Expires a session, as the API is asked to. Nobody can pay it after that.
    pub fn expire(&mut self, id: &str) -> Result<Value, Error> {
        let session = self.session(id)?;
        let status = session.status_at(self.now);
        if status != Status::Open {
            let message = format!(
                "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout \
                 Session has a status of `{}`.",
                status.name()
            );
            return Err(Error::invalid(message));
        }
        let intent = session.intent.clone();
        self.call_off(&intent, None)?;
        self.show_session(id)
    }

    /// Completes the session whose intent has succeeded.
    pub fn complete(&mut self, id: &str) -> Result<(), Error> {
        let mut session = self.session(id)?.clone();
        session.status = Status::Complete;
        if let Mode::Subscription(plan) = &session.mode {
            let (subscription, months) = (subscription(&session, plan), plan.months);
            let made = self.bill_with(subscription, months, &session.intent)?;
            session.mode = Mode::Subscription(Plan {
                made: Some(made),
                ..plan.clone()
            });
        }
        let event = self.event_builder().session_completed(&session);
        self.events.push(event);
        self.ledger.sessions.insert(id.to_owned(), session);
        Ok(())
    }

    fn expiry(&self, form: &mut Form) -> Result<i64, Error> {
        let now = self.now.unix_seconds();
        let allowed = now + SHORTEST_LIFETIME..=now + LIFETIME;
        match form.positive("expires_at")? {
            None => Ok(now + LIFETIME),
            Some(at) if allowed.contains(&at) => Ok(at),
            Some(_) => {
                let message = "The `expires_at` timestamp must be between 30 minutes and 24 hours \
                               from Checkout Session creation.";
                Err(Error::invalid(message).param("expires_at"))
            }
        }
    }
}

/// The parts in which the two modes of a session differ.
fn mode(
    form: &mut Form,
    subscription: bool,
    lines: &[Line],
    record: &mut Record,
) -> Result<Mode, Error> {
    let (own, others) = if subscription {
        ("subscription_data", "payment_intent_data")
    } else {
        ("payment_intent_data", "subscription_data")
    };
    if form.group(others)?.is_some() {
        let mode = if subscription {
            "subscription"
        } else {
            "payment"
        };
        let message = format!("You can not pass `{others}` in `{mode}` mode.");
        return Err(Error::invalid(message).param(others));
    }
    let mut data = form.group(own)?.unwrap_or_default();
    let metadata = data.metadata()?;
    let months = lines.iter().find_map(|line| line.months);
    let mode = match (subscription, months) {
        (false, None) => {
            record.metadata = metadata;
            record.receipt_email = data.text("receipt_email")?;
            Mode::Payment
        }
        (true, Some(months)) => Mode::Subscription(Plan {
            months,
            metadata,
            made: None,
        }),
        (false, Some(_)) => {
            let message = "You specified `payment` mode but passed a recurring price. Either \
                           switch to `subscription` mode or use only one-time prices.";
            return Err(Error::invalid(message).param("mode"));
        }
        (true, None) => {
            let message = "You must provide at least one recurring price in `subscription` mode \
                           when using prices.";
            return Err(Error::invalid(message).param("line_items"));
        }
    };
    data.pass_over(&["description"]);
    data.refuse_rest()?;
    Ok(mode)
}

/// Reads an http or https address to which a browser can be sent.
fn address(form: &mut Form, field: &str) -> Result<Option<String>, Error> {
    let Some(text) = form.text(field)? else {
        return Ok(None);
    };
    let url = reqwest::Url::parse(&text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    if url.is_none() {
        return Err(Error::invalid("Not a valid URL")
            .code("url_invalid")
            .param(field));
    }
    Ok(Some(text))
}

fn email(form: &mut Form) -> Result<Option<String>, Error> {
    let Some(email) = form.text("customer_email")? else {
        return Ok(None);
    };
    let parts = email.split_once('@');
    if parts.is_none_or(|(name, domain)| name.is_empty() || !domain.contains('.')) {
        let error = Error::invalid(format!("Invalid email address: {email}"));
        return Err(error.code("email_invalid").param("customer_email"));
    }
    Ok(Some(email))
}

/// The subscription that a session makes when it is paid for the first time. Articles that are
/// paid only once are on the first invoice only.
fn subscription(session: &Session, plan: &Plan) -> Subscription {
    let lines = session.lines.iter().filter(|line| line.months.is_some());
    let titles: Vec<_> = lines.clone().map(|line| line.name.as_str()).collect();
    Subscription {
        id: token("sub_", &session.id, 0),
        customer: session.customer.clone().unwrap_or_default(),
        customer_email: session.customer_email.clone(),
        price: Money {
            minor: lines.filter_map(Line::total).sum(),
            ..session.total
        },
        title: titles.join(", "),
        metadata: plan.metadata.clone(),
        started: session.created,
        months: plan.months,
        months_paid: 0,
        invoices: 0,
    }
}
