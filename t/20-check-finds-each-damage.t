#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# tabletctl check reports no problem in an undamaged store, changes nothing,
# and finds and names each kind of damage.  tabletctl dump prints the parts of a
# store.  The stores are made by t/lib/fill.
use strict;
use warnings;
use File::Temp qw(tempdir);
use IPC::Open2;
use Test::More;

my $build = $ENV{BUILD} // '.';
my $ctl = "$build/tabletctl";
my $fill = "$build/t/lib/fill";
plan skip_all => 'tabletctl and t/lib/fill are not built' unless -x $ctl && -x $fill;
our $w = tempdir(CLEANUP => 1);
require(($ENV{SRC} // '.') . '/t/lib/command.pl');
srand(7);

sub flip {
	my ($path, $at, $with) = @_;
	open my $f, '+<:raw', $path or die "$path: $!";
	seek $f, $at, 0;
	read $f, my $byte, 1;
	seek $f, $at, 0;
	print $f chr(ord($byte) ^ ($with // 0x41));
	close $f or die;
}

sub store {
	my ($name, @verbs) = @_;
	my ($status, $out, $err) = run($fill, "$w/$name", @verbs);
	is($status, 0, "fill $name @verbs") or diag($err);
	return "$w/$name";
}

my $copies = 0;
sub copy {
	my ($from) = @_;
	system('rm', '-rf', "$w/copy" . $copies++);
	system('cp', '-a', $from, "$w/copy$copies") == 0 or die 'cp';
	return "$w/copy$copies";
}

sub clean {
	my ($dir, $what, @options) = @_;
	my ($status, $out, $err) = run($ctl, 'check', @options, $dir);
	is($status, 0, "clean: $what") or diag($out, $err);
	is($err, '', "nothing on standard error: $what");
	return $out;
}

# Damage is found: exit 1 and a line that names the thing.
sub damaged {
	my ($dir, $like, $what, @options) = @_;
	my ($status, $out, $err) = run($ctl, 'check', @options, $dir);
	is($status, 1, "damaged: $what") or diag($out, $err);
	like($out, qr/^damaged: .*$like/m, "named: $what") or diag($out);
	return $out;
}

sub one_line_error {
	my ($what, $like, @arguments) = @_;
	my ($status, $out, $err) = run($ctl, @arguments);
	is($status, 2, "exit 2: $what");
	is($out, '', "nothing on standard output: $what");
	like($err, qr/\Atabletctl: [^\n]*$like[^\n]*\n\z/, "one line: $what") or diag($err);
}

# ---- help and bad usage ----
my ($status, $out, $err) = run($ctl, '-h');
is($status, 0, '-h');
like($out, qr/^  $_ /m, "-h names $_") for qw(check repair dump put delete increment mutate import export scan get count status bench);
is((run($ctl, '--help'))[1], $out, '--help is -h');
($status, $out) = run($ctl, '-V');
like($out, qr/\Atabletctl \d+\.\d\S*\n\z/, '-V');
for my $c (qw(check repair dump status bench)) {
	($status, $out, $err) = run($ctl, $c, '-h');
	is($status, 0, "$c -h");
	like($out, qr/\Ausage: tabletctl $c /, "$c -h: usage");
	is($err, '', "$c -h: no error");
	one_line_error("$c --nonsense", 'no such option', $c, $c eq 'status' ? '-x' : '--nonsense');
	one_line_error("$c without arguments", 'tabletctl ' . $c . ' -h', $c);
}
is((run($ctl, 'status', '--help'))[0], 0, 'status --help');
one_line_error('an unknown letter amid others', 'no such option: -x', 'check', '-xq', 'a');
one_line_error('a value for what takes none', '--quiet=1', 'check', '--quiet=1', 'a');
one_line_error('an argument that would be another line', 'no such subcommand', "a\ntabletctl: forged");
one_line_error('a directory whose name would be another line', 'not a tabletfs data directory', 'check', "$w/a\nclean");
one_line_error('no subcommand', 'subcommand');
one_line_error('no such subcommand', 'frobnicate', 'frobnicate');
one_line_error('two directories', 'too many arguments: usage: tabletctl check .*DATADIR', 'check', 'a', 'b');
one_line_error('dump of nothing known', 'cannot?|not a thing', 'dump', 'nonsense', 'x');
one_line_error('dump with too few', 'too few', 'dump', 'log');
one_line_error('dump with too many', 'too many', 'dump', 'meta', 'a', 'b');
one_line_error('--keys of a log', '--keys', 'dump', '--keys', 'log', 'x');
one_line_error('status where nothing is mounted', 'not mounted', 'status', $w);
one_line_error('status of nothing', 'no such directory', 'status', "$w/none");
open my $full, '>', '/dev/full' or die;
$status = system("$ctl -h > /dev/full 2> $w/err") >> 8;
is($status, 2, 'standard output that cannot be written is an error');

# ---- directories that cannot be checked ----
one_line_error('no such directory', 'not a tabletfs data directory', 'check', "$w/none");
mkdir "$w/empty" or die;
one_line_error('an empty directory', 'not a tabletfs data directory', 'check', "$w/empty");
mkdir "$w/newer" or die;
spill("$w/newer/FORMAT", "tabletfs data directory, format 5, CRC-32C d5a9d045\n");
one_line_error('a newer format', 'newer', 'check', "$w/newer");
spill("$w/newer/FORMAT", "tabletfs data directory, format 3, CRC-32C f30837ad\n");
one_line_error('format 3', 'format 3 is older than this program reads \(4\): export its tables with', 'check', "$w/newer");
spill("$w/newer/FORMAT", "tabletfs data directory, format 1\n");
one_line_error('format 1', 'format 1 is older', 'check', "$w/newer");

# ---- clean stores ----
clean(store('fresh'), 'no rows');
clean(store('closed', 'write', 20, 'close', 'write', 5), 'closed');
my $a = store('a', 'write', 120, 'flush', 'write', 60, 'delete', 20, 'large', 'flush', 'write', 2000, 'crash');
sub listing { return `cd $a && find . -printf '%p %s %T@ %C@\\n' | sort` }
my $before = listing();
$out = clean($a, 'crashed with data in the log');
is(listing(), $before, 'check writes nothing');
like($out, qr/: clean: 2 tables, 4 tablets, 4 SSTables of \d+ bytes with 1\d\d\d cells, \d{4} log records; 0 problems/, 'summary');
is(clean($a, 'quiet', '-q'), '', '-q says nothing of a clean store');
like(clean($a, 'no data', '--no-data'), qr/not read/, '--no-data says so');
my $compacted = store('compacted', 'write', 400, 'flush', 'write', 60, 'delete', 30, 'flush', 'compact', 'write', 9, 'crash');
clean($compacted, 'after major compactions');
clean(store('twice', 'write', 30, 'close', 'write', 30, 'flush', 'close', 'delete', 10, 'crash'), 'several incarnations');
{
	my $b = copy($compacted);
	run($fill, $b, 'write', 1, 'crash');
	clean($b, 'two logs to replay');
}
my $split = copy($compacted);
is((run($fill, $split, 'meta', 'split'))[0], 0, 'a split by hand');
like(clean($split, 'after a split'), qr/5 tablets/, 'children share their files');
{
	# The row of METADATA is too large for a file of lock/rows, and is left out.
	my $long = store('long', 'long', 'snapshot');
	clean($long, 'a snapshot with a large row of METADATA');
	($status, $out, $err) = run($ctl, 'repair', $long);
	is($status, 0, '  nothing to repair') or diag($out, $err);
	unlink "$long/lock/root" or die;
	($status, $out, $err) = run($ctl, 'repair', '--write', $long);
	cmp_ok($status, '<', 2, '  it can be repaired') or diag($out, $err);
	clean($long, '  after the repair');
	is((run($ctl, 'repair', $long))[0], 0, '  a second repair has no work');
}

# ---- in use ----
{
	my $pid = open2(my $from, my $to, $fill, "$w/held", 'write', 3, 'hold');
	my $ready = <$from>;
	is($ready, "ready\n", 'a store is held open');
	one_line_error('in use', 'in use', 'check', "$w/held");
	one_line_error('in use', 'in use', 'dump', 'meta', "$w/held");
	close $to;
	waitpid $pid, 0;
	clean("$w/held", 'after it was closed');
}

# ---- damage: small files, at every byte ----
my @ssts = glob "$a/sst/*/*.sst";
is(scalar(@ssts), 4, 'four SSTables to damage');
my ($log) = glob "$a/log/*/*01.log";
ok($log, 'a log segment to damage');
for my $name ('FORMAT', 'lock/root', 'lock/ids', 'lock/incarnation', 'lock/store', 'lock/tables/one') {
	my $b = copy($a);
	my $data = slurp("$b/$name");
	my $step = length($data) > 60 ? int(length($data) / 40) : 1;
	my @missed;
	for (my $at = 0; $at < length($data); $at += $step) {
		flip("$b/$name", $at, 1 + int(rand(255)));
		my ($s, $o, $e) = run($ctl, 'check', '--no-data', '-q', $b);
		push @missed, "$at: $s" unless ($s == 1 && $o =~ /\Q$name\E/) ||
			($s == 2 && $e =~ /later format/);
		spill("$b/$name", $data);
	}
	is("@missed", '', "$name: every flipped byte is found and named");
	spill("$b/$name", substr $data, 0, length($data) - 1);
	damaged($b, qr/\Q$name\E/, "$name cut short", '--no-data');
	spill("$b/$name", '');
	damaged($b, qr/\Q$name\E/, "$name emptied", '--no-data');
}
{
	my $b = copy($a);
	unlink "$b/lock/root" or die;
	damaged($b, qr/root: missing/, 'no root file');
	$b = copy($a);
	unlink "$b/lock/store" or die;
	damaged($b, qr/store: missing/, 'no id and secret');
	$b = copy($a);
	unlink "$b/lock/tables/two" or die;
	damaged($b, qr/no file here has its schema/, 'a table without its schema');
	mkdir "$b/lock/dropped";
	system('cp', "$b/lock/ids", "$b/lock/dropped/17") == 0 or die;
	like(clean($b, 'a table dropped in the middle'), qr/^note: .*half/m, 'its METADATA row is a note');
	$b = copy($a);
	spill("$b/lock/journal", "TFLJ\0\1 nonsense");
	damaged($b, qr/journal/, 'a damaged journal');
	$b = copy($a);
	spill("$b/lock/tables/one.tmp", 'x');
	like(clean($b, 'a temporary file of the lock service'), qr/^note: .*one\.tmp/m, 'is a note');
}

# ---- damage: SSTables ----
for my $path (@ssts) {
	my ($name) = $path =~ m{(sst/.*)};
	my $b = copy($a);
	my $data = slurp($path);
	my @missed;
	for my $at (0, 1, 11, 12, 40, (map { int rand length $data } 1 .. 12), map { length($data) - $_ } 1, 9, 60, 128, 129, 200) {
		next if $at < 0;
		flip("$b/$name", $at, 1 + int(rand(255)));
		my ($s, $o) = run($ctl, 'check', $b);
		push @missed, "$at: $s" unless $s == 1 && $o =~ /^damaged: .*\Q$name\E.*offset \d+/m;
		spill("$b/$name", $data);
	}
	is("@missed", '', "$name: flipped bytes are found, with the offset");
}
{
	my ($name) = $ssts[0] =~ m{(sst/.*)};
	my ($other) = $ssts[1] =~ m{(sst/.*)};
	my $data = slurp($ssts[0]);
	my $b = copy($a);
	flip("$b/$name", 30);
	clean($b, 'a flipped byte where data is not read', '--no-data');
	spill("$b/$name", substr $data, 0, length($data) - 1);
	damaged($b, qr/\Q$name\E.*bytes, METADATA says/, 'an SSTable cut short', '--no-data');
	damaged($b, qr/\Q$name\E/, 'an SSTable cut short');
	spill("$b/$name", $data . "\0");
	damaged($b, qr/\Q$name\E/, 'an SSTable with a byte more');
	spill("$b/$name", '');
	damaged($b, qr/\Q$name\E/, 'an empty SSTable');
	spill("$b/$name", slurp($ssts[1]));
	damaged($b, qr/\Q$name\E.*METADATA says/, 'another SSTable in its place');
	unlink "$b/$name" or die;
	damaged($b, qr/\Q$name\E: missing; table one/, 'a missing SSTable');
	damaged($b, qr/\Q$name\E: missing/, 'a missing SSTable', '--no-data', '-q');
	$b = copy($a);
	spill("$b/sst/16/9-9.sst", 'x');
	spill("$b/sst/stray", 'x');
	mkdir "$b/sst/99";
	spill("$b/notes.txt", 'x');
	mkdir "$b/log/77";
	spill("$b/log/old", 'x');
	$out = clean($b, 'stray files');
	like($out, qr/^note: .*\Q$_\E/m, "$_ is a note") for 'sst/16/9-9.sst', 'sst/stray', 'notes.txt', 'log/77', 'log/old';
	is(clean($b, 'stray files, quiet', '-q'), '', '-q leaves notes out');
	spill("$b/sst/16/garbage", 'x');
	mkdir "$b/sst/16/directory";
	$out = clean($b, 'and what no SSTable is called');
	like($out, qr/^note: .*\Q$_\E: .*no mount removes it/m, "nobody will remove $_") for 'sst/16/garbage', 'sst/16/directory', 'sst/stray', 'notes.txt';
	like($out, qr/^note: .*9-9\.sst: .*the next mount removes it/m, 'the next mount removes an SSTable');
}

{
	# A name cannot forge a line of output, and check does not wait for a FIFO.
	my $b = copy($a);
	spill("$b/x\ndamaged: forged\e[2J", 'x');
	$out = clean($b, 'a stray file with a hostile name');
	like($out, qr/^note: .*x\?damaged: forged\?\[2J: /m, 'is one line');
	my ($name) = $ssts[0] =~ m{(sst/.*)};
	unlink "$b/$name" or die;
	system('mkfifo', "$b/$name") == 0 or die;
	my ($s, $o, $e) = run('timeout', 20, $ctl, 'check', $b);
	ok($s == 1 || $s == 2, 'a FIFO in the place of an SSTable: an error') or diag("status $s");
	like($o . $e, qr/\Q$name\E/, '  that names it');
	unlink "$b/FORMAT" or die;
	system('mkfifo', "$b/FORMAT") == 0 or die;
	($s, $o, $e) = run('timeout', 20, $ctl, 'check', $b);
	ok($s == 1 || $s == 2, 'a FIFO in the place of FORMAT: an error') or diag("status $s");
}

{
	my $b = copy($a);
	unlink "$b/FORMAT" or die;
	my $out = damaged($b, "FORMAT: missing", 'a store without FORMAT');
	like($out, qr/'tabletctl repair' prints how to repair it/, '  repair is named');
	my ($one, $two) = map { (glob "$b/sst/$_/*.sst")[0] } 16, 17;
	spill($one, slurp($two));
	damaged($b, "another SSTable is in its place", 'another SSTable');
}

# ---- damage: METADATA's own SSTables ----
my $meta = store('meta', 'write', 50, 'flush', 'close', 'write', 5, 'crash');
my @meta_ssts = glob "$meta/sst/1/*.sst";
cmp_ok(scalar(@meta_ssts), '>', 0, 'METADATA has SSTables');
for my $path (@meta_ssts) {
	my ($name) = $path =~ m{(sst/.*)};
	my $b = copy($meta);
	flip("$b/$name", 20);
	damaged($b, qr/\Q$name\E/, "$name, of METADATA, flipped");
	unlink "$b/$name" or die;
	damaged($b, qr/\Q$name\E: missing/, "$name, of METADATA, missing");
}

# ---- damage: the log ----
{
	my ($name) = $log =~ m{(log/.*)};
	my $data = slurp($log);
	my ($s, $dump) = run($ctl, 'dump', 'log', $log);
	my @at = $dump =~ /^(\d+): lsn/mg;
	cmp_ok(scalar(@at), '>', 300, 'records in the segment');
	my $b = copy($a);
	my @missed;
	# Only records that a redo set still needs are counted: the last two thirds.
	for my $at (map { $at[@at / 3 + int rand(@at / 2)] + int rand 40 } 1 .. 15) {
		flip("$b/$name", $at, 1 + int(rand(255)));
		my ($s, $o) = run($ctl, 'check', $b);
		push @missed, "$at: $s" unless $s == 1 && $o =~ /^damaged: .*\Q$name\E.*offset \d+/m;
		spill("$b/$name", $data);
	}
	is("@missed", '', "$name: flipped bytes of durable records are found, with the offset");
	spill("$b/$name", substr $data, 0, $at[@at / 2] + 13);
	damaged($b, qr/\Q$name\E.*offset/, 'a log cut below what was durable');
	unlink "$b/$name" or die;
	damaged($b, qr/log/, 'a missing log segment');
	system('rm', '-rf', glob("$b/log/*"));
	damaged($b, qr/names .*log\/1, which is missing/, 'a missing log');
	rmdir "$b/log";
	damaged($b, qr/log: .*missing/, 'no logs at all');
	# The end of the log, written but never said to be durable, may be torn.
	$b = copy($a);
	my ($last) = reverse glob "$b/log/*/*.log";
	(undef, $dump) = run($ctl, 'dump', 'log', $last);
	if ($dump =~ /^(\d+): [^\n]* end mark\n(\d+): end,[^\n]*\n\z/m) {
		# The mark was written 100 ms after a sync.  Here the crash comes before it.
		my ($from, $to) = ($1, $2);
		open my $f, '+<', $last or die;
		seek $f, $from, 0;
		print $f "\0" x ($to - $from);
		close $f or die;
		(undef, $dump) = run($ctl, 'dump', 'log', $last);
	}
	my ($end) = $dump =~ /^(\d+): lsn \d+ durable \d+ (?!void|end)[^\n]*\n[^\n]*\n\z/m;
	ok(defined $end, 'the last record') or diag(substr $dump, -600);
	flip($last, $end + 50) if defined $end;
	clean($b, 'the last record torn: the end of the log');
	# Damage in a log that nothing needs costs nothing.
	$b = copy("$w/closed");
	my ($unneeded) = glob "$b/log/*/*.log";
	if ($unneeded) {
		flip($unneeded, 1100);
		like(clean($b, 'damage in a log that nobody needs'), qr/^note: .*log/m, 'is a note');
	}
}

# ---- METADATA that does not fit ----
for my $case (['hint', qr/gap/], ['gap', qr/gap/], ['seq', qr/above the tablet's mark/], ['bytes', qr/bytes, METADATA says/],
	      ['cells', qr/METADATA says \d+ cells/], ['first', qr/first row/], ['redo', qr/redo set names/],
	      ['lose', qr/has no tablet/], ['share', qr/lists .*sst with other contents for another/]) {
	my ($what, $like) = @$case;
	my $b = copy($compacted);
	my ($s, $o, $e) = run($fill, $b, 'meta', $what);
	is($s, 0, "METADATA changed: $what") or diag($e);
	damaged($b, $like, "METADATA: $what");
}

# ---- rows under a wrong salt byte ----
{
	my $stray = qr/table one: row "stray0000\d\d" is stored with salt byte \d+ in front, not \d+: no reader finds it/;
	my $salted = store('salted', 'salt', 16, 'write', 150, 'flush', 'write', 20, 'delete', 9, 'crash');
	clean($salted, 'a salted table');
	my $b = copy($salted);
	is((run($fill, $b, 'stray', 3, 'crash'))[0], 0, 'rows under other salts');
	damaged($b, $stray, 'misplaced rows in the log');
	run($fill, $b, 'flush', 'stray', 13, 'flush', 'crash');
	$out = damaged($b, $stray, 'misplaced rows in SSTables');
	is(scalar(() = $out =~ /^damaged: $stray$/mg), 1, 'one of them is named');
	like($out, qr/DAMAGED.*; 1 problem,/, 'and nothing else is found');
	# A table that was emptied and got another salt has other tablets.
	for my $how (['in SSTables', 'flush'], ['in the log'], ['in both', 'flush', 'write', 10, 'clear']) {
		my ($what, @verbs) = @$how;
		my $c = store("resalted @verbs", 'salt', 16, 'write', 60, @verbs ? 'flush' : (), 'clear', @verbs, 'salt', 7, 'write', 30,
			      @verbs ? 'clear' : (), @verbs ? ('salt', 0, 'write', 30, 'clear', 'salt', 3, 'write', 5) : (), 'crash');
		clean($c, "deleted under another salt, $what");
		clean($c, "the same, compacted") if (run($fill, $c, 'compact', 'crash'))[0] == 0;
	}
}

# ---- dump ----
($status, $out) = run($ctl, 'dump', 'log', $log);
is($status, 0, 'dump log');
for my $what (['sst', $log, 'not an SSTable'], ['log', $ctl, 'not a commit log segment'], ['sst', $w, 'Is a directory|Input/output error|not an SSTable']) {
	my ($s, $o, $e) = run($ctl, 'dump', @$what[0, 1]);
	is($s, 2, "dump $what->[0] of another file is no damage");
	like($e, qr/^tabletctl: \Q$what->[1]\E: (?:$what->[2])$/, '  and is named');
}
is((run($ctl, 'help'))[1], (run($ctl, '-h'))[1], 'tabletctl help');
is((run($ctl, 'help', 'dump'))[1], (run($ctl, 'dump', '-h'))[1], 'tabletctl help dump');
is((run($ctl, 'help', 'nosuch'))[0], 2, 'help on no subcommand');
like($out, qr/^segment 1 of incarnation 1: /, 'dump log: header');
like($out, qr/^\d+: lsn \d+ durable \d+ table 16 rows "row000\d\d\d\\x00tail"-.* seq \d+ commit 1\d{15} row .* value 1:"q\\"\\x0a"\@\d+ 400 bytes;/m,
     'dump log: a record');
like($out, qr/delete-column 1:/, 'dump log: deletes');
unlike($out, qr/[^\x20-\x7e\n]/, 'dump log: printable');
my ($sst16) = grep { m{/16/} } @ssts;
($status, $out) = run($ctl, 'dump', 'sst', $sst16);
is($status, 0, 'dump sst');
like($out, qr{codec lz4}, 'dump sst: codec, of a flush');
like($out, qr/^family 1 cells \d+/m, 'dump sst: families');
($status, $out) = run($ctl, 'dump', 'sst', '--keys', $sst16);
like($out, qr/^"row000\d+\\x00tail" 1:"q\\"\\x0a"\@\d+ seq \d+ value 400 bytes commit 1\d{15}$/m, 'dump sst --keys: a key');
unlike($out, qr/[^\x20-\x7e\n]/, 'dump sst: printable');
my $keys = join '', map { (run($ctl, 'dump', 'sst', '-k', $_))[1] } @ssts;
like($keys, qr/ value 1048576 bytes commit 1\d{15}$/m, 'dump sst --keys: a large value');
like($keys, qr/ delete-row$/m, 'dump sst --keys: a row delete');
($status, $out) = run($ctl, 'dump', 'meta', $a);
is($status, 0, 'dump meta');
like($out, qr/^tablet table 16 one begin "" end - /m, 'dump meta: a tablet');
like($out, qr/^  redo log\/1 lsn \d+$/m, 'dump meta: a redo point');
like($out, qr/^  sst\/16\/1-\d+\.sst .* rows "[^"]+"-"[^"]+"$/m, 'dump meta: an SSTable');
like($out, qr/^  event \d+ minor compaction/m, 'dump meta: an event');
($status, $out) = run($ctl, 'dump', 'schema', $a);
like($out, qr/^# table one id 16 .*^# table two id 17 /ms, 'dump schema: both');
($status, $out) = run($ctl, 'dump', 'schema', $a, 'two');
unlike($out, qr/table one/, 'dump schema: one of them');
like($out, qr/^\# family 2 b\n.*families = \(/ms, 'dump schema: ids and text');
one_line_error('dump schema of no such table', 'no table three', 'dump', 'schema', $a, 'three');
one_line_error('dump of a file that is not there', 'No such file', 'dump', 'sst', "$w/none");
done_testing();
