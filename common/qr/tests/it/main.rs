mod qr;
