/**
 * SCTP without a kernel that has it: the first two packets of an association (RFC 9260, 5.1), over raw sockets. They show whether
 * policies let SCTP through, and conntrack knows them. The program needs only Perl's core, which every Debian has.
 *
 * Usage: connect HOST PORT SECONDS; serve PORT... A port that is not served is not answered: a container of the same pod may serve it.
 */
export const SCTP_PROGRAM = String.raw`use strict;
use Socket qw(:DEFAULT inet_pton getaddrinfo unpack_sockaddr_in6);
my ($verb, @args) = @ARGV;
my @table = map { my $c = $_; $c = $c & 1 ? ($c >> 1) ^ 0x82f63b78 : $c >> 1 for 1 .. 8; $c } 0 .. 255;

sub packet {
  my ($from, $to, $tag, $chunk) = @_;
  my $ports = pack 'nnN', $from, $to, $tag;
  my $sum = 0xffffffff;
  $sum = $table[($sum ^ ord) & 255] ^ ($sum >> 8) for split //, $ports . "\0\0\0\0" . $chunk;
  return $ports . pack('V', $sum ^ 0xffffffff) . $chunk;
}

# What a raw socket receives: with its IP header for IPv4, without for IPv6.
sub parts {
  my ($data, $family) = @_;
  $data = substr $data, 4 * (ord($data) & 15) if $family == AF_INET;
  return length $data < 20 ? () : unpack 'nnNx4Cx3N', $data;
}

sub fail { print STDERR "$_[0]\n"; exit 1 }

if ($verb eq 'connect') {
  my ($host, $port, $seconds) = @args;
  my ($error, $found) = getaddrinfo($host, '', { socktype => SOCK_STREAM });
  fail("DNS: $error") if $error;
  my $family = $found->{family};
  socket(my $socket, $family, SOCK_RAW, 132) or fail("OTHER: $!");
  # A raw socket takes the port for its protocol, and only 0 and that are valid for IPv6.
  connect($socket, $found->{addr}) or fail("OTHER: $!");
  my ($own, $tag) = (32768 + int rand 28000, 1 + int rand 2147483646);
  my $init = packet($own, $port, 0, pack 'CCnNNnnN', 1, 0, 20, $tag, 65535, 1, 1, 1);
  for (my $left = $seconds; $left > 0; $left -= 1) {
    send($socket, $init, 0) or fail("OTHER: $!");
    my $end = 1000 * ($left < 1 ? $left : 1);
    for (my $waited = 0; $waited < $end; $waited += 50) {
      my $ready = '';
      vec($ready, fileno $socket, 1) = 1;
      next unless select $ready, undef, undef, 0.05;
      defined recv($socket, my $data, 65535, 0) or fail("REFUSED");
      my ($from, $to, $seen, $type, $theirs) = parts($data, $family);
      next unless defined $type && $from == $port && $to == $own && $seen == $tag;
      fail('REFUSED') if $type == 6;
      next unless $type == 2;
      send $socket, packet($own, $port, $theirs, pack 'CCn', 6, 0, 4), 0;
      exit 0;
    }
  }
  fail('TIMEOUT');
}

my %served = map { $_ => 1 } @args;
my %sockets;
for my $family (AF_INET, AF_INET6) {
  socket(my $socket, $family, SOCK_RAW, 132) or next;
  $sockets{$family} = $socket;
}
while (1) {
  my $ready = '';
  vec($ready, fileno $_, 1) = 1 for values %sockets;
  select $ready, undef, undef, undef;
  for my $family (keys %sockets) {
    my $socket = $sockets{$family};
    next unless vec $ready, fileno $socket, 1;
    my $client = recv $socket, my $data, 65535, 0;
    next unless defined $client;
    my ($from, $to, $tag, $type, $theirs) = parts($data, $family);
    next unless defined $type && $type == 1 && $served{$to};
    my $chunk = pack 'CCnNNnnNnna4', 2, 0, 28, 1 + int rand 2147483646, 65535, 1, 1, 1, 7, 8, 'lab!';
    send $socket, packet($to, $from, $theirs, $chunk), 0, $client;
  }
}
`;
