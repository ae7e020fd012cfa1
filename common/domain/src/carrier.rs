//! Links to the public tracking pages of carriers, made of the carrier's name and the tracking
//! number alone. A link that a shop gave may contain a postcode or a name and must not be shown
//! to everybody. A link that is made here says no more than the number beside it.

/// A carrier with its public tracking page.
pub struct Carrier {
    /// The names by which the carrier is known, in lower case and with only letters and digits.
    pub names: &'static [&'static str],
    pub host: &'static str,
    /// The address of the page up to the tracking number.
    pub page: &'static str,
}

pub const CARRIERS: &[Carrier] = &[
    Carrier {
        names: &["ups", "upsground", "upsexpress", "unitedparcelservice"],
        host: "www.ups.com",
        page: "https://www.ups.com/track?tracknum=",
    },
    Carrier {
        names: &["usps", "unitedstatespostalservice"],
        host: "tools.usps.com",
        page: "https://tools.usps.com/go/TrackConfirmAction?tLabels=",
    },
    Carrier {
        names: &["fedex", "fedexground", "fedexexpress", "federalexpress"],
        host: "www.fedex.com",
        page: "https://www.fedex.com/fedextrack/?trknbr=",
    },
    Carrier {
        names: &["dhl", "dhlexpress", "dhlecommerce", "dhlpaket", "dhlparcel"],
        host: "www.dhl.com",
        page: "https://www.dhl.com/global-en/home/tracking.html?tracking-id=",
    },
    Carrier {
        names: &["deutschepost"],
        host: "www.deutschepost.de",
        page: "https://www.deutschepost.de/sendung/simpleQuery.html?form.sendungsnummer=",
    },
    Carrier {
        names: &["dpd", "dpdgermany", "dpdde"],
        host: "tracking.dpd.de",
        page: "https://tracking.dpd.de/status/en_US/parcel/",
    },
    Carrier {
        names: &["gls", "glsgermany"],
        host: "gls-group.com",
        page: "https://gls-group.com/track/",
    },
    Carrier {
        names: &["royalmail"],
        host: "www.royalmail.com",
        page: "https://www.royalmail.com/track-your-item#/tracking-results/",
    },
    Carrier {
        names: &["evri", "hermesuk"],
        host: "www.evri.com",
        page: "https://www.evri.com/track/parcel/",
    },
    Carrier {
        names: &["laposte", "colissimo"],
        host: "www.laposte.fr",
        page: "https://www.laposte.fr/outils/suivre-vos-envois?code=",
    },
    Carrier {
        names: &["swisspost", "dieschweizerischepost", "lapostesuisse"],
        host: "service.post.ch",
        page: "https://service.post.ch/ekp-web/ui/entry/search/",
    },
    Carrier {
        names: &["austrianpost", "osterreichischepost"],
        host: "www.post.at",
        page: "https://www.post.at/sv/sendungsdetails?snr=",
    },
    Carrier {
        names: &["postnord"],
        host: "tracking.postnord.com",
        page: "https://tracking.postnord.com/en/tracking?id=",
    },
    Carrier {
        names: &["canadapost", "postescanada"],
        host: "www.canadapost-postescanada.ca",
        page: "https://www.canadapost-postescanada.ca/track-reperage/en#/search?searchFor=",
    },
    Carrier {
        names: &["purolator"],
        host: "www.purolator.com",
        page: "https://www.purolator.com/en/shipping/tracker?pin=",
    },
    Carrier {
        names: &["australiapost", "auspost"],
        host: "auspost.com.au",
        page: "https://auspost.com.au/mypost/track/#/details/",
    },
    Carrier {
        names: &["ontrac"],
        host: "www.ontrac.com",
        page: "https://www.ontrac.com/tracking/?number=",
    },
];

/// A link to the carrier's page of a parcel, and the host to which it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackingLink {
    pub url: String,
    pub host: &'static str,
}

/// The link for a carrier's name and a tracking number. None when the carrier is not known, or
/// when the number cannot be one of a carrier.
pub fn link(carrier: &str, number: &str) -> Option<TrackingLink> {
    let letters = carrier.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|it| it.to_ascii_lowercase()).collect();
    let mut carriers = CARRIERS.iter();
    let carrier = carriers.find(|carrier| carrier.names.contains(&name.as_str()))?;
    let plain = number.bytes().filter(|byte| !b" -".contains(byte));
    let plain: String = plain.map(char::from).collect();
    let fits = (6..=40).contains(&plain.len())
        && number.is_ascii()
        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && plain.bytes().any(|byte| byte.is_ascii_digit());
    fits.then(|| TrackingLink {
        url: format!("{}{plain}", carrier.page),
        host: carrier.host,
    })
}
