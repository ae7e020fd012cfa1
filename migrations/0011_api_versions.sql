-- The version of its API that a provider names with a delivery.
-- Portable: text. An older process that still runs beside this version stores none.

alter table jobs add column api_version text;
