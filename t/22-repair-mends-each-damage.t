#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# tabletctl repair finds each kind of damage in a dry run that changes nothing,
# and repairs it.  Afterwards check finds nothing, the store opens, and it has
# all cells but those that the output names as lost.  The same holds for random
# damage to one file (REPAIR_RANDOM rounds, default 12) and for a repair that is
# killed at any step and run again.
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
		if (/^lost: (?:table (\S+)|table id (\d+)): cells of rows from (the first|".*") to (the last|".*") in /) {
			my $id = $2 // $ids->{$1};
			my ($from, $to) = ($3, $4);
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

my %ids = (one => 16, two => 17);

# Damages a copy; the whole course.  Options: clean => no loss may be named.
sub course {
	my ($store, $model, $what, $damage, %o) = @_;
	my $dir = copy($store);
	my $names = $damage->($dir);
	my $before = tree($dir);
	my ($seen) = $o{log} ? run($ctl, 'check', $dir) : 1;
	my ($status, $plan, $err) = run($ctl, 'repair', $dir);
	my $fails = '';
	$fails .= "dry run: exit $status\n" unless $status == ($o{nothing} ? 0 : 1) || ($o{any} && $status < 2);
	$fails .= "dry run changed the tree\n" unless tree($dir) eq $before;
	my $out;
	($status, $out, $err) = run($ctl, 'repair', '--write', $dir);
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
sub zero { my ($path, $sector) = @_; my $d = slurp($path); my $n = length($d) - $sector * 512; substr($d, $sector * 512, $n < 512 ? $n : 512) = "\0" x ($n < 512 ? $n : 512); spill($path, $d); return $path }

# ---- the stores: one ended by a crash with much in its log, one closed ----
for (['crashed', qw(write 300 large versions delete 40 flush write 100 compact split write 60 crash)],
     ['closed', qw(write 300 large versions delete 40 flush write 100 compact split write 60 flush)]) {
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
	for my $m (map { s/^\Q$store\E//r } glob "$store/sst/1/*.sst") {
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
		course($dir, $model, "sealed: a damaged record at $at", sub { flip("$_[0]$inside", $at) }, loses => 1);
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
		$n++;
		last unless course("$w/small", $model, "killed at step $n", sub {
			$damage->($_[0]);
			$plan = (run($ctl, 'repair', $_[0]))[1];
			local $ENV{LD_PRELOAD} = "$w/die_at.so";
			local $ENV{DIE_AT} = $n;
			$status = (run($ctl, 'repair', '--write', $_[0]))[0];
			return;
		}, any => 1, before => \$plan);
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

# ---- one damage each, at random ----
my @all = map { my $s = $_; map { [$s, s/^\Q$w\E\/$s\///r] } files("$w/$s") } qw(crashed closed);
my $rounds = $ENV{REPAIR_RANDOM} // 12;
for my $round (1 .. $rounds) {
	my ($name, $file) = @{ $all[int rand @all] };
	my $size = -s "$w/$name/$file";
	my $kind = int rand 5;
	my $at = int rand($size || 1);
	my $damage = sub {
		my $path = "$_[0]/$file";
		return flip($path, $at), undef if $kind < 2 && $size;
		return zero($path, int $at / 512), undef if $kind == 2;
		return truncate($path, $at), undef if $kind == 3;
		unlink $path;
		return;
	};
	last unless course("$w/$name", $model{$name}, "random $round (seed $seed): $name $file, kind $kind at $at of $size", sub { $damage->(@_); return }, any => 1, log => scalar($file =~ m{^log/}))
		|| ++$damaged < 5;
}
done_testing();
