//! The payment provider's statuses.

use crate::record::words;

words! {
    /// How far a payment intent has come.
    Status {
        RequiresPaymentMethod = "requires_payment_method",
        RequiresConfirmation = "requires_confirmation",
        RequiresAction = "requires_action",
        /// The amount is authorised but not captured.
        RequiresCapture = "requires_capture",
        Processing = "processing",
        Succeeded = "succeeded",
        Canceled = "canceled",
    }

    /// Whether the purchase of a checkout session is paid for. Of two statuses the one listed later
    /// here stays.
    PaymentStatus {
        /// The money is still to come, because the buyer chose a delayed payment method.
        Unpaid = "unpaid",
        /// There is nothing to pay, or nothing yet.
        NoPaymentRequired = "no_payment_required",
        Paid = "paid",
    }

    /// What a checkout session is for.
    Mode {
        Payment = "payment",
        Subscription = "subscription",
        /// The session only stores a payment method for later.
        Setup = "setup",
    }
}
