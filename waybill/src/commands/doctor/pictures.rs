//! Checks that the pictures of QR codes have a size that is of use.

use config::Config;
use qr::OddSize;

use super::Finding;

pub fn look(config: &Config) -> Option<Finding> {
    let odd = config.qr.odd_size()?;
    let advice = match odd {
        OddSize::Unreadable(_) => "Set QR_BOX_SIZE to 3 or more; 10 is the default.",
        OddSize::Huge(_) => {
            "Set QR_BOX_SIZE to 10 and QR_BORDER to 4, which are the defaults. For print ask for SVG, which has any size."
        }
    };
    Some(Finding::warning("QR codes", odd.to_string(), advice))
}
