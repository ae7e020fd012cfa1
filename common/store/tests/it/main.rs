mod sql;
