#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The benchmark prints each line with its numbers, refuses wrong arguments, and
# leaves no file behind, also after a signal or an error.  RocksDB is among the
# rivals if t/bench/rivals was built.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $build = $ENV{BUILD} // '.';
my $ctl = "$build/t/bench/tabletbench";
plan skip_all => "$ctl is not built" unless -x $ctl;
our $w = tempdir(CLEANUP => 1);
require(($ENV{SRC} // '.') . '/t/lib/command.pl');

sub refused {
	my ($like, @arguments) = @_;
	my ($status, $out, $err) = finish(start($ctl, @arguments));
	is($status, 2, "refused: @arguments");
	is($out, '', '  nothing on standard output');
	like($err, qr/\Atabletbench: [^\n]*$like[^\n]*\n\z/, '  one line');
}

# ---- tabletctl bench ----
{
	my $tool = "$build/tabletctl";
	mkdir "$w/disk" or die;
	my ($s, $out, $err) = finish(start($tool, 'bench', '--cells', 2000, '--value', 100, "$w/disk"));
	is($s, 0, 'tabletctl bench');
	is($err, '', '  nothing on standard error');
	like($out, qr/^\Q$_\E +\d+ +\d+\.\d+ +\d+ +\d+\.\d$/m, "  $_")
		for 'sequential write', 'random write', 'synced write', 'sequential read', 'random read', 'scan';
	is_deeply([glob "$w/disk/*"], [], '  nothing left behind');
	for my $signal (qw(INT TERM HUP)) {
		my $pid = start($tool, 'bench', '--cells', 50000000, "$w/disk");
		select undef, undef, undef, 0.05 until glob "$w/disk/*";
		kill $signal, $pid;
		is((finish($pid))[0], 128 + { INT => 2, TERM => 15, HUP => 1 }->{$signal}, "  ended by $signal");
		is_deeply([glob "$w/disk/*"], [], '  nothing left behind');
	}
	is((finish(start($tool, 'bench', '--cells', '10x', "$w/disk")))[0], 2, '  not a number');
	is((finish(start($tool, 'bench', "$w/none")))[0], 2, '  no such directory');
	unlike((finish(start('nm', $tool)))[1], qr{ (?:side_|bench_paper|take_turns)}, '  has none of tabletbench');
}

# ---- arguments ----
refused('engine', 'mount');
refused('engine');
refused('engine', 'engine', 'ycsb');
refused('--cells', 'engine', '--cells', '-1');
refused('--cells', 'engine', '--cells', '10x');
refused('--threads', 'writers', '--threads', '1,0');
refused('--threads', 'writers', '--threads', '65');
refused('--threads', 'writers', '--threads', ',');
refused('--rivals', 'ycsb', '--rivals', 'ours');
refused('--scale', 'amplify', '--scale', '1001');
refused('--only', 'engine', '--only', 'randwrite,nonsense');
refused('--only', 'ycsb', '--only', 'randwrite');
refused('--only', 'engine', '--only', ',');
refused('--only', 'amplify', '--only', 'A');
refused('--reuse', 'writers', '--reuse');
refused('--dir', 'engine', '--dir', '');
refused('argument is missing', 'engine', '--cells');
my ($status, $help) = finish(start($ctl, '-h'));
is($status, 0, '-h');
like($help, qr/--\Q$_\E\b/, "-h names --$_") for qw(cells scale value threads cache memtable tablet group plain rivals
	reads synced ops repeat seed no-compact reuse dir only);

# ---- lines ----
my %lines = (
	engine => [qw(seqwrite randwrite randwrite-mem randwrite-auto syncwrite randread-cold randread-warm randread-small randread-new
		seqread scan-cold scan log)],
	writers => [qw(write sync split whole)],
	ycsb => [qw(load A B C D E F)],
	recovery => [qw(recovery)],
);
my @small = ('--cells', 3000, '--value', 200, '--threads', '1,2', '--cache', 8 << 20, '--memtable', 4 << 20, '--synced', 20,
	'--ops', 600);
# RocksDB is among the rivals if it was there when tabletbench was built.
my @rivals = ('leveldb', (finish(start('nm', $ctl)))[1] =~ / side_rocksdb$/m ? ('rocksdb', 'rocksdb-zstd') : ());
my $n = @rivals;
note "rivals: @rivals";
for my $kind (sort keys %lines) {
	my ($s, $out, $err) = finish(start($ctl, $kind, @small, '--dir', "$w/new"));
	is($s, 0, $kind) or diag($err);
	is($err, '', '  nothing on standard error');
	for my $line (@{ $lines{$kind} }) {
		my $sides = $line eq 'log' ? 1 : $n;
		like($out, qr/^\Q$line\E .* \d+ +\d+\.\d\d(?: \| +\d+ +\d+\.\d\d +\d+\.\d\d){$sides}$/m, "  $line");
	}
	like($out, qr/^\Q$_\E: \w/m, "  $_ is said what it is") for 'ours', @rivals;
	ok(!-e "$w/new", '  nothing left behind');
	my $each = join ', ', map { "\Q$_\E [\\d.]+/[\\d.]+/[\\d.]+/[\\d.]+(?: \\(\\d+ tablets?; longest wait for a split \\d+\\))?" } 'ours', @rivals;
	like($out, qr/^  us, .*: $each$/m, '  latencies') if $kind eq 'writers' || $kind eq 'ycsb';
	like($out, qr/^  2 threads to 1: ours \d+\.\d\d times/m, '  gains') if $kind eq 'writers';
	like($out, qr/^size .*: ours \d+ \| leveldb \d+: ratio \d+\.\d\d/m, '  size') if $kind eq 'engine';
	like($out, qr/MB of log a second: ours [\d.]+, \d+;/, '  rates') if $kind eq 'recovery';
}
my ($s, $out, $err) = finish(start($ctl, 'amplify', @small, '--plain', '--dir', "$w/new"));
is($s, 0, 'amplify') or diag($err);
for my $side ('ours', @rivals) {
	my ($calls, $disk, $space) = $out =~ /^\Q$side\E +\d+ +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+  [\d.]+\//m or fail("  $side");
	# The log alone is a byte for each, and nothing was compressed.
	cmp_ok($calls, '>=', 1, "  $side: bytes written");
	cmp_ok($space, '>=', 1, "  $side: bytes kept");
}
ok(!-e "$w/new", '  nothing left behind');
{
	my ($s, $out) = finish(start($ctl, 'ycsb', @small, '--only', 'C,E', '--threads', 1, '--rivals', 'leveldb', '--group',
		'compression = "lz4"; block_size = "4K";', '--dir', "$w/new"));
	is($s, 0, '--only, --rivals, --group');
	is(join(' ', $out =~ /^(load|[A-F]) /mg), 'load C E', '  just these lines');
	($s, $out, my $err) = finish(start($ctl, 'ycsb', @small, '--group', 'nonsense = 1;', '--dir', "$w/new"));
	is($s, 2, '--group that is no setting');
	like($err, qr/nonsense/, '  is said');
	ok(!-e "$w/new", '  nothing left behind');
}

refused('--rivals', 'ycsb', '--rivals', 'none,leveldb');
refused('--rivals', 'ycsb', '--rivals', 'leveldb,none');
{
	my ($s, $out) = finish(start($ctl, 'writers', @small, '--rivals', 'none', '--dir', "$w/new"));
	is($s, 0, '--rivals none');
	unlike($out, qr/leveldb/, '  and there are none');
}

# ---- existing files are not removed; --reuse ----
mkdir "$w/kept" or die;
open my $f, '>', "$w/kept/mine" or die;
close $f;
($status) = finish(start($ctl, 'engine', @small, '--only', 'scan', '--dir', "$w/kept"));
is($status, 0, 'in a directory that was there');
is(join(' ', map { s{.*/}{}r } glob "$w/kept/*"), 'mine', '  is as it was');
for my $round (1, 2) {
	($status) = finish(start($ctl, 'engine', @small, '--only', 'scan', '--reuse', '--dir', "$w/kept"));
	is($status, 0, "--reuse, $round");
	ok(-d "$w/kept/ours" && -d "$w/kept/leveldb", '  the databases stay');
}
($status) = finish(start($ctl, 'engine', @small, '--dir', "$w/none/below"));
is($status, 2, 'a directory that cannot be made');

# ---- signals ----
# The first row says that databases are open, or have just been; there are many more to come.
for my $signal (qw(INT TERM HUP)) {
	pipe(my $from, my $to) or die;
	my $pid = fork // die;
	if (!$pid) {
		open STDOUT, '>&', $to or die;
		close $from;
		close $to;
		exec $ctl, 'engine', @small, '--cells', 200000, '--dir', "$w/signal" or exit 127;
	}
	close $to;
	while (<$from>) {
		last if /^seqwrite/;
	}
	ok(-d "$w/signal", "$signal: a directory while it runs");
	kill $signal, $pid;
	waitpid $pid, 0;
	is($? & 127, { INT => 2, TERM => 15, HUP => 1 }->{$signal}, '  ended by it');
	ok(!-e "$w/signal", '  nothing left behind');
	local $/;
	my $rest = <$from>; # the pipe's end shows that the child has ended
	close $from;
}
# The reader closes the pipe: SIGPIPE.
is(system("$ctl engine @small --dir $w/pipe | head -n 1 >$w/out"), 0, 'output cut off');
ok(!-e "$w/pipe", '  nothing left behind');
# The disk is too small: an error like any other.  ulimit -f is of 1 KiB here.
($status) = finish(start('/bin/sh', '-c', "trap '' XFSZ; ulimit -f 64; exec $ctl engine @small --only seqwrite --dir $w/full"));
is($status, 2, 'files that cannot grow');
ok(!-e "$w/full", '  nothing left behind');
done_testing();
