#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The manuals, HACKING, doc/ and debian/ name exactly the options, metrics, errors,
# settings, libraries and version that the code has.  At the end each check is run
# over texts with one item too few or too many, which proves that it can fail.
use strict;
use warnings;
use Errno;

my $src = $ENV{SRC} || '.';
my $build = $ENV{BUILD} || '.';

sub slurp {
	my ($path) = @_;
	open(my $in, '<', "$src/$path") or die "$path: $!";
	local $/;
	return <$in>;
}

sub sources {
	my ($pattern) = @_;
	return join('', map { slurp(substr($_, length($src) + 1)) } sort glob("$src/$pattern"));
}

sub without_comments {
	my ($s) = @_;
	$s =~ s{/\*.*?\*/}{}gs;
	return $s;
}

# Returns a line for each item that only one of the two lists has.
sub differ {
	my ($one, $other, $in_one, $in_other) = @_;
	my %one = map { $_ => 1 } @$one;
	my %other = map { $_ => 1 } @$other;
	my @bad = ("$in_one: nothing was found there") x !@$one;
	push @bad, "$_: in $in_one and not in $in_other" for grep { !$other{$_} } sort keys %one;
	push @bad, "$_: in $in_other and not in $in_one" for grep { !$one{$_} } sort keys %other;
	return @bad;
}

# ---- options ----

# Returns the options ("-h", "--help", "-o ro") that a program's help text lists.
sub help_options {
	my ($help) = @_;
	my @found;
	while ($help =~ /(?<![\w-])(?:-o ([a-z_]+)|(--?[A-Za-z][a-z-]*))/g) {
		push @found, $1 ? "-o $1" : $2;
	}
	return @found;
}

# The same out of a page: .Fl lines outside the synopsis.
sub page_options {
	my ($page) = @_;
	my @found;
	$page =~ s/^\.Sh SYNOPSIS\n.*?^(?=\.Sh )//ms;
	for my $line (split /\n/, $page) {
		next unless $line =~ /^\.(?:It |Pq )?Fl /;
		while ($line =~ /\bFl o Cm ([a-z_]+)|(?:\bFl |, )(-?[A-Za-z][a-z-]*)/g) {
			push @found, $1 ? "-o $1" : "-$2";
		}
	}
	return @found;
}

sub check_options {
	my ($help, $page, $program) = @_;
	return differ([help_options($help)], [page_options($page)], "$program -h", "$program(1)");
}

