-- Fills a database with 1.2 million rows: 200,000 orders of three lines, each with a customer, a delivery with its id, a
-- done job and an event. A tenth of them belongs to one shop.
--
-- Usage: psql -v gone=SHOP -f bench_shop.sql
\set ON_ERROR_STOP on
set synchronous_commit = off;

create temporary table made as
select number::bigint as n,
       case when number <= 20000 then :'gone' else 'shop-' || number % 90 || '.example' end as shop,
       5000000000000 + number as order_id,
       7000000000000 + number as customer_id,
       gen_random_uuid() as job_id,
       (extract(epoch from now()) * 1000)::bigint - 86400000 as at,
       json_build_object('first_name', 'Bob ' || number, 'last_name', 'Example',
                         'address1', number || ' Example Street', 'city', 'Ottawa', 'zip', 'K2P0V6')::text as address
from generate_series(1, 200000) as number;

insert into customers (shop, id, email_key, phone_key, record, created_at, updated_at)
select shop, customer_id, 'bob' || n || '@example.com', '1613' || 5550000 + n,
       json_build_object('schema', 1,
                         'email', json_build_object('at', at, 'value', 'bob' || n || '@example.com'),
                         'phone', json_build_object('at', at, 'value', '+1613' || 5550000 + n),
                         'first_name', json_build_object('at', at, 'value', 'Bob ' || n),
                         'last_name', json_build_object('at', at, 'value', 'Example'))::text, at, at from made;

create function pg_temp.part(at bigint, value json) returns json language sql
    return json_build_object('version', json_build_object('at', at, 'tie', 0), 'value', value);

insert into orders (shop, id, name, customer_id, email_key, phone_key, listed_at, state, financial_status, is_paid,
                    currency, total_minor, record, created_at, updated_at)
select shop, order_id, '#' || n, customer_id, 'bob' || n || '@example.com', '1613' || 5550000 + n, at, 'requested', 'paid', 1,
       'USD', 40300,
       json_build_object(
           'schema', 1, 'version', json_build_object('at', at, 'tie', 0), 'ordered_at', at, 'was_paid', true,
           'name', pg_temp.part(at, to_json('#' || n)), 'customer', pg_temp.part(at, to_json(customer_id)),
           'financial', pg_temp.part(at, '"paid"'),
           'totals', pg_temp.part(at, '{"currency": "USD", "total": 40300, "subtotal": 39300, "tax": 1000}'),
           'contact', pg_temp.part(at, json_build_object('email', 'bob' || n || '@example.com', 'phone', '+1613' || 5550000 + n)),
           'addresses', pg_temp.part(at, json_build_object('shipping', address::json, 'billing', address::json)),
           'lines', pg_temp.part(at, (
               select json_agg(json_build_object('id', n * 10 + line, 'variant_id', 39072856 + line, 'quantity', line,
                                                 'title', 'Linen apron, natural, one size', 'price', '89.99',
                                                 'sku', 'APRON-' || line))
               from generate_series(1, 3) as line)),
           'own', json_build_object('known_at', at, 'fulfillment', json_build_object('updated_at', at),
                                    'code', json_build_object('url', 'http://127.0.0.1/orders/' || order_id,
                                                              'modules', substr(repeat(md5(n::text), 12), 1, 252)))
       )::text, at, at from made;

insert into deliveries (id, source, kind, shop, external_id, object_id, subject, body, created_at)
select job_id, 'storefront', 'orders/create', shop, 'fill-' || n, order_id::text, customer_id::text,
       convert_to(rpad(json_build_object('id', order_id, 'email', 'bob' || n || '@example.com',
                                         'shipping_address', address, 'billing_address', address)::text, 1300), 'UTF8'),
       at from made;

insert into jobs (id, queue, kind, shop, state, run_at, notified_at, created_at, finished_at)
select job_id, 'orders', 'orders/create', shop, 'done', at, at, at, at from made;

insert into webhook_ids (id, job_id, expires_at)
select cast(substr(encode(sha256(convert_to('storefront:fill-' || n, 'UTF8')), 'hex'), 1, 32) as uuid), job_id,
       at + 172800000 from made;

insert into events (position, kind, shop, object_id, body, created_at)
select nextval('event_positions'), 'order.created', shop, order_id::text,
       json_build_object('shop', shop, 'order_id', order_id::text)::text, at from made order by at;
update endpoints set position = (select last_value from event_positions) where secret is null;

analyze;
checkpoint;
