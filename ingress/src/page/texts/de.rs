//! German.

use domain::branding::Language;

use super::{
    ChoiceTexts, DueTexts, ParcelTexts, PaymentTexts, ProgressTexts, RefusalTexts, StepTexts, Texts,
};

pub const TEXTS: Texts = Texts {
    language: Language::German,
    order: "Bestellung",
    progress: ProgressTexts {
        received: ["Eingegangen", "Ihre Bestellung ist beim Shop eingegangen."],
        preparing: ["In Bearbeitung", "Der Shop bereitet Ihre Bestellung vor."],
        partly_shipped: "Ein Teil Ihrer Bestellung ist unterwegs. Der Shop bereitet den Rest vor.",
        shipped: ["Versandt", "Ihre Bestellung ist unterwegs."],
        delivered: "Ihre Bestellung wurde zugestellt.",
        returned: "Ihre Bestellung ist wieder beim Shop.",
        cancelled: ["Storniert", "Diese Bestellung wurde storniert."],
        not_shipping: [
            "Wird nicht versandt",
            "Der Shop versendet diese Bestellung nicht. Wenden Sie sich an den Shop, wenn Sie damit nicht gerechnet haben.",
        ],
    },
    steps: StepTexts {
        label: "Fortschritt",
        done: "Erledigt",
        now: "Jetzt",
        next: "Folgt noch",
        last: "Beendet",
    },
    payment: PaymentTexts {
        label: "Zahlung",
        pending: "Noch nicht bezahlt",
        authorized: "Autorisiert",
        partially_paid: "Teilweise bezahlt",
        paid: "Bezahlt",
        partially_refunded: "Teilweise erstattet",
        refunded: "Erstattet",
        voided: "Abgebrochen",
        expired: "Nicht rechtzeitig bezahlt",
        unknown: "Nicht bekannt",
    },
    parcels: ParcelTexts {
        one: "Paket",
        several: "Pakete",
        carrier: "Versanddienst",
        number: "Sendungsnummer",
        status: "Status",
        track_at: "Verfolgen bei",
        no_number: "Der Shop hat zu dieser Bestellung keine Sendungsnummer angegeben.",
        one_is_yours: "Mehrere Pakete haben diese Nummer. Eines davon ist Ihres.",
        announced: "Angekündigt: Der Versanddienst hat es vielleicht noch nicht",
        shipped: "Versandt",
        shipped_before: "Versandt, bevor die Bestellung storniert wurde",
        out_for_delivery: "In Zustellung",
        ready_for_pickup: "Zur Abholung bereit",
        delivered: "Zugestellt",
        not_delivered: "Der Versanddienst konnte es nicht zustellen",
        returned: "Zurück beim Shop",
        cancelled: "Storniert: Es wird nicht versandt",
    },
    due: DueTexts {
        title: "Zahlung",
        amount: "Zu zahlen",
        how: "Bezahlen Sie über die Kasse des Shops: Auf dieser Seite gibt es keine Zahlung. Die Bestellbestätigung des Shops \
              führt dorthin.",
        nothing: "Nichts zu zahlen",
        ask_title: "Fragen Sie den Shop, bevor Sie zahlen",
        ask: "Ob und wie viel für diese Bestellung zu zahlen ist, ist hier nicht bekannt. Der Shop kann es Ihnen sagen.",
        check: "Prüfen Sie den Betrag",
        link_asks: "Der Link, dem Sie gefolgt sind, verlangt {}",
        link_is_garbled: "Der Link, dem Sie gefolgt sind, verlangt einen Betrag, der nicht lesbar ist",
        pay_no_more: "für diese Bestellung sind {} zu zahlen. Zahlen Sie nicht mehr als {}.",
        do_not_pay: "für diese Bestellung ist nichts zu zahlen. Zahlen Sie nicht.",
        ask_before: "fragen Sie den Shop, bevor Sie etwas zahlen.",
        cancelled: "Diese Bestellung wurde storniert, es ist also nichts zu zahlen.",
        paid: "Diese Bestellung ist bezahlt. Vielen Dank.",
        partially_refunded: "Diese Bestellung wurde bezahlt, und ein Teil des Geldes wurde erstattet. Es ist nichts zu zahlen.",
        refunded: "Das Geld für diese Bestellung wurde erstattet. Es ist nichts zu zahlen.",
        voided: "Die Zahlung für diese Bestellung wurde abgebrochen, es ist also nichts zu zahlen.",
        authorized: "Die Zahlung ist autorisiert: Das Geld ist vorgemerkt, und der Shop zieht es ein. Sie müssen nichts weiter tun.",
        zero: "Für diese Bestellung ist nichts mehr zu zahlen.",
    },
    choice: ChoiceTexts {
        title: "Von welchem Shop ist sie?",
        several: "Mehrere Shops haben eine Bestellung mit dieser Nummer. Wählen Sie Ihren.",
        unnamed: "Ein Shop ohne Namen",
    },
    refusals: RefusalTexts {
        order_not_found: [
            "Bestellung nicht gefunden",
            "Es gibt keine Bestellung mit dieser Nummer. Eine neue Bestellung erscheint spätestens nach etwa einer Minute. Sehen \
             Sie dies dann immer noch, fragen Sie den Shop nach dem richtigen Link.",
        ],
        parcel_not_found: [
            "Paket nicht gefunden",
            "Hier ist kein Paket mit dieser Sendungsnummer bekannt. Vielleicht wurde es noch nicht übergeben, oder es ist nicht \
             mehr unterwegs.",
        ],
        incomplete: [
            "Dieser Link ist nicht vollständig",
            "Scannen Sie den Code noch einmal, oder öffnen Sie den Link so, wie Sie ihn bekommen haben.",
        ],
        too_many: [
            "Zu viele Anfragen",
            "Aus Ihrem Netz wurden viele Seiten geöffnet. Warten Sie einen Moment, und laden Sie diese Seite dann noch einmal.",
        ],
        later: [
            "Bitte versuchen Sie es gleich noch einmal",
            "Die Bestellung kann im Moment nicht nachgeschlagen werden. Mit Ihrem Link ist alles in Ordnung.",
        ],
        other: [
            "Etwas ist schiefgegangen",
            "Diese Seite kann nicht gezeigt werden. Bitte versuchen Sie es später noch einmal.",
        ],
    },
    questions: "Fragen?",
    ask_the_shop: "Den Shop fragen",
    scan: "Scannen, um diese Seite auf einem Telefon zu öffnen",
    updated: "Stand:",
    decimal: ',',
    date: "{day}. {month} {year}",
    months: [
        "Januar",
        "Februar",
        "März",
        "April",
        "Mai",
        "Juni",
        "Juli",
        "August",
        "September",
        "Oktober",
        "November",
        "Dezember",
    ],
};
