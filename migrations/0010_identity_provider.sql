-- Whose accounts the users are. Portable: times are milliseconds since 1970.

-- One row: the identity provider whose numbers users.provider_id are. The first process that starts with one set says which.
create table identity_provider (
    id bigint primary key,
    -- Its address in lower case, or `stand-in` for any of this machine.
    name text not null,
    recorded_at bigint not null
);

-- An account of a provider that was replaced by another: which, and its number there. Its provider_id is null then.
alter table users add column former_provider text;
alter table users add column former_id bigint;
