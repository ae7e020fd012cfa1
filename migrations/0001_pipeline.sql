-- What a delivery needs on its way: remembered ids, jobs, orders, events, API keys.
-- Portable: times are milliseconds since 1970, states are snake_case text, JSON is text.

-- A delivery or a piece of internal work. Finished jobs keep their body for replay.
create table jobs (
    id uuid primary key,
    queue text not null,
    kind text not null,
    source text not null,
    shop text,
    external_id text,
    object_id text,
    subject text,
    body bytea,
    state text not null,
    attempts bigint not null default 0,
    crashes bigint not null default 0,
    run_at bigint not null,
    rung_at bigint,
    deadline_at bigint,
    last_error text,
    trace text,
    created_at bigint not null,
    finished_at bigint
);

-- The sweep looks for the few that were never rung, and for the oldest that were.
create index jobs_ready on jobs (queue, kind, run_at) where state = 'ready';
create index jobs_unrung on jobs (queue, kind, run_at) where state = 'ready' and rung_at is null;
create index jobs_dead on jobs (queue, finished_at) where state = 'dead';
-- Housekeeping cuts the bodies that have been kept long enough.
create index jobs_kept on jobs (finished_at) where state = 'done' and body is not null;

-- Webhook ids already accepted. An expired id is taken over by the next delivery with it.
create table webhook_ids (
    source text not null,
    id text not null,
    job_id uuid not null,
    remembered_at bigint not null,
    expires_at bigint not null,
    primary key (source, id)
);

create index webhook_ids_expiry on webhook_ids (expires_at);

create table customers (
    shop text not null,
    id bigint not null,
    email text,
    phone text,
    first_name text,
    last_name text,
    version_at bigint not null,
    updated_at bigint not null,
    primary key (shop, id)
);

create table orders (
    shop text not null,
    id bigint not null,
    name text,
    customer_id bigint,
    email text,
    phone text,
    currency text,
    total_minor bigint,
    subtotal_minor bigint,
    tax_minor bigint,
    financial_status text,
    fulfillment_status text,
    shipping_address text,
    billing_address text,
    ordered_at bigint,
    cancelled_at bigint,
    version_at bigint not null,
    -- How many versions have been stored here, this one included.
    revision bigint not null default 1,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (shop, id)
);

create index orders_id on orders (id);

create table order_lines (
    shop text not null,
    order_id bigint not null,
    position bigint not null,
    id bigint not null,
    variant_id bigint,
    title text,
    quantity bigint not null,
    price text,
    sku text,
    fulfillment_status text,
    primary key (shop, order_id, position),
    foreign key (shop, order_id) references orders (shop, id)
);

create table fulfillments (
    shop text not null,
    order_id bigint not null,
    state text not null,
    initiated_at bigint not null,
    updated_at bigint not null,
    primary key (shop, order_id),
    foreign key (shop, order_id) references orders (shop, id)
);

create table qr_codes (
    shop text not null,
    order_id bigint not null,
    kind text not null,
    url text not null,
    png bytea not null,
    created_at bigint not null,
    primary key (shop, order_id, kind),
    foreign key (shop, order_id) references orders (shop, id)
);

-- What happened, for the merchant's own systems. Ids and amounts, no personal data.
create table events (
    id uuid primary key,
    kind text not null,
    shop text,
    object_id text not null,
    body text not null,
    created_at bigint not null,
    published_at bigint
);

create index events_unpublished on events (id) where published_at is null;

create table api_keys (
    id uuid primary key,
    name text not null,
    hash bytea not null unique,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint
);
