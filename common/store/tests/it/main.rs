mod migrations;
mod sql;
