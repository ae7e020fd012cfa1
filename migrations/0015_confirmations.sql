-- How often the storefront's API did not confirm what the topic of this body said and the body did not.
alter table order_bodies add column refuted bigint not null default 0;

drop index order_bodies_repeated;
create index order_bodies_listed on order_bodies (created_at) where repeats > 0 or refuted > 0;
