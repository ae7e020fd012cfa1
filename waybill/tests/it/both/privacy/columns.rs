//! The columns of the schema that hold no person of a shop, with the class of data that each may hold. What
//! may identify one is in `store::erasure::ERASED`. A column that is in neither list fails a test.

/// Columns that identify an account of the identity provider, which storefronts know nothing
/// about, and names that an operator gave. An operator deletes these.
pub const ACCOUNTS: &[(&str, &str)] = &[
    ("users", "provider_id login login_key former_id"),
    ("orgs", "name name_key"),
    ("api_keys", "name account"),
];

/// Hashes and ciphertexts of data that is not stored in clear, and keys.
pub const SEALED: &[(&str, &str)] = &[
    ("api_keys", "hash"),
    ("console_sessions", "hash"),
    ("refused_deliveries", "body_key"),
    ("checkouts", "idempotency_key request_key"),
    ("agreements", "id"),
    ("endpoints", "secret former_secret"),
    ("device_codes", "hash token"),
    ("device_code_requests", "client"),
    ("privacy_requests", "email_key phone_key body_key"),
    ("tombstones", "key"),
    ("erasures", "hash object"),
    ("erasure_subjects", "key"),
    ("audit", "hash"),
    ("audit_head", "roots code"),
    ("export_subjects", "key"),
    ("privacy_keys", "secret fingerprint"),
    ("signing_secrets", "fingerprint"),
];

/// Ids, amounts, times, states, and texts that are about things and not about people.
pub const PLAIN: &[(&str, &str)] = &[
    (
        "deliveries",
        "id source kind shop external_id object_id subject api_version trace traceparent created_at",
    ),
    (
        "jobs",
        "id queue kind shop state attempts unfinished_attempts claims run_at notified_at deadline_at last_error \
         created_at finished_at discarded_at",
    ),
    (
        "job_attempts",
        "job_id number started_at duration_ms outcome error status",
    ),
    (
        "refused_deliveries",
        "hour_at source profile reason signature header advice status deliveries first_at last_at headers \
         topic shop age_seconds",
    ),
    ("measures", "seconds begun_at name process_id value"),
    ("webhook_ids", "id job_id expires_at"),
    ("customers", "shop id redacted_at created_at updated_at"),
    (
        "orders",
        "shop id name pact_id customer_id listed_at state financial_status payment_status \
         fulfillment_status is_paid was_paid cancelled_at currency total_minor disputed_at redacted_at created_at \
         updated_at",
    ),
    ("tracking_numbers", "number shop order_id"),
    (
        "events",
        "position id kind shop object_id body traceparent created_at",
    ),
    ("event_head", "id position"),
    ("broker_cursor", "id position"),
    (
        "endpoints",
        "id url kinds state former_until position failing_since failures last_error delivered_at \
         created_at updated_at",
    ),
    (
        "outgoing_webhooks",
        "endpoint_id event_id position shop object_id job_id",
    ),
    (
        "api_keys",
        "id created_at expires_at revoked_at scopes shops last_used_at",
    ),
    ("console_sessions", "api_key_id created_at expires_at"),
    (
        "checkouts",
        "id api_key_id pact_id order_id items state refusal session_id url expires_at created_at \
         updated_at",
    ),
    (
        "inventory_movements",
        "id shop order_id line_id variant_id sku quantity reason created_at",
    ),
    (
        "payments",
        "id pact_id invoice fulfillment_cycle payment_type transfer_group customer_id currency \
         amount_minor received_minor refunded_minor state canceled_at entries \
         created_at updated_at",
    ),
    ("invoices", "id subscription payment_id is_first created_at"),
    ("agreements", "revision"),
    (
        "refunds",
        "shop order_id payment_id state amount_minor currency provider_id created_at updated_at \
         tried_at key_number",
    ),
    ("leases", "name holder expires_at"),
    (
        "bulk_operations",
        "id action queue kind shop error died_until rate actor state found done passed_over refused \
         cursor_queue cursor_died_at cursor_job created_at begins_at finished_at last_error",
    ),
    (
        "pauses",
        "id queue provider shop until_at actor begun_at ended_at",
    ),
    ("signing_secrets", "source verified_at"),
    (
        "ledger_entries",
        "payment_id number entry account amount_minor currency created_at",
    ),
    (
        "checkout_sessions",
        "id mode payment_intent subscription invoice customer_id pact_id shop order_id \
         created_at updated_at",
    ),
    (
        "subscriptions",
        "id period_end_at customer_id pact_id record created_at updated_at",
    ),
    (
        "payment_retries",
        "payment_id number job_id state due_at code updated_at tried_at key_number",
    ),
    (
        "notifications",
        "id kind payment_id state error created_at updated_at",
    ),
    (
        "users",
        "id claimable_until created_at seen_at former_provider",
    ),
    ("identity_provider", "id name recorded_at"),
    ("orgs", "id owner_id created_at"),
    ("org_members", "org_id user_id added_at"),
    (
        "licenses",
        "id tier user_id org_id status expires_at subscription_id granted_at updated_at \
         revoked_at",
    ),
    ("license_changes", "id revision"),
    (
        "device_codes",
        "state interval_seconds expires_at next_poll_at token_until created_at",
    ),
    ("device_code_requests", "times newest_at"),
    (
        "privacy_requests",
        "id topic shop customer_id repeats state received_at due_at held_until finished_at \
         warned_at alarmed_at overdue_at progress export_sha256 export_runs export_run export_bytes export_expires_at \
         export_removed_at receipt held decided export_store export_problem confirmed_at",
    ),
    ("export_subjects", "request_id"),
    ("export_stores", "place id created_at"),
    ("export_links", "request_id expires"),
    ("tombstones", "shop redacted_at"),
    ("erasures", "number job_id kept_at"),
    ("erasure_subjects", "job_id shop"),
    ("audit", "number at actor action object_id shop details"),
    ("audit_head", "id number"),
    ("privacy_keys", "id created_at"),
];
