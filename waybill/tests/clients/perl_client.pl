# Posts bodies that are refused before they are read: perl_client.pl KIND HOST:PORT ROUNDS.
use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;

my ($kind, $address, $rounds) = @ARGV;
my $kib = 1024;
my @cases = (
    ['/api/webhooks/payment', 16 * $kib * $kib, {}],
    ['/api/webhooks/storefront', 2 * $kib * $kib + 1, {}],
    ['/api/webhooks/storefront', $kib * $kib, {}],
    ['/api/webhooks/payment', 2 * $kib * $kib + 1, {}],
    ['/nowhere', 512 * $kib, {}],
    ['/livez', 512 * $kib, {}],
    ['/api/webhooks/payment', $kib * $kib, { 'Content-Encoding' => 'gzip' }],
    ['/api/commerce/checkout', 512 * $kib, {}],
);
$SIG{PIPE} = 'IGNORE';
$| = 1;

sub with_tiny {
    my ($path, $size, $headers) = @_;
    my $client = HTTP::Tiny->new(timeout => 30);
    my $answer = $client->post("http://$address$path", { content => ' ' x $size, headers => $headers });
    return $answer->{status} == 599 ? "lost $answer->{content}" : $answer->{status};
}

sub with_socket {
    my ($path, $size, $headers) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => $address, Timeout => 30) or return "lost $!";
    my $lines = join '', map { "$_: $headers->{$_}\r\n" } keys %$headers;
    my $sent = "POST $path HTTP/1.1\r\nHost: $address\r\nContent-Length: $size\r\n$lines\r\n" . (' ' x $size);
    my $done = 0;
    while ($done < length $sent) {
        my $written = syswrite $socket, $sent, 65536, $done;
        return "lost $!" unless defined $written;
        $done += $written;
    }
    my $answer = '';
    while (1) {
        my $read = sysread $socket, $answer, 65536, length $answer;
        return "lost $!" unless defined $read;
        last if $read == 0;
    }
    return $answer =~ m{^HTTP/1\.1 (\d+)} ? $1 : 'lost: no answer';
}

my $ask = $kind eq 'tiny' ? \&with_tiny : \&with_socket;
for my $turn (0 .. $rounds - 1) {
    my $which = $turn % @cases;
    my $said = $ask->(@{ $cases[$which] });
    $said =~ s/\s+/ /g;
    print "$which $said\n";
}