# Subcommands and their arguments, from the usage lines.
sub check_subcommands {
	my ($help, $page) = @_;
	my @want = $help =~ /(?:usage:|\n) +tabletctl ((?:[a-z]+ ?)+)(?=[\[A-Z-]|\n)/g;
	my @bad = ('tabletctl: no usage line was found') x !@want;
	s/ $// for @want;
	for my $w (@want) {
		push @bad, "tabletctl $w: not in tabletctl(1)'s synopsis" unless $page =~ /^\.Cm \Q$w\E$/m;
	}
	return @bad;
}

# ---- configuration ----

sub check_configuration {
	my ($code, $page) = @_;
	my @keys = $code =~ /^\t\{"(\w+)", (?:SIZE|DURATION|COUNT|LEVEL|FLAG|TEXT|PATH|ADDRESS|TOKEN|SOCKET_MODE),/mg;
	my @bad = differ(\@keys, [$page =~ /^\.It Va (\w+)/mg], 'engine/client/options.c', 'tabletfs.conf(5)');
	while ($code =~ /^\t\t\.(\w+)_bytes = (\d+)u << 20,$/mg) {
		push @bad, "$1: its default is $2M" unless $page =~ /^\.It Va $1 Pq size, default $2M/m;
	}
	return @bad;
}

sub check_schema_keys {
	my ($code, $control, $page) = @_;
	my @keys = $code =~ /\{"(\w+)", VALUE_/g;
	my @bad = ('engine/schema/attributes.c: no key was found') x !@keys;
	my @files = ($control =~ /^\tSCHEMA_SETTING\((\w+),/mg, $control =~ /^\t\{\.name = "([^"]+)", \.mode/mg);
	push @bad, 'fs/node: no control file was found' unless @files;
	for my $k (@keys) {
		push @bad, "$k: a key of schemas, not in tabletfs-schema(5)" unless $page =~ /^\.It Va (?:.* , )?\Q$k\E\b/m;
	}
	for my $f (@files) {
		push @bad, "$f: a control file, not in tabletfs(7)" unless $page =~ m{^(?:\.It )?\.?Pa (?:.*[ /])?\Q$f\E\b}m;
	}
	return @bad;
}

# ---- clauses of scans ----

# The list of clauses, their page with the same arguments, and the Python package with its page.
sub check_clauses {
	my ($code, $page, $python, $python_page) = @_;
	my %argument = $code =~ /\bX\(\w+, "([a-z-]+)", \w+, \w+, "=?([^"]*)"/g;
	my @python = map { tr/-/_/r =~ s/^from$/from_/r } keys %argument;
	my @told;
	for my $line ($page =~ /^\.It (Cm [a-z-]+=.*)$/mg) {
		push @told, "$1=$2" while $line =~ /\bCm ([a-z-]+)=(?: Ns Ar )?(\S+)/g;
	}
	my ($arguments) = $python =~ /\bdef scan\((.*?)\babsent_from:/s;
	my ($names) = $python_page =~ /^has the clauses of\n\.Xr tabletfs-scan 7 :\n((?:\.Va .*\n)+)/m;
	my @bad = differ([map { "$_=" . ($argument{$_} || 'yes') } keys %argument], \@told, 'engine/base/scan.h', 'tabletfs-scan(7)');
	push @bad, differ(\@python, [($arguments // '') =~ /^\s+(\w+): /mg], 'engine/base/scan.h', 'Table.scan of the Python package');
	push @bad, differ(\@python, [grep { $_ ne 'Va' } ($names // '') =~ /\w+/g], 'engine/base/scan.h', 'tabletfs-python(3), Scans');
	return @bad;
}

# ---- compressions ----

# The codecs in the code, with their numbers in doc/formats and their names in tabletfs-schema(5).
sub check_codecs {
	my ($code, $document, $page) = @_;
	my %number = reverse $code =~ /\bX\(\w+, (\d+), "([a-z0-9-]+)",/g;
	my ($numbers) = $document =~ /   1   codec: (.*?) zstd against/s;
	my ($names) = $page =~ /^\.It Va compression\n(.*?default)/ms;
	my @bad = differ([map { "$number{$_} $_" } keys %number], [($numbers // '') =~ /(\d+ [a-z][a-z0-9-]*)/g], 'engine/sstable/sstable.h', 'doc/formats');
	push @bad, differ([keys %number], [map { split / , / } ($names // '') =~ /^\.Ql (.*)$/mg], 'engine/sstable/sstable.h', 'tabletfs-schema(5)');
	return @bad;
}

# ---- metrics ----

# The names that metrics have: of the ADD lines, and of tables' and families' numbers.
sub metrics_of {
	my ($code) = @_;
	my @found;
	while ($code =~ /\bADD\("(\w+)",.*?,\s+(true|false)\);/gs) {
		my ($name, $gauge) = ($1, $2);
		$name =~ s/_us$/_seconds/;
		push @found, $name . ($gauge eq 'true' ? '' : '_total');
	}
	push @found, $1 . ($2 eq 'true' ? '' : '_total') while $code =~ /^\t\t\{"(\w+)", "[^"]*", .*, (true|false)\},$/mg;
	push @found, "table_$1" while $code =~ /^\t\t\{"(\w+_total)", "[^"]*"\},$/mg;
	push @found, $1 while $code =~ /# TYPE tabletfs_(\w+) (?:histogram|counter)\\n/g;
	my ($usage) = $code =~ /usage_metrics\[\] = \{(.*?)\n\};/s;
	push @found, "table_$_", "family_$_" for ($usage || '') =~ /^\t\{"(\w+)",/mg;
	push @found, "table_$_" for $code =~ /put_help\(out, "table", "(\w+)"/g;
	return @found;
}

sub check_metrics {
	my ($code, $page) = @_;
	my ($section) = $page =~ /^\.Sh METRICS\n(.*?)^\.Sh /ms;
	my @told = map { split / , / } ($section || '') =~ /^\.It Va (.*)$/mg;
	return differ([metrics_of($code)], \@told, 'the code', 'tabletfs-metrics(7), METRICS');
}

# The lines of status.
sub check_status {
	my ($code, $page) = @_;
	my @found = $code =~ /buf_printf\(out,\s+"([a-z]+) {2,}/g;
	my ($section) = $page =~ /^\.Sh STATUS\n(.*?)^\.Sh /ms;
	my @told = ($section || '') =~ /^\.It Cm (\w+)/mg;
	return differ(\@found, \@told, 'the code', 'tabletfs-metrics(7), STATUS');
}

# ---- errors ----

# Five never leave: EINTR and EAGAIN, reading requests is done again; EBADMSG and ETIMEDOUT,
# which reply.c makes EIO; and ECANCELED, what the engine answers to a check
# that fs/ itself asked for.
sub check_errors {
	my ($code, $page) = @_;
	my %used = map { $_ => 1 } grep { !/^(?:EINTR|EAGAIN|ECANCELED|EBADMSG|ETIMEDOUT)$/ && exists $!{$_} } without_comments($code) =~ /\b(E[A-Z0-9]{3,})\b/g;
	my %told = map { $_ => 1 } $page =~ /\bEr (E[A-Z0-9]+)/g;
	my @bad = ('fs: no error was found') x !%used;
	push @bad, "$_: given by fs/, not in tabletfs(7)" for grep { !$told{$_} } sort keys %used;
	push @bad, "$_: in tabletfs(7), and no error" for grep { !exists $!{$_} } sort keys %told;
	return @bad;
}

# ---- doc/ ----

sub check_ranks {
	my ($header, $document) = @_;
	my ($list) = $header =~ /#define RANKS\(X\)(.*?)enum rank/s;
	my @ranks = grep { $_ ne 'RANK_NONE' } map { "RANK_$_" } without_comments($list || '') =~ /\bX\((\w+)\)/g;
	my @told = $document =~ /^  (RANK_\w+)/mg;
	my @bad = ('engine/base/mutex.h: no rank was found') x !@ranks;
	push @bad, differ(\@ranks, \@told, 'engine/base/mutex.h', 'doc/locking');
	push @bad, "in another order: doc/locking has @told" if !@bad && "@ranks" ne "@told";
	return @bad;
}

# Constants that mark a format, as they are written in the code.
sub magics {
	my ($code) = @_;
	my @found = map { lc } $code =~ /\b\w*MAGIC\w*\s+(0x[0-9A-Fa-f]{8})u?\b/g;
	push @found, $code =~ /\bmagic\[8\] = "([^"]+)"/g;
	push @found, $code =~ /^#define \w*MAGIC\w* "([^"]+?) ?"/mg;
	push @found, map { join '', /'(.)'/g } $code =~ /\bmagic\[8\] = \{([^}]+)\}/g;
	return @found;
}

sub check_formats {
	my ($code, $document) = @_;
	my @magic = magics($code);
	my @bad = ('fewer than seven formats were found in the code') x (@magic < 7);
	push @bad, "$_: marks a format, not in doc/formats" for grep { index($document, $_) < 0 } @magic;
	return @bad;
}

sub check_paths {
	my ($text) = @_;
	my @paths = $text =~ m{(?<![\w./-])((?:engine|fs|master|t|man|completion|tools)/[\w./-]+\.(?:c|h|cc|t|mk|proto|sh|[1-8]))\b}g;
	my @bad = ('no file is named') x !@paths;
	push @bad, "$_: named in HACKING or doc/, and not there" for grep { !-e "$src/$_" } @paths;
	return @bad;
}

# ---- tests ----

# t/README is what t/lib/list_tests prints.
sub check_list {
	my ($list, $printed) = @_;
	return differ([$printed =~ /^\N+/mg], [$list =~ /^\N+/mg], 'the notes of the tests', 't/README');
}

# No two scripts have the same number.
sub check_numbers {
	my ($names) = @_;
	my %times;
	$times{$_}++ for $names =~ /^(\d+)-/mg;
	return map { "$_: the number of $times{$_} scripts" } grep { $times{$_} > 1 } sort keys %times;
}

# The tarball has the files that the makefiles name.
sub check_sources {
	my ($files, $makefiles) = @_;
	my %named = map { $_ => 1 } $makefiles =~ m{([\w/-]+\.(?:c|cc|h|html))\b}g;
	return map { "$_: in no local.mk" } grep { !$named{$_} } split ' ', $files;
}

# ---- packages ----

# configure.ac has the version; the others are the same.
sub check_version {
	my ($configure, %texts) = ($_[0], 'debian/changelog' => $_[1], 'NEWS' => $_[2], 'tabletfs -V' => $_[3], 'tabletctl -V' => $_[4], 'tabletfs.pc' => $_[5]);
	my ($version) = $configure =~ /^AC_INIT\(\[tabletfs\], \[([\d.]+)\]/m or return 'configure.ac: AC_INIT was not found';
	my @bad;
	for my $name (sort keys %texts) {
		my ($found) = $texts{$name} =~ /^(?:tabletfs \(|tablet\w+ |Version: )?(\d+\.[\d.]*\d)/m;
		push @bad, "$name: its newest version is " . ($found // 'absent') . ", and configure.ac has $version" unless ($found // '') eq $version;
	}
	return @bad;
}

# HACKING has a table of the libraries and of their packages.
sub check_libraries {
	my ($document, $needed) = @_;
	my @needed = grep { !/^(?:libc|libm|libgcc_s|libstdc\+\+|ld-linux.*|libasan|libubsan|libtsan)$/ } $needed =~ /\(NEEDED\).*\[(.*?)\.so\b/g;
	my @told = $document =~ /^  (\S+) +\S+-dev +(?!\()\S/mg;
	return differ(\@needed, \@told, 'the programs and libtabletfs', 'HACKING, Libraries');
}

sub check_packages {
	my ($document, $control, $script) = @_;
	my @told = $document =~ /^  \S+ +(\S+-dev) /mg;
	my ($build) = $control =~ /^Build-Depends:\n((?: .*\n)+)/m;
	my @control = ($build || '') =~ /^ (\S+-dev),/mg;
	my ($list) = $script =~ /^build="(.*?)"/ms;
	my @script = ($list || '') =~ /\b(\S+-dev)\b/g;
	my @bad = differ(\@told, \@control, 'HACKING, Libraries', 'debian/control');
	push @bad, differ(\@told, \@script, 'HACKING, Libraries', 'tools/install-packages');
	return @bad;
}

sub check_symbols {
	my ($header, $symbols) = @_;
	my @declared = without_comments($header) =~ /\b(tfs_\w+)\([^;{]*\)[^;{]*;/g;
	my %inline = map { $_ => 1 } $header =~ /^static inline .*?\b(tfs_\w+)\(/mg;
	return differ([grep { !$inline{$_} } @declared], [$symbols =~ /^ (\w+)\@Base /mg], 'engine/tabletfs.h', 'debian/libtabletfs0.symbols');
}

# ---- the checks, each with texts that must fail it ----

my ($number, @missed) = (0);
sub check {
	my ($title, $fn, $texts, @wrong) = @_;
	my @bad = $fn->(@$texts);
	$number++;
	print((@bad ? 'not ok' : 'ok') . " $number - $title\n");
	print "# $_\n" for @bad;
	for my $w (@wrong) {
		my ($at, $from, $to) = @$w;
		my @changed = @$texts;
		$changed[$at] =~ s/$from/$to/m or push @missed, "$title: $from: not in the text";
		push @missed, "$title: $from: not noticed" if !@bad && !$fn->(@changed);
	}
}

sub says {
	my ($program, @args) = @_;
	my $out = `$build/$program @args 2>&1`;
	return $? == 0 ? $out : '';
}

my %page = map { $_ => slurp("man/$_") } qw(tabletfs.1 tabletfs-server.1 tabletctl.1 tabletfs.7 tabletfs.conf.5 tabletfs-schema.5 tabletfs-metrics.7);
my $locking = slurp('doc/locking');
my $formats = slurp('doc/formats');
my $documents = join('', slurp('HACKING'), sources('doc/*'));

for my $name (sort map { m{([^/]+)$} } glob("$src/man/*.[1-8]")) {
	my $out = `mandoc -Tlint -W warning '$src/man/$name' 2>&1`;
	$number++;
	print((($? || $out) ? 'not ok' : 'ok') . " $number - mandoc has nothing to say of $name\n");
	print "# $_\n" for split /\n/, $out;
}

my $tabletfs = says('tabletfs', '-h');
my @subs = says('tabletctl', '-h') =~ /^  ([a-z]+) +[a-z]/mg;
my $tabletctl = join("\n", says('tabletctl', '-h'), map { says('tabletctl', $_, '-h') } grep { $_ ne 'tabletctl' } @subs);

check('options of tabletfs', \&check_options, [$tabletfs, $page{'tabletfs.1'}, 'tabletfs'],
	[0, qr/^ +-o latest .*\n/m, ''], [1, qr/^\.It Fl o Cm quiet$/m, '.It Fl o Cm quieter']);
check('options of tabletfs-server', \&check_options, [says('tabletfs-server', '-h'), $page{'tabletfs-server.1'}, 'tabletfs-server'],
	[0, qr/^ +-o http.*\n/m, ''], [1, qr/^\.It Fl f$/m, '.It Fl g']);
check('options of tabletctl', \&check_options, [$tabletctl, $page{'tabletctl.1'}, 'tabletctl'],
	[0, qr/^ +-q, --quiet .*\n/m, ''], [1, qr/^\.It Fl -value Ar BYTES$/m, '.It Fl -most']);
check('subcommands of tabletctl', \&check_subcommands, [$tabletctl, $page{'tabletctl.1'}], [1, qr/^\.Cm dump sst$/m, '.Cm dump']);
check('settings of tabletfs.conf', \&check_configuration, [slurp('engine/client/options.c'), $page{'tabletfs.conf.5'}],
	[0, qr/\{"log_level"/m, '{"loglevel"'], [1, qr/^\.It Va memtable .*\n/m, ''], [1, qr/default 256M/m, 'default 255M']);
check('keys of schemas and control files', \&check_schema_keys,
	[slurp('engine/schema/attributes.c'), sources('{fs/node/*.c,fs/node/*/*.c}'), $page{'tabletfs-schema.5'} . $page{'tabletfs.7'}],
	[2, qr/^\.It Va tablet_size$/m, '.It Va tabletsize'], [0, qr/"in_memory"/m, '"in_mind"'], [1, qr/"usage"/m, '"use"']);
check('clauses of scans', \&check_clauses,
	[map { slurp($_) } qw(engine/base/scan.h man/tabletfs-scan.7 python/tabletfs/_table.py man/tabletfs-python.3)],
	[0, qr/"qlimit"/m, '"qlimits"'], [0, qr/"=TEXT"/m, '"BYTES"'], [1, qr/ , Cm until= Ns Ar TIME/m, ''], [2, qr/^ +changed: .*\n/m, ''],
	[3, qr/ , value_is/m, '']);
check('compressions', \&check_codecs, [slurp('engine/sstable/sstable.h'), $formats, $page{'tabletfs-schema.5'}],
	[0, qr/"snappy"/m, '"gzip"'], [1, qr/2 lz4/m, '6 lz4'], [2, qr/none , snappy/m, 'snappy']);
check('metrics', \&check_metrics, [join('', map { sources($_) } qw(engine/server/*/*.c engine/client/*.c fs/node/*.c fs/node/*/*.c)), $page{'tabletfs-metrics.7'}],
	[0, qr/ADD\("reserve"/m, 'ADD("reserve_file"'], [0, qr/\{"tombstones"/m, '{"deletes"'], [1, qr/^\.It Va blocks_read_total$/m, '.It Va blocks_read'],
	[1, qr/ , log_syncs_total$/m, ''], [0, qr/"tables", counts.tables, true/m, '"tables", counts.tables, false']);
check('lines of status', \&check_status, [join('', map { sources($_) } qw(engine/server/*/*.c fs/node/*.c fs/node/*/*.c)), $page{'tabletfs-metrics.7'}],
	[0, qr/"attention    /m, '"remarks    '], [1, qr/^\.It Cm mount$/m, '.It Cm mounts']);
check('errors that calls can give', \&check_errors, [join('', map { slurp($_) } grep { $_ !~ m{^fs/(?:mountpoint|service)\.c$} } map { s{^\Q$src\E/}{}r } glob("$src/fs/*.c $src/fs/*/*.c $src/fs/*/*/*.c")), $page{'tabletfs.7'}],
	[0, qr/-EXDEV/m, '-ENOSTR'], [1, qr/Er EOVERFLOW/m, 'Er EOVERFLOWS']);
check('lock ranks', \&check_ranks, [slurp('engine/base/mutex.h'), $locking],
	[1, qr/^  RANK_CLOCK.*\n/m, ''], [1, qr/^  (RANK_TASK .*\n)  (RANK_CLOCK .*\n)/m, '  RANK_CLOCK' . "\n" . '  RANK_TASK' . "\n"],
	[0, qr/X\(LOG\)/m, 'X(LOGS)']);
check('format constants in doc/formats', \&check_formats,
	[join('', map { sources($_) } qw(engine/*.c engine/*/*.c engine/*/*.h)), $formats],
	[1, qr/TFSSST01/m, ''], [1, qr/0x54465343/m, ''], [0, qr/0x544c5231u/m, '0x544c5232u']);
check('files that HACKING and doc/ name', \&check_paths, [$documents], [0, qr{engine/log/log\.c}, 'engine/log/logs.c']);

check('list of the tests', \&check_list, [slurp('t/README'), scalar `'$src/t/lib/list_tests'`],
	[0, qr/^  test_gc:.*\n/m, ''], [1, qr/^  fuzz_name:/m, '  fuzz_names:']);
my $sources = join(' ', map { s{^\Q$src\E/}{}r } map { glob("$src/$_/*.{c,cc,h,html} $src/$_/*/*.{c,cc,h,html} $src/$_/*/*/*.{c,cc,h,html}") } qw(engine fs master));
my $makefiles = join('', slurp('Makefile.am'), map { my $f = $_; my $d = s{/local\.mk$}{}r; slurp($f) =~ s{%D%}{$d}gr }
	map { s{^\Q$src\E/}{}r } map { glob("$src/$_") } qw(engine/local.mk engine/*/local.mk fs/local.mk master/local.mk));
check('sources in the makefiles', \&check_sources, [$sources, $makefiles],
	[1, qr{ engine/server/server\.h}m, ''], [0, qr{engine/log/log\.c}m, 'engine/log/logs.c']);
check('numbers of scripts', \&check_numbers, [join('', map { m{([^/]+)$} ? "$1\n" : '' } glob "$src/t/[0-9]*.t")], [0, qr/^06-/m, '05-']);

my $hacking = slurp('HACKING');
my $control = slurp('debian/control');
open(my $in, '<', "$build/engine/tabletfs.pc") or die "tabletfs.pc: $!";
my $pc = join('', <$in>);
check('version', \&check_version,
	[slurp('configure.ac'), slurp('debian/changelog'), slurp('NEWS'), says('tabletfs', '-V'), says('tabletctl', '-V'), $pc],
	[0, qr/^(AC_INIT\(\[tabletfs\], \[\d+)/m, 'AC_INIT([tabletfs], [77'], [1, qr/^tabletfs \(/m, 'tabletfs (7'], [2, qr/^\d+\./m, '77.'], [5, qr/^Version: /m, 'Version: 7']);
my $needed = join('', map { `LC_ALL=C readelf -d '$build/$_' 2>/dev/null` } qw(tabletfs tabletctl tabletfs-script libtabletfs.so.0.0.0));
check('libraries that the programs link', \&check_libraries, [$hacking, $needed],
	[0, qr/^  libzstd .*\n/m, ''], [1, qr/^.*\[libfuse3.so.*\n/m, '']);
check('packages of libraries', \&check_packages, [$hacking, $control, slurp('tools/install-packages')],
	[0, qr/^  libzstd .*\n/m, ''], [1, qr/^ libisal-dev,\n/m, ''], [2, qr/libpcre2-dev/m, '']);
check('symbols of libtabletfs', \&check_symbols, [slurp('engine/tabletfs.h'), slurp('debian/libtabletfs0.symbols')],
	[0, qr/\btfs_split\(/m, 'tfs_splits('], [1, qr/^ tfs_apply\@.*\n/m, '']);

$number++;
print((@missed ? 'not ok' : 'ok') . " $number - each check finds what it must\n");
print "# $_\n" for @missed;
print "1..$number\n";
