//! The currencies that the payment provider supports.

use domain::money::Currency;

use super::error::Error;
use super::form::Form;

const SUPPORTED: &str = "\
    usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp \
    byn bzd cad cdf chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip \
    gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt \
    lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr \
    nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sos srd \
    std szl thb tjs tnd top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xof xpf yer zar \
    zmw";

pub fn read(form: &mut Form, field: &str) -> Result<Currency, Error> {
    let name = form.name(field);
    let code = form.required(field)?;
    let lower = code.to_ascii_lowercase();
    let supported = SUPPORTED.split(' ').any(|known| known == lower);
    let currency = Currency::parse(&code).filter(|_| supported);
    currency.ok_or_else(|| {
        let list = SUPPORTED.replace(' ', ", ");
        let message = format!("Invalid currency: {lower}. These currencies are supported: {list}");
        Error::invalid(message).param(&name)
    })
}
