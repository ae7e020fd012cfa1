mod migrations;
mod sql;
mod webhook_ids;
