-- What an API key may do, and checkouts that were asked for through the API.
-- Portable: times are milliseconds since 1970, states are snake_case text, JSON is text.

-- Names separated by spaces; null: all. Keys that were made before have all.
alter table api_keys add column scopes text;
-- Shop domains separated by spaces; null: all.
alter table api_keys add column shops text;
-- To the minute.
alter table api_keys add column last_used_at bigint;

-- A call of POST /api/commerce/checkout and its answer, kept for as long as it may be repeated.
create table checkouts (
    -- Also the payment provider's idempotency key.
    id uuid primary key,
    api_key_id uuid not null,
    -- Keyed hash of the Idempotency-Key; null: none was sent.
    idempotency_key uuid,
    -- Keyed hash of what was asked for.
    request_key uuid not null,
    -- The agreement, by which the order and its payments find each other.
    pact_id text not null,
    order_id bigint not null,
    -- What is bought, at the prices of the moment, as JSON.
    items text not null,
    -- pending, open, refused
    state text not null,
    -- Why it is refused: amount, currency, provider.
    refusal text,
    -- The provider's session and its page.
    session_id text,
    url text,
    expires_at bigint,
    created_at bigint not null,
    updated_at bigint not null
);

create unique index checkouts_idempotency on checkouts (api_key_id, idempotency_key)
where idempotency_key is not null;
create index checkouts_created on checkouts (created_at);
