//! Where the console of operators is served, and at which address they open it. Who is not on this
//! machine opens it over https:// alone, because a session is a credential.

use std::net::{Ipv4Addr, SocketAddr};

use providers::is_loopback;

use crate::Reader;

/// The port of the console, as far after that of ingress: the one between is the sandbox's.
const PORTS_AFTER: u16 = 2;

/// Where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing was set: `waybill` serves it on this machine, and `waybill-ingress` does not.
    Unset,
    Off,
    At(SocketAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    pub place: Place,
    /// The address at which operators open it, without a slash at its end. `None`: where it listens.
    pub url: Option<String>,
    /// Nobody changes anything from it.
    pub is_read_only: bool,
}

impl Console {
    /// Where `waybill` serves it, which also does so when nothing was set: on loopback, beside ingress.
    pub fn beside(&self, listen_addr: SocketAddr) -> Option<SocketAddr> {
        match self.place {
            Place::Unset => {
                let port = listen_addr.port();
                let port = match port {
                    0 => 0,
                    port => port.checked_add(PORTS_AFTER).unwrap_or(0),
                };
                Some((Ipv4Addr::LOCALHOST, port).into())
            }
            Place::Off => None,
            Place::At(address) => Some(address),
        }
    }

    /// Where it is served when that was set.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.place {
            Place::At(address) => Some(address),
            Place::Unset | Place::Off => None,
        }
    }

    /// Whether others than this machine may reach it, directly or through a proxy.
    pub fn is_exposed(&self) -> bool {
        let is_elsewhere = |address: SocketAddr| !address.ip().is_loopback();
        self.address().is_some_and(is_elsewhere)
            || self.url.as_deref().is_some_and(|url| !is_loopback(url))
    }
}

impl Reader<'_> {
    pub(crate) fn console(&mut self) -> Option<Console> {
        let place = self.console_place()?;
        let is_read_only = self.flag("CONSOLE_READ_ONLY")?;
        let url = match self.settings.get("CONSOLE_URL") {
            Some(_) => Some(self.console_url()?),
            None => None,
        };
        if url.is_none()
            && let Place::At(address) = place
            && !address.ip().is_loopback()
        {
            self.wrong(
                "CONSOLE_URL",
                "is missing; CONSOLE_ADDR is not loopback, so it must be the https:// address at which \
                 operators open the console through your proxy",
            );
            return None;
        }
        Some(Console {
            place,
            url,
            is_read_only,
        })
    }

    fn console_place(&mut self) -> Option<Place> {
        if self.settings.get("CONSOLE_ADDR").is_none() {
            return Some(Place::Unset);
        }
        let text = self.text("CONSOLE_ADDR")?;
        if text.trim().eq_ignore_ascii_case("off") {
            return Some(Place::Off);
        }
        let expected = "an address and port like 127.0.0.1:8002, or off";
        self.parse("CONSOLE_ADDR", expected).map(Place::At)
    }

    fn console_url(&mut self) -> Option<String> {
        let url = self.url("CONSOLE_URL")?;
        let authority = url.split_once("://").map_or("", |(_, rest)| rest);
        if authority.contains('/') {
            self.wrong(
                "CONSOLE_URL",
                "has a path; the console needs a host of its own",
            );
            return None;
        }
        if !url.starts_with("https://") && !is_loopback(&url) {
            self.wrong(
                "CONSOLE_URL",
                "is http:// and not of this machine; a session would go over the network in clear, so it \
                 must begin with https://",
            );
            return None;
        }
        // Browsers leave the usual port out.
        let usual = if url.starts_with("https://") {
            ":443"
        } else {
            ":80"
        };
        Some(url.strip_suffix(usual).unwrap_or(&url).to_owned())
    }
}
