//! English.

use domain::branding::Language;

use super::{
    ChoiceTexts, DueTexts, ParcelTexts, PaymentTexts, ProgressTexts, RefusalTexts, StepTexts, Texts,
};

pub const TEXTS: Texts = Texts {
    language: Language::English,
    order: "Order",
    progress: ProgressTexts {
        received: ["Received", "The shop has your order."],
        preparing: ["Preparing", "The shop is getting your order ready."],
        partly_shipped: "Part of your order is on its way. The shop is getting the rest ready.",
        shipped: ["Shipped", "Your order is on its way."],
        delivered: "Your order was delivered.",
        returned: "Your order came back to the shop.",
        cancelled: ["Cancelled", "This order was cancelled."],
        not_shipping: [
            "Will not be shipped",
            "The shop will not ship this order. Ask the shop if you did not expect that.",
        ],
    },
    steps: StepTexts {
        label: "Progress",
        done: "Done",
        now: "Now",
        next: "To come",
        last: "Final",
    },
    payment: PaymentTexts {
        label: "Payment",
        pending: "Not paid yet",
        authorized: "Authorized",
        partially_paid: "Partly paid",
        paid: "Paid",
        partially_refunded: "Partly refunded",
        refunded: "Refunded",
        voided: "Called off",
        expired: "Not paid in time",
        unknown: "Not known",
    },
    parcels: ParcelTexts {
        one: "Parcel",
        several: "Parcels",
        carrier: "Carrier",
        number: "Tracking number",
        status: "Status",
        track_at: "Track at",
        no_number: "The shop has given no tracking number for this order.",
        one_is_yours: "Several parcels have this number. One of these is yours.",
        announced: "Announced: the carrier may not have it yet",
        shipped: "Shipped",
        shipped_before: "Shipped before the order was cancelled",
        out_for_delivery: "Out for delivery",
        ready_for_pickup: "Ready to be picked up",
        delivered: "Delivered",
        not_delivered: "The carrier could not deliver it",
        returned: "Returned to the shop",
        cancelled: "Cancelled: it is not sent",
    },
    due: DueTexts {
        title: "Payment",
        amount: "Amount due",
        how: "Pay through the shop’s own checkout: there is no payment on this page. The shop’s order confirmation leads there.",
        nothing: "Nothing to pay",
        ask_title: "Ask the shop before you pay",
        ask: "How much is due for this order, if anything, is not known here. The shop can tell you.",
        check: "Check the amount",
        link_asks: "The link you followed asks for {}",
        link_is_garbled: "The link you followed asks for an amount that cannot be read",
        pay_no_more: "the amount due for this order is {}. Pay no more than {}.",
        do_not_pay: "nothing is due for this order. Do not pay it.",
        ask_before: "ask the shop before you pay anything.",
        cancelled: "This order was cancelled, so nothing is due for it.",
        paid: "This order has been paid. Thank you.",
        partially_refunded: "This order was paid, and part of the money was given back. Nothing is due for it.",
        refunded: "The money for this order was given back. Nothing is due for it.",
        voided: "The payment for this order was called off, so nothing is due for it.",
        authorized: "The payment is authorized: the money is set aside, and the shop will collect it. There is nothing more for \
                     you to do.",
        zero: "Nothing is left to pay for this order.",
    },
    choice: ChoiceTexts {
        title: "Which shop is it from?",
        several: "Several shops have an order with this number. Choose yours.",
        unnamed: "A shop without a name",
    },
    refusals: RefusalTexts {
        order_not_found: [
            "Order not found",
            "There is no order with this number. A new order may take a minute to appear. If you still see this then, ask \
             the shop for the right link.",
        ],
        parcel_not_found: [
            "Parcel not found",
            "No parcel with this tracking number is known here. It may not have been handed over yet, or not be on its way \
             any more.",
        ],
        incomplete: [
            "This link is not complete",
            "Scan the code again, or open the link as it was sent to you.",
        ],
        too_many: [
            "Too many requests",
            "Many pages were opened from your network. Wait a moment, then load this page again.",
        ],
        later: [
            "Please try again in a moment",
            "The order cannot be looked up right now. Nothing is wrong with your link.",
        ],
        other: [
            "Something went wrong",
            "This page cannot be shown. Please try again later.",
        ],
    },
    questions: "Questions?",
    ask_the_shop: "Ask the shop",
    scan: "Scan to open this page on a phone",
    updated: "Updated",
    decimal: '.',
    date: "{day} {month} {year}",
    months: [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
};
