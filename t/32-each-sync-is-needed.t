#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# If any one fsync were missing, a crash test would fail: each line of the engine
# that syncs is left out in turn, and a crash program must notice.  The output
# names the program that noticed.  The histories have fixed seeds and no time
# limit.
use strict;
use warnings;
use Test::More;

# With TEST_SHARE=N one run in N tries all places (t/lib/share.h).
my $share = $ENV{TEST_SHARE} || 1;
plan skip_all => "TEST_SHARE=$share: one run in $share has this test" if ($ENV{TEST_SEED} // 0) % $share;

my $src = $ENV{SRC} // '.';
chdir($ENV{BUILD} // '.') or die;

# ---- the places, from the sources ----
my %place; # "FILE:LINE KIND" => a line for each program that noticed
for my $file (split ' ', `cd '$src' && find engine master fs -name '*.[ch]' -o -name '*.cc'`) {
	next if $file =~ m{^engine/(?:tool|base|probe)/}; # the files of a probe are no data
	open my $f, '<', "$src/$file" or die "$file: $!";
	while (<$f>) {
		next if m{^\s*\*|^/\*};
		$place{"$file:$. $_"} = [] for (/\bfile_replace\(/ ? ('sync', 'syncdir') : (), /\bfile_(?:sync|write_new)\(/ ? 'sync' : (),
						/\bfile_sync_(?:dir|parent)\(/ ? 'syncdir' : ());
		fail("$file:$.: a sync that goes past engine/base/file.h") if /\b(?:fsync|fdatasync|syncfs|sync_file_range|msync)\s*\(/;
	}
}
cmp_ok(scalar(keys %place), '>', 15, 'places that sync are found in the sources');

# ---- the programs that notice; crash_syncs, the slowest, tries the places that are left ----
my @noticed;
for my $program (['crash_lock', '--syncs'], ['crash_log', '--syncs'], ['crash_seal', '--syncs'], ['crash_marker'], ['crash_syncs']) {
	my ($name, @arguments) = @$program;
	@arguments = map { ('--seen', $_) } @noticed if $name eq 'crash_syncs';
	open my $out, '-|', "t/crash/$name", @arguments or die "$name: $!";
	my (@said, $summary);
	while (<$out>) {
		push @said, $_;
		$summary = $1 if /^ok 1 - (.*)/;
		next unless /^# place (\S+) (sync|syncdir): left out (\d+), noticed (\d+)(?:, first by (.*))?/;
		my ($where, $kind, $tried, $seen, $by) = ($1, $2, $3, $4, $5);
		my ($known) = grep { substr("/$where", -length("/$_")) eq "/$_" } map { /^(\S+) \Q$kind\E$/ ? $1 : () } keys %place;
		if (!$known) {
			fail("$name: $where $kind is a place in the sources");
		} elsif ($seen && $tried) {
			push @noticed, "$where $kind";
			push @{$place{"$known $kind"}}, "$seen of $tried, $by";
		}
	}
	close $out;
	is($?, 0, $summary ? "$name: $summary" : "$name @arguments") or diag(@said > 60 ? @said[-60 .. -1] : @said);
}
for my $p (sort keys %place) {
	ok(@{$place{$p}}, "$p: left out, it is noticed");
	note("  $_") for @{$place{$p}};
}
done_testing();
