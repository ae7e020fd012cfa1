mod access;
mod address;
