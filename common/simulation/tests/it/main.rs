mod both;
mod constants;
mod rules;
mod seeds;
