mod constants;
mod differential;
mod rules;
mod seeds;
