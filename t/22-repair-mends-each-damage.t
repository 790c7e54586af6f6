#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# tabletctl repair finds each kind of damage in a dry run that changes nothing,
# and repairs it.  Afterwards check finds nothing, the store opens, and it has
# all cells but those that the output names as lost.  The same holds for random
# damage to one file (REPAIR_RANDOM rounds, default 6) and for a repair that is
# killed at a step, one of REPAIR_STRIDE (3), and run again.  With TEST_SHARE=N
# one damage in N is tried (t/lib/share.h).
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use File::Find;
use File::Temp qw(tempdir);
use Test::More;

my $build = $ENV{BUILD} // '.';
my $ctl = "$build/tabletctl";
my $fill = "$build/t/lib/fill";
plan skip_all => 'tabletctl and t/lib/fill are not built' unless -x $ctl && -x $fill;
our $w = tempdir(CLEANUP => 1);
require(($ENV{SRC} // '.') . '/t/lib/command.pl');
my $seed = $ENV{REPAIR_SEED} // 7;
srand($seed);

# Names, sizes and bytes of all files.
sub tree {
	my ($dir) = @_;
	my @all;
	find({no_chdir => 1, wanted => sub { push @all, $_ . ' ' . (-f $_ ? md5_hex(slurp($_)) : 'd') }}, $dir);
	return join "\n", sort @all;
}

sub files {
	my ($dir) = @_;
	my @all;
	find({no_chdir => 1, wanted => sub { push @all, $_ if -f $_ && !m{/lock/held$|/ballast$} }}, $dir);
	return sort @all;
}

sub copy {
	my ($from) = @_;
	system('rm', '-rf', "$w/copy");
	system('cp', '-a', $from, "$w/copy") == 0 or die 'cp';
	return "$w/copy";
}

sub cells {
	my ($dir) = @_;
	my ($status, $out, $err) = run($fill, $dir, 'cells');
	return undef if $status;
	my %cells;
	for (split /\n/, $out) {
		my ($table, $row, $family, $qualifier, $ts, $size, $hash) = split / /;
		$cells{"$table $row $family $qualifier $ts"} = "$size $hash";
	}
	return \%cells;
}

# "..." as tabletctl quotes it, in hex.
sub hex_of {
	my ($q) = @_;
	$q =~ s/\\x([0-9a-f]{2})|\\(.)/defined $1 ? chr hex $1 : $2/ge;
	return unpack 'H*', $q;
}

# Returns the losses that the output names: ranges of rows by table, and a number of log records.
sub losses {
	my ($out, $ids) = @_;
	my %lost = (ranges => [], records => 0, deleted => scalar($out =~ /may show again/));
	for (split /\n/, $out) {
		next unless /^lost: /;
		if (/^lost: (snapshot \S+ of table \S+|table id \d+|table \S+?)(?:,.*?)?: cells of rows from (the first|".*?") to (the last|".*") in /) {
			my $id = $ids->{$1} // ($1 =~ /^table id (\d+)/ ? $1 : 0);
			my ($from, $to) = ($2, $3);
			push @{ $lost{ranges} }, [$id, $from =~ /^"(.*)"$/ ? hex_of($1) : '', $to =~ /^"(.*)"$/ ? hex_of($1) : 'g'];
		} elsif (/: (\d+) records from/) {
			$lost{records} += $1;
		} elsif (/: record \d+, of/) {
			$lost{records}++;
		} elsif (/how many records it had is not known/) {
			$lost{records} = 1e9;
		}
	}
	return \%lost;
}

# Rows in which the store differs from the model and no line says so.
sub unnamed {
	my ($model, $now, $lost, $deleted) = @_;
	my (%rows, @bad);
	for my $key (keys %$model, keys %$now) {
		next if ($model->{$key} // '') eq ($now->{$key} // '');
		my ($table, $row) = split / /, $key;
		next if grep { $_->[0] == $table && $_->[1] le $row && $row le $_->[2] } @{ $lost->{ranges} };
		next if $lost->{deleted} && !exists $model->{$key};
		$rows{"$table $row"} = $key;
	}
	@bad = values %rows;
	return @bad <= $lost->{records} ? () : @bad;
}

my %ids = ('table one' => 16, 'table two' => 17, 'snapshot snap of table one' => 18, 'snapshot all of table one' => 19,
	'snapshot all of table two' => 20, 'table clone' => 21);

our $unreadable; # repair reads with fail_read.so

sub repair {
	local $ENV{LD_PRELOAD} = "$w/fail_read.so" if $unreadable;
	return run($ctl, 'repair', @_);
}

# Damages a copy; the whole course.  Options: clean => no loss may be named.  used => the test goes on with the copy.
my $courses = 0;
sub course {
	my ($store, $model, $what, $damage, %o) = @_;
	return 1 unless in_share($courses++) || $o{used};
	my $dir = copy($store);
	my $names = $damage->($dir);
	my $before = tree($dir);
	my ($seen) = $o{log} ? run($ctl, 'check', $dir) : 1;
	my ($status, $plan, $err) = repair($dir);
	my $fails = '';
	$fails .= "dry run: exit $status\n" unless $status == ($o{nothing} ? 0 : 1) || ($o{any} && $status < 2);
	$fails .= "dry run changed the tree\n" unless tree($dir) eq $before;
	my $out;
	($status, $out, $err) = repair('--write', $dir);
	$fails .= "repair: exit $status\n" if $status > 1 || ($o{clean} && $status);
	my @plan = grep { /^(?:lost|repair): / } split /\n/, $plan;
	my %done = map { $_ => 1 } split /\n/, $out;
	$fails .= "not in the plan: $_\n" for grep { !$done{$_} } @plan;
	my ($checked, $report) = run($ctl, 'check', $dir);
	$fails .= "check: exit $checked\n$report" if $checked;
	my ($again, $more) = run($ctl, 'repair', $dir);
	$fails .= "a second repair has work: $more" if $again;
	my $now = cells($dir);
	if (!$now) {
		$fails .= 'does not open: ' . slurp("$w/err");
	} else {
		# The end of a log can be lost without a trace.
		my @bad = $seen ? unnamed($model, $now, losses(($o{before} ? ${ $o{before} } : '') . $out, \%ids)) : ();
		$fails .= "differs and is not named: @bad[0 .. ($#bad < 5 ? $#bad : 5)] (" . @bad . ")\n" if @bad;
		($checked, $report) = run($ctl, 'check', $dir);
		$fails .= "check after the mount: exit $checked\n$report" if $checked;
	}
	$fails .= "names no loss of $names\n" if $names && $o{loses} && $out !~ /^lost: /m;
	ok(!$fails, $what) or diag("$fails--- dry run:\n$plan--- repair:\n$out$err");
	return !$fails;
}

sub flip { my ($path, $at) = @_; my $d = slurp($path); substr($d, $at, 1) ^= chr(1 << int rand 8); spill($path, $d); return $path }
sub swap { my @two = map { slurp($_) } @_; spill($_[0], $two[1]); spill($_[1], $two[0]); return }
# Damages the same block of both copies.
sub both_copies { my ($path) = @_; my $d = slurp($path); my $second = int((length($d) + 8191) / 8192) * 4096; substr($d, $_, 1) ^= 'A' for 30, $second + 30; spill($path, $d); return }
sub zero { my ($path, $sector) = @_; my $d = slurp($path); my $n = length($d) - $sector * 512; substr($d, $sector * 512, $n < 512 ? $n : 512) = "\0" x ($n < 512 ? $n : 512); spill($path, $d); return $path }

# ---- the stores: one ended by a crash with much in its log, one closed ----
for (['crashed', qw(write 300 large versions delete 40 flush write 100 snapshot compact split write 60 crash)],
     ['closed', qw(write 300 large versions delete 40 flush write 100 snapshot compact split write 60 flush)]) {
	my ($name, @verbs) = @$_;
	is((run($fill, "$w/$name", @verbs))[0], 0, "fill $name");
}
my %model = map { $_ => cells(copy("$w/$_")) } qw(crashed closed);
cmp_ok(scalar(keys %{ $model{$_} }), '>', 1000, "$_: cells") for qw(crashed closed);
my $damaged = 0;

for my $name (qw(crashed closed)) {
	my ($store, $model) = ("$w/$name", $model{$name});
	my @sst = sort { -s $b <=> -s $a } glob "$store/sst/1[67]/*.sst";
	my ($inside) = map { s/^\Q$store\E//r } @sst;
	course($store, $model, "$name: nothing", sub { }, clean => 1, nothing => 1);
	for my $file (qw(FORMAT lock/ids lock/incarnation lock/store lock/root)) {
		course($store, $model, "$name: no $file", sub { unlink "$_[0]/$file"; return }, clean => $file ne 'lock/root');
		course($store, $model, "$name: $file is nothing", sub { spill("$_[0]/$file", 'x' x 9000); return }, clean => $file ne 'lock/root');
	}
	course($store, $model, "$name: no schema", sub { unlink "$_[0]/lock/tables/one"; return });
	course($store, $model, "$name: a damaged schema", sub { spill("$_[0]/lock/tables/two", 'x' x 9000); return });
	course($store, $model, "$name: two damaged schemas", sub { spill("$_[0]/lock/tables/$_", 'x' x 9000) for qw(one two); return });
	course($store, $model, "$name: a damaged block", sub { flip("$_[0]$inside", 1000) }, loses => 1);
	course($store, $model, "$name: damaged blocks", sub { zero("$_[0]$inside", $_) for 10, 20, 40; return 'blocks' }, loses => 1);
	course($store, $model, "$name: a damaged end", sub { zero("$_[0]$inside", int(((-s "$_[0]$inside") - 1) / 512)); return });
	course($store, $model, "$name: cut in half", sub { truncate "$_[0]$inside", (-s "$_[0]$inside") / 2; return 'half' }, loses => 1);
	course($store, $model, "$name: a missing SSTable", sub { unlink "$_[0]$inside"; return 'it' }, loses => 1);
	for (["another file of the table", $sst[0], $sst[1]], ["another table's", (glob "$store/sst/16/*.sst")[0], (glob "$store/sst/17/*.sst")[-1]]) {
		my ($what, @two) = ($_->[0], map { s/^\Q$store\E//r } @$_[1, 2]);
		course($store, $model, "$name: swapped with $what", sub { swap(map { "$_[0]$_" } @two); return }, clean => 1);
		course($store, $model, "$name: replaced by $what", sub { spill("$_[0]$two[0]", slurp("$_[0]$two[1]")); return 'it' }, loses => 1);
	}
	my @meta = map { s/^\Q$store\E//r } glob "$store/sst/1/*.sst";
	course($store, $model, "$name: METADATA's files are swapped", sub { swap("$_[0]$meta[0]", "$_[0]$meta[1]"); return }, clean => 1) if @meta > 1;
	for my $m (@meta) {
		course($store, $model, "$name: METADATA: $m is longer", sub { spill("$_[0]$m", slurp("$_[0]$m") . 'x'); return }, clean => 1, any => 1);
		course($store, $model, "$name: METADATA: both copies of blocks of $m", sub { both_copies("$_[0]$m"); return });
		course($store, $model, "$name: METADATA: $m", sub { flip("$_[0]$m", 100); return });
		course($store, $model, "$name: no METADATA: $m", sub { unlink "$_[0]$m"; return });
	}
	my @logs = map { s/^\Q$store\E//r } glob "$store/log/*/*.log";
	for my $log (@logs) {
		course($store, $model, "$name: no $log", sub { unlink "$_[0]$log"; return }, any => 1, log => $log eq $logs[-1]);
		course($store, $model, "$name: $log has no header", sub { zero("$_[0]$log", $_) for 0, 1; return }, any => 1);
		course($store, $model, "$name: a flipped bit in $log", sub { flip("$_[0]$log", 3000); return }, any => 1);
	}
}

# A sealed log: what a zombie has written behind the end that the seal states is not data.
{
	my $dir = "$w/sealed";
	system('cp', '-a', "$w/crashed", $dir) == 0 or die 'cp';
	my ($log) = sort { $b cmp $a } glob "$dir/log/*/*.log";
	my $all = slurp($log);
	my @ends;
	for (my $at = 1024; substr($all, $at + 4, 4) eq 'TLR1'; push @ends, $at) {
		$at += 40 + unpack('N', substr($all, $at + 24, 4)) + 7 & ~7;
	}
	cmp_ok(scalar(@ends), '>', 40, 'records of the last segment');
	my $whole = cells(copy($dir));
	spill($log, substr($all, 0, $ends[-30]) . "\0" x 65536);
	is((run($fill, $dir, 'seal'))[0], 0, 'the log is sealed');
	$log =~ s{/(\d+)/}{/$1.dead/};
	spill($log, $all);
	my $model = cells(copy($dir));
	my @zombie = grep { !exists $model->{$_} } keys %$whole;
	cmp_ok(scalar(@zombie), '>', 10, 'cells of the zombie');
	my $inside = $log =~ s/^\Q$dir\E//r;
	course($dir, $model, 'sealed: nothing', sub { }, clean => 1, nothing => 1);
	for my $k (1 .. 3) {
		my $at = $ends[@ends * $k / 8] + 50;
		course($dir, $model, "sealed: a damaged record at $at", sub { flip("$_[0]$inside", $at) }, loses => 1, used => 1);
		my $now = cells("$w/copy");
		is(scalar(grep { exists $now->{$_} } @zombie), 0, '  no record of the zombie came back');
	}
	course($dir, $model, 'sealed: no headers', sub { zero("$_[0]$inside", $_) for 0, 1; return }, any => 1);
	for my $how (['damaged', sub { spill(glob("$_[0]/lock/seals/*"), 'x' x 9000) }], ['missing', sub { unlink glob "$_[0]/lock/seals/*" }]) {
		my $copy = copy($dir);
		$how->[1]->($copy);
		my ($status, $out) = run($ctl, 'check', $copy);
		like("$status $out", qr/^1 .*: its seal, .*\/lock\/seals\/\d+, is missing or damaged/s, "a seal that is $how->[0] is named");
		cmp_ok((run($ctl, 'repair', '--write', $copy))[0], '<', 2, '  a repair without it');
		is((run($ctl, 'check', $copy))[0], 0, '  mends the store');
		my $now = cells($copy) // {};
		is(scalar(grep { ($now->{$_} // '') ne $model->{$_} && ($now->{$_} // '') ne ($whole->{$_} // '') } keys %$model), 0, '  nothing is lost');
	}
}

# In use.
{
	my $dir = copy("$w/closed");
	open my $in, '|-', "$fill $dir hold > $w/ready" or die;
	1 until -s "$w/ready";
	my ($status, $out, $err) = run($ctl, 'repair', '--write', $dir);
	is($status, 2, 'a store in use is refused');
	like($err, qr/in use/, 'and it says so');
	close $in;
}

# A salt is found by the rows; damage to both copies of METADATA's files.
{
	my @verbs = qw(salt 8 write 60 flush close write 10);
	is((run($fill, "$w/salted", @verbs))[0], 0, 'fill salted');
	my $model = cells(copy("$w/salted"));
	course("$w/salted", $model, 'salted: no schemas', sub { unlink "$_[0]/lock/tables/$_" for qw(one two); return });
	for my $m (map { s/^\Q$w\E\/salted//r } glob "$w/salted/sst/1/*.sst") {
		course("$w/salted", $model, "salted: METADATA: $m is nothing", sub { spill("$_[0]$m", 'x' x 9000); return });
	}
	course("$w/salted", $model, 'salted: only data is left', sub { system('rm', '-rf', "$_[0]/FORMAT", "$_[0]/lock"); return });
}

# A damaged clock mark is left out, and no time is made up.
{
	my $dir = copy("$w/closed");
	spill("$dir/lock/clock", 'x' x 9000);
	my ($status, $out) = run($ctl, 'repair', '--write', $dir);
	is($status, 0, 'a damaged clock mark is no loss') or diag($out);
	ok(!-e "$dir/lock/clock", '  it is left out');
}

# The files of a table that was emptied do not become a table with its id, and emptying one table empties no other.
{
	is((run($fill, "$w/emptied", qw(write 60 flush empty write 20 crash)))[0], 0, 'fill emptied');
	my $model = cells(copy("$w/emptied"));
	for my $damage (['no root', sub { unlink "$_[0]/lock/root" }], ['no note', sub { unlink glob("$_[0]/lock/dropped/*"), "$_[0]/lock/root" }]) {
		course("$w/emptied", $model, "emptied: $damage->[0]", sub { $damage->[1]->($_[0]); return }, any => 1, used => 1);
		is((run($fill, "$w/copy", 'empty'))[0], 0, '  emptied again');
		my $now = cells("$w/copy") // {};
		is(scalar(grep { /^17 / } keys %$now), scalar(grep { /^17 / } keys %$model), '  the other table has its cells');
	}
}

# Each snapshot's record is lost, too: its METADATA is whole, so it is written again.
{
	course("$w/closed", $model{closed}, 'no lock/rows', sub { unlink glob "$_[0]/lock/rows/*"; return }, clean => 1);
	course("$w/closed", $model{closed}, 'lock/rows is damaged', sub { spill($_, 'x' x 9000) for glob "$_[0]/lock/rows/*"; return }, clean => 1);
	course("$w/closed", $model{closed}, 'nor METADATA', sub { spill($_, 'x' x 9000) for glob("$_[0]/lock/rows/*"), "$_[0]/lock/root", glob "$_[0]/sst/1/*"; return 'them' }, loses => 1);
}

# ---- killed at each step, and run again ----
SKIP: {
	skip('no C compiler', 1) if system("\${CC:-cc} -shared -fPIC -O2 -o '$w/die_at.so' '$ENV{SRC}/t/lib/die_at.c' -ldl 2> $w/err");
	is((run($fill, "$w/small", qw(write 40 large flush write 20 delete 8 crash)))[0], 0, 'fill small');
	my $model = cells(copy("$w/small"));
	my ($file) = map { s/^\Q$w\E\/small//r } sort { -s $b <=> -s $a } glob "$w/small/sst/1[67]/*.sst";
	my $damage = sub {
		flip("$_[0]$file", 600);
		flip($_, 9000) for glob "$_[0]/log/*/0000000001.log";
		spill("$_[0]/$_", 'x' x 9000) for qw(lock/root lock/incarnation lock/tables/two);
		return;
	};
	my $n = 0;
	my $status = 99;
	while ($status == 99) {
		my $plan;
		$n += $n ? ($ENV{REPAIR_STRIDE} // 3) * ($ENV{TEST_SHARE} || 1) : 1;
		last unless course("$w/small", $model, "killed at step $n", sub {
			$damage->($_[0]);
			$plan = (run($ctl, 'repair', $_[0]))[1];
			local $ENV{LD_PRELOAD} = "$w/die_at.so";
			local $ENV{DIE_AT} = $n;
			$status = (run($ctl, 'repair', '--write', $_[0]))[0];
			return;
		}, any => 1, used => 1, before => \$plan);
	}
	cmp_ok($n, '>', 20, 'steps');
}

# ---- a file of a damaged log cannot be opened once: the log is read again, or nothing is repaired ----
SKIP: {
	skip('no C compiler', 1) if system("\${CC:-cc} -shared -fPIC -O2 -o '$w/fail_open.so' '$ENV{SRC}/t/lib/fail_open.c' -ldl 2> $w/err");
	my $dir = copy("$w/crashed");
	my ($log) = glob "$dir/log/*/0000000001.log";
	zero($log, 4);
	my $plan = (run($ctl, 'repair', $dir))[1];
	my @lost = sort grep { /^lost: / } split /\n/, $plan;
	my ($n, $failed, @bad) = (0, 0);
	for ($n = 1; $n < 100; $n++) {
		local $ENV{LD_PRELOAD} = "$w/fail_open.so";
		local $ENV{FAIL_OPEN} = '/0000000001.log';
		local $ENV{FAIL_AT} = $n;
		my ($status, $out, $err) = run($ctl, 'repair', $dir);
		my @now = sort grep { /^lost: / } split /\n/, $out;
		push @bad, "opening $n: exit $status\n$out$err" if $status < 2 && "@now" ne "@lost";
		last if $out eq $plan && !$err;
		$failed++;
	}
	ok(@lost && !@bad, 'no part of a scan that failed is used') or diag("without a failure:\n$plan", @bad);
	cmp_ok($failed, '>', 2, 'openings that failed');
}

# ---- a sector of an SSTable that cannot be read is damage: the other blocks stay ----
SKIP: {
	skip('no C compiler', 1) if system("\${CC:-cc} -shared -fPIC -O2 -o '$w/fail_read.so' '$ENV{SRC}/t/lib/fail_read.c' -ldl 2> $w/err");
	for my $table (qw(16 1)) {
		my ($file) = sort { -s $b <=> -s $a } glob "$w/closed/sst/$table/*.sst";
		$file =~ s/^\Q$w\E\/closed//;
		my $size = -s "$w/closed$file";
		for my $at (1000, int($size / 2), $size - 20) {
			local $ENV{FAIL_READ} = $file;
			local $ENV{FAIL_AT} = $at;
			local $unreadable = 1;
			course("$w/closed", $model{closed}, "byte $at of $file cannot be read", sub { }, any => $table == 1);
		}
	}
}

# ---- one or two damages each, at random ----
my @all = map { my $s = $_; map { [$s, s/^\Q$w\E\/$s\///r] } files("$w/$s") } qw(crashed closed);
my $rounds = $ENV{REPAIR_RANDOM} // 6;
for my $round (1 .. $rounds) {
	my $name = (qw(crashed closed))[rand 2];
	my @files = map { $_->[1] } grep { $_->[0] eq $name } @all;
	my @damage;
	for (0 .. rand 1.3) {
		my $file = $files[rand @files];
		my ($part) = $file =~ m{^(\w+)};
		my @same = grep { m{^$part} } @files;
		my $size = -s "$w/$name/$file";
		my $at = int rand($size || 1);
		my $kind = (qw(flip flip zero cut remove extend swap copy))[rand 8];
		push @damage, [$kind, $file, $kind =~ /swap|copy/ ? $same[rand @same] : $kind eq 'extend' ? 1 + int rand 9000 : $at];
	}
	my $damage = sub {
		for (@damage) {
			my ($kind, $file, $at) = ($_->[0], "$_[0]/$_->[1]", $_->[2]);
			next unless -e $file;
			flip($file, $at) if $kind eq 'flip' && -s $file > $at;
			zero($file, int $at / 512) if $kind eq 'zero';
			truncate($file, $at) if $kind eq 'cut' && -s $file > $at;
			unlink $file if $kind eq 'remove';
			spill($file, slurp($file) . join '', map { chr rand 256 } 1 .. $at) if $kind eq 'extend';
			if ($kind =~ /swap|copy/ && -e "$_[0]/$at") {
				my @both = (slurp($file), slurp("$_[0]/$at"));
				spill($file, $both[1]);
				spill("$_[0]/$at", $both[0]) if $kind eq 'swap';
			}
		}
	};
	last unless course("$w/$name", $model{$name}, "random $round (seed $seed): $name: " . join(', ', map { "@$_" } @damage), sub { $damage->(@_); return },
			any => 1, log => scalar(grep { "@$_" =~ m{ log/} } @damage))
		|| ++$damaged < 5;
}
done_testing();
