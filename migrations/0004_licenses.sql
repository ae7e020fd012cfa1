-- Who may use what: people, organizations, licences, and device logins under way.
-- Portable: times are milliseconds since 1970, states are snake_case text.

-- A person: an account of the identity provider, or, while provider_id is null, an invitation by login.
create table users (
    id uuid primary key,
    -- The provider's own number of the account. It stays when the login changes.
    provider_id bigint unique,
    -- As last seen, or as the operator gave it.
    login text not null,
    -- The login in lower case; null once another account has been seen with it.
    login_key text unique,
    -- An invitation may be claimed until then.
    claimable_until bigint,
    created_at bigint not null,
    seen_at bigint
);

create table orgs (
    id uuid primary key,
    name text not null,
    -- The name in lower case.
    name_key text not null unique,
    -- Whose organizations count together against a tier's limit.
    owner_id uuid references users (id),
    created_at bigint not null
);

create index orgs_owner on orgs (owner_id) where owner_id is not null;

create table org_members (
    org_id uuid not null references orgs (id),
    user_id uuid not null references users (id),
    added_at bigint not null,
    primary key (org_id, user_id)
);

create index org_members_user on org_members (user_id);

-- One is of a person or of an organization, never of both. A revoked one is kept to be shown.
create table licenses (
    id uuid primary key,
    tier text not null,
    user_id uuid references users (id),
    org_id uuid references orgs (id),
    -- active, suspended
    status text not null,
    -- Null: never.
    expires_at bigint,
    -- The payment provider's subscription whose paid invoices extend it.
    subscription_id text,
    granted_at bigint not null,
    updated_at bigint not null,
    revoked_at bigint,
    check ((user_id is null) <> (org_id is null))
);

create index licenses_user on licenses (user_id) where user_id is not null;
create index licenses_org on licenses (org_id) where org_id is not null;
create index licenses_subscription on licenses (subscription_id) where subscription_id is not null;

-- One row, locked by whoever grants or adds: seats are counted by one at a time.
create table license_changes (
    id bigint primary key,
    revision bigint not null
);

-- A device login under way. The code itself is nowhere: it is the key to the token.
create table device_codes (
    -- SHA-256 of the device code.
    hash bytea primary key,
    -- pending; doubted: the provider said once that it does not know it; authorized; denied
    state text not null,
    interval_seconds bigint not null,
    expires_at bigint not null,
    -- An earlier poll is not passed on.
    next_poll_at bigint not null,
    -- What the provider answered, encrypted under a key made of the device code. It is given
    -- out for a minute, until token_until, and cleared within another.
    token bytea,
    token_until bigint,
    created_at bigint not null
);

create index device_codes_expiry on device_codes (expires_at);
create index device_codes_token on device_codes (token_until) where token_until is not null;

-- When a client last asked for device codes.
create table device_code_requests (
    -- SHA-256 of the client's network.
    client bytea primary key,
    -- The times within the limit's period, in order, as JSON.
    times text not null,
    newest_at bigint not null
);

create index device_code_requests_newest on device_code_requests (newest_at);
