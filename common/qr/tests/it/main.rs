mod corpus;
mod qr;
