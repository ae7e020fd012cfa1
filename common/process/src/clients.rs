//! The clients of the providers' APIs, one for each connection that is called. A client keeps what it has seen of its
//! provider, such as that it does not answer, until its connection has another address or token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use config::connection::{PaymentConnection, SharedRegistry, StorefrontConnection};
use domain::connection::{DEFAULT, of_id};
use platform::clock::Clock;
use platform::lock::lock;
use providers::payment::Payment;
use providers::storefront::Storefront;
use providers::{Api, ProbeError, Probed};

/// Clones share their clients.
#[derive(Clone)]
pub struct Clients {
    connections: SharedRegistry,
    clock: Clock,
    storefronts: Made<Storefront>,
    payments: Made<Payment>,
}

/// Clients by the names of their connections.
type Made<T> = Arc<Mutex<HashMap<String, (Api, T)>>>;

impl Clients {
    pub fn new(connections: &SharedRegistry, clock: &Clock) -> Self {
        Clients {
            connections: connections.clone(),
            clock: clock.clone(),
            storefronts: Made::default(),
            payments: Made::default(),
        }
    }

    /// The client of the storefront that a shop is called through.
    pub fn of_shop(&self, shop: &str) -> Result<Storefront> {
        let connections = self.connections.now();
        let connection = connections.of_shop(shop);
        match self.storefront(connection) {
            Some(client) => Ok(client),
            None if connections.is_removed(&connection.name) => bail!(
                "the connection {} of this shop was removed, so its storefront cannot be asked",
                connection.name
            ),
            None if connection.is_default() => bail!(
                "STOREFRONT_API_URL and STOREFRONT_API_TOKEN are not set in this process, and the shop has no connection of its own"
            ),
            None => bail!(
                "the connection {} has no API, or its token cannot be read here",
                connection.name
            ),
        }
    }

    pub fn storefront(&self, connection: &StorefrontConnection) -> Option<Storefront> {
        let new = |api: &Api| Storefront::new(api, connection.profile, &self.clock);
        let api = connection.api.as_ref()?;
        Some(kept(&self.storefronts, &connection.name, api, new))
    }

    /// The client of the payment provider that an id belongs to.
    pub fn of_payment(&self, id: &str) -> Result<Payment> {
        self.payment(of_id(id))
    }

    /// The client of a connection with a payment provider.
    pub fn payment(&self, name: &str) -> Result<Payment> {
        let connections = self.connections.now();
        let Some(connection) = connections.payment(name) else {
            bail!("the connection {name} was removed, so its payment provider cannot be asked");
        };
        match self.payment_of(connection) {
            Some(client) => Ok(client),
            None if name == DEFAULT => {
                bail!("PAYMENT_API_URL and PAYMENT_API_KEY are not set in this process")
            }
            None => bail!("the connection {name} has no API, or its key cannot be read here"),
        }
    }

    pub fn payment_of(&self, connection: &PaymentConnection) -> Option<Payment> {
        let new = |api: &Api| Payment::new(api, &self.clock);
        let api = connection.api.as_ref()?;
        Some(kept(&self.payments, &connection.name, api, new))
    }

    /// What the API of a connection answers to a question that changes nothing. `None`: it has none that can be asked here.
    pub async fn probe(&self, name: &str) -> Option<Result<Probed, ProbeError>> {
        let connections = self.connections.now();
        if let Some(connection) = connections.storefront(name).filter(|it| !it.is_default()) {
            let shop = connection.shops.first().map_or("", String::as_str);
            return Some(self.storefront(connection)?.probe(shop).await);
        }
        let client = self.payment_of(connections.payment(name)?)?;
        Some(client.probe().await)
    }

    /// True while the storefront of a connection does not answer.
    pub fn is_storefront_left_alone(&self, name: &str) -> bool {
        let made = lock(&self.storefronts);
        made.get(name)
            .is_some_and(|(_, client)| client.is_left_alone())
    }

    /// True while the payment provider of a connection does not answer.
    pub fn is_payment_left_alone(&self, name: &str) -> bool {
        let made = lock(&self.payments);
        made.get(name)
            .is_some_and(|(_, client)| client.is_left_alone())
    }
}

/// The client that was made before, or a new one if the address or the token is another one now.
fn kept<T: Clone>(made: &Made<T>, name: &str, api: &Api, new: impl FnOnce(&Api) -> T) -> T {
    let mut made = lock(made);
    if let Some((of, client)) = made.get(name)
        && of == api
    {
        return client.clone();
    }
    let client = new(api);
    made.insert(name.to_owned(), (api.clone(), client.clone()));
    client
}
