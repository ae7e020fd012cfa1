mod env_file;
mod mail;
mod values;
